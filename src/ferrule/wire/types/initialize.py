"""The handshake of the legacy revisions: the params and the result of ``initialize``."""

from typing import TypeAlias

from ferrule.wire.types.base import Implementation, RequestParams, Result
from ferrule.wire.types.capabilities import ClientCapabilities, ServerCapabilities

__all__ = ["InitializeParams", "InitializeRequestParams", "InitializeResult"]


class InitializeParams(RequestParams):
    """The params with which a client opens a legacy connection; ``protocol_version`` should be its newest."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


InitializeRequestParams: TypeAlias = InitializeParams
"""The official schema's name for `InitializeParams`."""


class InitializeResult(Result):
    """The server's part of the handshake; ``protocol_version`` is the revision of the connection from then on.

    ``instructions`` are for the model and should not repeat the descriptions of tools.
    """

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None
