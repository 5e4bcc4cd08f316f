"""The ``data`` of the errors that the protocol defines."""

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.capabilities import ClientCapabilities
from ferrule.wire.types.client_features.elicitation import ElicitRequestParams

__all__ = [
    "MissingRequiredClientCapabilityData",
    "URLElicitationRequiredData",
    "UnsupportedProtocolVersionData",
]


class UnsupportedProtocolVersionData(WireStruct):
    """Of -32022 (and of legacy servers' -32602 at ``initialize``): what the server speaks, what it was asked for."""

    supported: list[str]
    requested: str


class MissingRequiredClientCapabilityData(WireStruct):
    """Of -32021: the capabilities that the client would have to declare."""

    required_capabilities: ClientCapabilities


class URLElicitationRequiredData(WireStruct):
    """Of -32042 (2025-11-25 only): pages to visit before asking again, all in URL mode with an id."""

    elicitations: list[ElicitRequestParams]
