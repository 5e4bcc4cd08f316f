"""The protocol types, all in one place: messages, params, results, content, capabilities, and the revisions.

The JSON-RPC types are defined in ``ferrule.wire.jsonrpc``, everything else in the chapters of ``ferrule.wire.types``.
"""

from msgspec import UNSET, UnsetType

from ferrule.wire import types as _chapters
from ferrule.wire.jsonrpc import (
    JsonRpcError,
    JsonRpcErrorCode,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    RequestId,
    parse_message,
)
from ferrule.wire.revisions import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
    REVISIONS,
    Revision,
)
from ferrule.wire.struct import OpenBundle, WireStruct
from ferrule.wire.types import *  # noqa: F403

__all__ = [
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "LATEST_HANDSHAKE_VERSION",
    "LATEST_MODERN_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "REVISIONS",
    "UNSET",
    "JsonRpcError",
    "JsonRpcErrorCode",
    "JsonRpcMessage",
    "JsonRpcNotification",
    "JsonRpcRequest",
    "JsonRpcResponse",
    "OpenBundle",
    "RequestId",
    "Revision",
    "UnsetType",
    "WireStruct",
    "parse_message",
]
__all__ += _chapters.__all__
