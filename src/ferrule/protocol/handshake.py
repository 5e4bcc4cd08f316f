"""The legacy handshake as one pure negotiation.

Result and committed state both come from one `Negotiation`, so that a server cannot answer one version and remember
another. The runner commits only after middleware has had its say.

Source: "Lifecycle" of 2024-11-05 to 2025-11-25. The rule: the requested revision if we speak it, else our latest
handshake revision; the client then decides whether it can live with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferrule.protocol.errors import InvalidParams
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from ferrule.wire.struct import Value
from ferrule.wire.types import InitializeParams

__all__ = [
    "Negotiation",
    "is_handshake_version",
    "negotiate_initialize",
    "negotiate_version",
    "read_initialize_params",
]


class Negotiation(Value, frozen=True):
    """What one `initialize` settled.

    Attributes:
        client: the client's params, as they were negotiated (middleware may have rewritten them).
        protocol_version: the revision that holds from now on.
    """

    client: InitializeParams
    protocol_version: str


def is_handshake_version(version: object) -> bool:
    """Return whether this is a revision that ``initialize`` can settle on; any JSON value may be asked about."""
    return isinstance(version, str) and version in HANDSHAKE_PROTOCOL_VERSIONS


def negotiate_version(requested: str, supported: Sequence[str] = HANDSHAKE_PROTOCOL_VERSIONS) -> str:
    """Return the revision to answer with: the requested one if spoken, else the latest spoken one.

    Args:
        requested: the client's ``protocolVersion``.
        supported: handshake revisions in rising order; not empty.
    """
    if requested in supported:
        return requested
    return supported[-1] if supported else LATEST_HANDSHAKE_VERSION


def read_initialize_params(params: Mapping[str, Any] | None) -> InitializeParams:
    """Return the typed params of `initialize`.

    Raises:
        InvalidParams: the client sent something else.
    """
    try:
        return convert(dict(params or {}), InitializeParams)
    except ConvertError as error:
        raise InvalidParams(f"Invalid initialize params: {error}") from error


def negotiate_initialize(
    client: InitializeParams, supported: Sequence[str] = HANDSHAKE_PROTOCOL_VERSIONS
) -> Negotiation:
    """Settle the handshake for these params."""
    return Negotiation(client, negotiate_version(client.protocol_version, supported))
