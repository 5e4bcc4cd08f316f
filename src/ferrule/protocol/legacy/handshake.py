"""The version negotiation of the legacy handshake.

The response and the state of the connection are made from one `Negotiation`, so that they have the same version. The
runner changes the connection after the response has passed the middleware.

Source: "Lifecycle" of 2024-11-05 to 2025-11-25. The result is the requested revision if the server supports it, else
the server's latest handshake revision, which the client may refuse.
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
    "negotiate_initialize",
    "negotiate_version",
    "read_initialize_params",
]


class Negotiation(Value, frozen=True):
    """The result of one ``initialize``.

    Attributes:
        client: the client's params (middleware may have changed them).
        protocol_version: the revision of the connection.
    """

    client: InitializeParams
    protocol_version: str


def negotiate_version(requested: str, supported: Sequence[str] = HANDSHAKE_PROTOCOL_VERSIONS) -> str:
    """Return the revision of the response: the requested one if it is supported, else the latest supported one.

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
        InvalidParams: the params have another shape.
    """
    try:
        return convert(dict(params or {}), InitializeParams)
    except ConvertError as error:
        raise InvalidParams(f"Invalid initialize params: {error}") from error


def negotiate_initialize(
    client: InitializeParams, supported: Sequence[str] = HANDSHAKE_PROTOCOL_VERSIONS
) -> Negotiation:
    """Return the negotiation for a client's params.

    Args:
        client: the params of its ``initialize`` request.
        supported: handshake revisions in rising order; not empty.
    """
    return Negotiation(client, negotiate_version(client.protocol_version, supported))
