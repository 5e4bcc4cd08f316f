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
    """``data`` of -32022, and of -32602 at ``initialize`` of legacy servers: supported and requested revisions."""

    supported: list[str]
    requested: str


class MissingRequiredClientCapabilityData(WireStruct):
    """``data`` of -32021: the capabilities that the client must declare for this request."""

    required_capabilities: ClientCapabilities


class URLElicitationRequiredData(WireStruct):
    """``data`` of -32042 (2025-11-25 only): elicitations in URL mode, to complete before the request is repeated."""

    elicitations: list[ElicitRequestParams]
