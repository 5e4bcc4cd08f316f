"""The errors of Ferrule, and the one function that converts an exception to a JSON-RPC error.

An `MCPError` is sent to the peer: it has a code, and its message and data are sent unchanged. A `LocalError` is never
sent: it has no code, so that a local time-out cannot be mistaken for an error response of the peer (2026-07-28, "Base
protocol", error codes). A `RemoteError` is an error response of the peer. Any other exception of a handler becomes
"Internal error" without details (`error_from_exception`); the caller logs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from msgspec import UNSET

from ferrule.wire.faults import ConvertError, DecodeError, EncodeError, FerruleError
from ferrule.wire.jsonrpc import InvalidMessage, JsonRpcError, JsonRpcErrorCode

__all__ = [
    "CapabilityNotDeclared",
    "ClientNotAskable",
    "ConnectionClosed",
    "ConvertError",
    "DecodeError",
    "EncodeError",
    "FerruleError",
    "HeaderMismatch",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalError",
    "MCPError",
    "MethodNotFound",
    "MissingRequiredClientCapability",
    "NoBackChannel",
    "NotInRevision",
    "ParseError",
    "RemoteError",
    "RequestTimeout",
    "ResourceNotFound",
    "UnsupportedProtocolVersion",
    "error_from_exception",
    "sole_error",
]


class MCPError(FerruleError):
    """An error that is sent to the peer: code, message and data are sent unchanged.

    Args:
        message: one short sentence without internal details.
        code: any integer; outside -32768…-32000 for an application's own codes. ``None`` takes the class's code.
        data: any JSON value; left out when not given (``None`` is sent as ``null``).
    """

    default_code: ClassVar[int] = JsonRpcErrorCode.INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: Any = UNSET) -> None:
        super().__init__(message)
        self.message = message
        self.code = int(self.default_code if code is None else code)
        self.data = data

    def to_error(self) -> JsonRpcError:
        """Return the error member of a response."""
        return JsonRpcError(self.code, self.message, self.data)

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class ParseError(MCPError):
    """-32700: the peer's bytes are not JSON."""

    default_code = JsonRpcErrorCode.PARSE_ERROR


class InvalidRequest(MCPError):
    """-32600: the peer's JSON is not a valid request, or the request is not allowed in the present state."""

    default_code = JsonRpcErrorCode.INVALID_REQUEST


class MethodNotFound(MCPError):
    """-32601: this server, or this revision, has no such method; ``data`` is the method."""

    default_code = JsonRpcErrorCode.METHOD_NOT_FOUND

    def __init__(self, method: str) -> None:
        super().__init__("Method not found", data=method)


class InvalidParams(MCPError):
    """-32602: the params do not fit the method, or name something that does not exist."""

    default_code = JsonRpcErrorCode.INVALID_PARAMS


class InternalError(MCPError):
    """-32603: this side failed; the peer gets no details."""

    default_code = JsonRpcErrorCode.INTERNAL_ERROR

    def __init__(self, message: str = "Internal error", *, data: Any = UNSET) -> None:
        super().__init__(message, data=data)


class ResourceNotFound(MCPError):
    """A resource does not exist; ``data.uri`` names it.

    Args:
        uri: as the peer wrote it.
        code: the revision's code for it (`Revision.missing_resource_code`).
    """

    default_code = JsonRpcErrorCode.INVALID_PARAMS

    def __init__(self, uri: str, *, code: int | None = None) -> None:
        super().__init__("Resource not found", code=code, data={"uri": uri})


class HeaderMismatch(MCPError):
    """-32020 (2026-07-28): a mirrored HTTP header is missing, malformed or contradicts the body."""

    default_code = JsonRpcErrorCode.HEADER_MISMATCH


class MissingRequiredClientCapability(MCPError):
    """-32021 (2026-07-28): the request cannot be served without a capability that its client did not declare.

    Args:
        required: the missing capabilities in the shape of client capabilities, such as ``{"sampling": {}}``.
    """

    default_code = JsonRpcErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY

    def __init__(self, required: Mapping[str, Any]) -> None:
        names = ", ".join(sorted(required)) or "a capability"
        super().__init__(
            f"This request needs a client that declares {names}", data={"requiredCapabilities": dict(required)}
        )


class UnsupportedProtocolVersion(MCPError):
    """-32022 (2026-07-28): this server does not support the requested revision.

    Args:
        requested: as the peer wrote it.
        supported: the revisions that the peer may request instead.
    """

    default_code = JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION

    def __init__(self, requested: Any, supported: Iterable[str]) -> None:
        super().__init__("Unsupported protocol version", data={"supported": list(supported), "requested": requested})


class RemoteError(MCPError):
    """An error response of the peer, with its code, message and data."""

    @classmethod
    def from_error(cls, error: JsonRpcError) -> RemoteError:
        """Return the exception for the error member of a response."""
        return cls(error.message, code=error.code, data=error.data)


class LocalError(FerruleError):
    """A failure on this side of the connection; it has no code and is never sent."""


class ConnectionClosed(LocalError):
    """The connection closed before the response arrived, or a request was made after it closed."""


class RequestTimeout(LocalError, TimeoutError):
    """No response arrived in time.

    Attributes:
        method: the method of the request.
        timeout_s: the time limit in seconds.
        is_cap: whether that was the absolute limit (``max_total_s``), which progress does not extend.
    """

    def __init__(self, method: str, timeout_s: float, *, is_cap: bool = False) -> None:
        words = " in all (max_total_s, which progress does not extend)" if is_cap else ""
        super().__init__(f"No answer to {method} within {timeout_s:g} s{words}")
        self.method = method
        self.timeout_s = timeout_s
        self.is_cap = is_cap


class NoBackChannel(LocalError):
    """This connection cannot carry a request to the peer (the program's mistake, or an option that forbids it)."""


class CapabilityNotDeclared(LocalError):
    """The peer did not declare a capability that a request to it needs.

    Attributes:
        required: the missing capabilities in their wire shape.
    """

    def __init__(self, required: Mapping[str, Any]) -> None:
        super().__init__(f"The client did not declare {', '.join(sorted(required)) or 'the capability'}")
        self.required = dict(required)


class NotInRevision(CapabilityNotDeclared):
    """The connection's revision has no such request or field, whatever the client declared.

    A subclass of `CapabilityNotDeclared`, so that one ``except`` handles both.
    """

    def __init__(self, message: str) -> None:
        LocalError.__init__(self, message)
        self.required = {}


class ClientNotAskable(NoBackChannel, CapabilityNotDeclared):
    """A legacy client cannot send a response, whatever it declared: it has no session, or no stream."""

    def __init__(self, message: str, required: Mapping[str, Any] | None = None) -> None:
        LocalError.__init__(self, message)
        self.required = dict(required or {})


def sole_error(error: BaseException) -> BaseException:
    """Return the only exception in an exception group, at any depth; return any other exception unchanged.

    A task group wraps the exception of its only failed task; the author means that exception, not the group.
    """
    found = error
    while isinstance(found, BaseExceptionGroup):
        inside = cast("BaseExceptionGroup[BaseException]", found).exceptions
        if len(inside) != 1:
            return error
        found = inside[0]
    return found


def error_from_exception(error: BaseException) -> JsonRpcError:
    """Return the JSON-RPC error that is sent for an exception.

    An `MCPError`, also alone in a group (`sole_error`), has its own code, message and data. Unreadable bytes and
    invalid messages have their codes. Anything else is "Internal error" without details; the caller logs it.
    """
    error = sole_error(error)
    if isinstance(error, MCPError):
        return error.to_error()
    if isinstance(error, InvalidMessage):
        return JsonRpcError(error.code, str(error))
    if isinstance(error, DecodeError):
        return JsonRpcError(int(JsonRpcErrorCode.PARSE_ERROR), str(error))
    return JsonRpcError(int(JsonRpcErrorCode.INTERNAL_ERROR), "Internal error")
