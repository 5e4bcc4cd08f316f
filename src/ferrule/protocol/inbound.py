"""The checks of the modern per-request envelope.

From revision 2026-07-28 on there is no handshake: each request has its protocol version and its client's capabilities
in ``params._meta``, and over HTTP mirrors some of the body in headers. Only that is checked here, not whether the
method exists. The functions are pure: no I/O, no clock, no logging, and no JSON value makes them raise.

The order of the checks matters; the first failed check decides. The version header is checked before the version, so
that a client which contradicts itself gets that error. The method and name headers are checked after the version, so
that a client of a newer revision can first negotiate an older one.

Source: 2026-07-28, "Base protocol" (`_meta`), "Versioning", "Streamable HTTP" (headers, status codes).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from ferrule.wire.headers import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PARAM_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    HeaderValueError,
    ParamHeader,
    decode_header_value,
)
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS
from ferrule.wire.struct import Value, refuses_as_a_dataclass
from ferrule.wire.types.base import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
)

__all__ = [
    "CLIENT_CAPABILITIES_KEY",
    "CLIENT_INFO_KEY",
    "ERROR_CODE_HTTP_STATUS",
    "LOG_LEVEL_KEY",
    "MCP_METHOD_HEADER",
    "MCP_NAME_HEADER",
    "MCP_PARAM_HEADER_PREFIX",
    "MCP_PROTOCOL_VERSION_HEADER",
    "NAME_PARAMS",
    "PROTOCOL_VERSION_KEY",
    "InboundLadderRejection",
    "InboundModernRoute",
    "MirroredHeaders",
    "classify_inbound_request",
    "has_modern_envelope",
    "http_status",
]

MCP_PARAM_HEADER_PREFIX: Final = MCP_PARAM_PREFIX

PROTOCOL_VERSION_KEY: Final = META_PROTOCOL_VERSION
CLIENT_CAPABILITIES_KEY: Final = META_CLIENT_CAPABILITIES
CLIENT_INFO_KEY: Final = META_CLIENT_INFO
LOG_LEVEL_KEY: Final = META_LOG_LEVEL

NAME_PARAMS: Final[Mapping[str, str]] = MappingProxyType(
    {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
)
"""Method → the param that the ``Mcp-Name`` header mirrors."""


class MirroredHeaders:
    """The members that modern requests to one server repeat in HTTP headers; an attachment of the `Server`.

    A request whose headers say something else is refused: proxies may have routed it by them.

    Attributes:
        names: method → the param that the ``Mcp-Name`` header mirrors; extensions add theirs.
        params: tool name → the plan of its ``Mcp-Param-*`` headers (`ferrule.wire.headers.compile_param_plan`), for
            tools that have any; set by the code that registers a tool.
    """

    __slots__ = ("names", "params")

    def __init__(self) -> None:
        self.names: dict[str, str] = dict(NAME_PARAMS)
        self.params: dict[str, tuple[ParamHeader, ...]] = {}


ERROR_CODE_HTTP_STATUS: Final[Mapping[int, int]] = MappingProxyType(
    {
        int(JsonRpcErrorCode.PARSE_ERROR): 400,
        int(JsonRpcErrorCode.INVALID_REQUEST): 400,
        int(JsonRpcErrorCode.INVALID_PARAMS): 400,
        int(JsonRpcErrorCode.HEADER_MISMATCH): 400,
        int(JsonRpcErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY): 400,
        int(JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION): 400,
        int(JsonRpcErrorCode.METHOD_NOT_FOUND): 404,
    }
)
"""HTTP status of a modern error response that is not a stream, by JSON-RPC code; other codes have the caller's default.

A legacy error response always has status 200: a legacy client takes 404 for a lost session.
"""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_DICT: Final = frozenset({dict})
_REQUIRED_KEYS: Final = (PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY)


@refuses_as_a_dataclass
class InboundModernRoute(Value, frozen=True):
    """The checked envelope of a request.

    Attributes:
        protocol_version: one of the supported modern versions.
        client_info: the raw envelope value, ``None`` if the client sent none; its shape is not checked.
        client_capabilities: the raw envelope value; its shape is not checked.
    """

    protocol_version: str
    client_info: Any
    client_capabilities: Any


@refuses_as_a_dataclass
class InboundLadderRejection(Value, frozen=True):
    """The error response for the first failed check.

    Attributes:
        code: JSON-RPC code.
        message: one sentence for the client's author.
        data: JSON value, ``None`` for none.
    """

    code: int
    message: str
    data: Any = None


def http_status(code: int, default: int = 200) -> int:
    """Return the HTTP status of a modern JSON-RPC error; ``default`` if the specification prescribes none."""
    return ERROR_CODE_HTTP_STATUS.get(code, default)


def has_modern_envelope(params: Any) -> bool:
    """Return whether params are those of a modern request: ``_meta`` has any key of the envelope.

    One key is enough, so that an incomplete envelope gets a precise error instead of being taken for a legacy request.
    """
    sent: Mapping[str, Any] = params if type(params) in _DICT or issubclass(type(params), Mapping) else _NOTHING
    meta: Any = sent.get("_meta")
    if type(meta) not in _DICT and not issubclass(type(meta), Mapping):
        return False
    return PROTOCOL_VERSION_KEY in meta or CLIENT_CAPABILITIES_KEY in meta or CLIENT_INFO_KEY in meta


def classify_inbound_request(
    body: Any,
    *,
    headers: Mapping[str, str] | None = None,
    supported_modern_versions: Collection[str] = MODERN_PROTOCOL_VERSIONS,
    require_client_info: bool = False,
    name_params: Mapping[str, str] = NAME_PARAMS,
) -> InboundModernRoute | InboundLadderRejection:
    """Check the envelope of one decoded request; it never raises for a JSON value.

    Args:
        body: the decoded JSON-RPC request.
        headers: HTTP headers under lower-case names; ``None`` on other transports, where headers are not checked.
        supported_modern_versions: the server's revisions of the modern era.
        require_client_info: also refuse an envelope without client info, which the published schema only recommends.
        name_params: method → the param that ``Mcp-Name`` must equal; extensions add theirs.

    Returns:
        The version and the client, or the error response for the first failed check.
    """
    # The exact type first: a check against `Mapping` is a Python call, three times in each request.
    message: Mapping[str, Any] = body if type(body) in _DICT or issubclass(type(body), Mapping) else _NOTHING
    sent: Any = message.get("params")
    params: Mapping[str, Any] = sent if type(sent) in _DICT or issubclass(type(sent), Mapping) else _NOTHING
    meta: Any = params.get("_meta")
    envelope: Mapping[str, Any] = meta if type(meta) in _DICT or issubclass(type(meta), Mapping) else _NOTHING
    if (
        PROTOCOL_VERSION_KEY not in envelope
        or CLIENT_CAPABILITIES_KEY not in envelope
        or (require_client_info and CLIENT_INFO_KEY not in envelope)
    ):
        return _missing_keys(envelope, require_client_info)
    version: Any = envelope[PROTOCOL_VERSION_KEY]
    if not isinstance(version, str):
        return _rejection(JsonRpcErrorCode.INVALID_PARAMS, f"{PROTOCOL_VERSION_KEY} must be a string")
    if headers is not None:
        stated = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if stated is None or stated.strip(" \t") != version:
            what = "is missing" if stated is None else "differs from the version in params._meta"
            return _rejection(JsonRpcErrorCode.HEADER_MISMATCH, f"The MCP-Protocol-Version header {what}")
    if version not in supported_modern_versions:
        return InboundLadderRejection(
            int(JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION),
            "Unsupported protocol version",
            {"supported": list(supported_modern_versions), "requested": version},
        )
    if headers is not None:
        problem = _mirror_problem(message, params, headers, name_params)
        if problem is not None:
            return _rejection(JsonRpcErrorCode.HEADER_MISMATCH, problem)
    return InboundModernRoute(version, envelope.get(CLIENT_INFO_KEY), envelope[CLIENT_CAPABILITIES_KEY])


def _rejection(code: JsonRpcErrorCode, message: str) -> InboundLadderRejection:
    return InboundLadderRejection(int(code), message)


def _missing_keys(envelope: Mapping[str, Any], require_client_info: bool) -> InboundLadderRejection:
    required = (*_REQUIRED_KEYS, CLIENT_INFO_KEY) if require_client_info else _REQUIRED_KEYS
    missing = " and ".join(key for key in required if key not in envelope)
    return _rejection(JsonRpcErrorCode.INVALID_PARAMS, f"params._meta must carry {missing}")


def _mirror_problem(
    message: Mapping[str, Any], params: Mapping[str, Any], headers: Mapping[str, str], name_params: Mapping[str, str]
) -> str | None:
    """Return the error text if ``Mcp-Method`` or ``Mcp-Name`` contradicts the body; ``None`` if they agree."""
    method: Any = message.get("method")
    stated = headers.get(MCP_METHOD_HEADER)
    if stated is None:
        return "The Mcp-Method header is missing"
    if stated.strip(" \t") != method:
        return "The Mcp-Method header differs from the method in the body"
    param = name_params.get(method)
    if param is None:
        return None
    name = headers.get(MCP_NAME_HEADER)
    if name is None:
        return "The Mcp-Name header is missing"
    name = name.strip(" \t")
    if not name.startswith("=?"):  # the common case: a name that is not encoded
        return None if name == params.get(param) else f"The Mcp-Name header differs from params.{param}"
    try:
        decoded = decode_header_value(name)
    except HeaderValueError as error:
        return f"The Mcp-Name header is malformed: {error}"
    return None if decoded == params.get(param) else f"The Mcp-Name header differs from params.{param}"
