"""The handshake of the legacy revisions: ``initialize`` and its answer."""

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
    """The server's side of the handshake; ``protocol_version`` is what the connection speaks from now on.

    ``instructions`` are guidance for the model and should not repeat tool descriptions.
    """

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None
