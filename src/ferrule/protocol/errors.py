"""One family of errors, and the one boundary where an exception becomes a JSON-RPC error.

The class says whose business an error is. An `MCPError` is meant for the peer: it has a code, and its message and
data go out as they are. A `LocalError` never leaves the process: it has no code, so that a time-out here cannot be
mistaken for an answer from there (specification 2026-07-28, "Base protocol", error codes). A `RemoteError` is what
the peer answered. Anything else that a handler raises is internal: `error_from_exception` says so and nothing more;
the caller logs it.
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
    """A failure that the peer is told: code, message and data go on the wire as they are.

    Args:
        message: one short sentence without internals.
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
    """-32600: the peer's JSON is no request that may be made here and now."""

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
    """-32603: this side failed; the peer learns no more than that."""

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
    """-32021 (2026-07-28): the request cannot be served without something that its client did not declare.

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
    """-32022 (2026-07-28): the named revision is not spoken here.

    Args:
        requested: as the peer wrote it.
        supported: what it may ask for instead.
    """

    default_code = JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION

    def __init__(self, requested: Any, supported: Iterable[str]) -> None:
        super().__init__("Unsupported protocol version", data={"supported": list(supported), "requested": requested})


class RemoteError(MCPError):
    """The peer answered a request with an error (its code, message and data)."""

    @classmethod
    def from_error(cls, error: JsonRpcError) -> RemoteError:
        """Return the exception for the error member of a response."""
        return cls(error.message, code=error.code, data=error.data)


class LocalError(FerruleError):
    """A failure on this side of the connection; it has no code and is never sent."""


class ConnectionClosed(LocalError):
    """The connection ended before the answer came, or a call was made after it ended."""


class RequestTimeout(LocalError, TimeoutError):
    """No answer came within the time given.

    Attributes:
        method: what was asked.
        timeout_s: how long it waited, in seconds.
        is_cap: whether that was the absolute bound (``max_total_s``), which progress does not extend.
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
    """The peer did not declare what a request to it needs.

    Attributes:
        required: the missing capabilities in their wire shape.
    """

    def __init__(self, required: Mapping[str, Any]) -> None:
        super().__init__(f"The client did not declare {', '.join(sorted(required)) or 'the capability'}")
        self.required = dict(required)


class NotInRevision(CapabilityNotDeclared):
    """The revision in use cannot express the question, whatever the client declared: whoever has a way without it takes
    that way for both."""

    def __init__(self, message: str) -> None:
        LocalError.__init__(self, message)
        self.required = {}


class ClientNotAskable(NoBackChannel, CapabilityNotDeclared):
    """A legacy client that has no way to answer here, whatever it declared: without a session, or without a stream."""

    def __init__(self, message: str, required: Mapping[str, Any] | None = None) -> None:
        LocalError.__init__(self, message)
        self.required = dict(required or {})


def sole_error(error: BaseException) -> BaseException:
    """Return the one exception in a group, however deep; anything else, a group of several too, as it is.

    A task group wraps what its only failing task raised, and the author meant what he raised.
    """
    found = error
    while isinstance(found, BaseExceptionGroup):
        inside = cast("BaseExceptionGroup[BaseException]", found).exceptions
        if len(inside) != 1:
            return error
        found = inside[0]
    return found


def error_from_exception(error: BaseException) -> JsonRpcError:
    """Return what the peer is told about an exception: the single mapping to JSON-RPC codes.

    An `MCPError` speaks for itself, also alone in a group (`sole_error`); bytes and shapes that could not be read get
    their own codes; everything else is "Internal error" without detail. The caller logs what it did not expect.
    """
    error = sole_error(error)
    if isinstance(error, MCPError):
        return error.to_error()
    if isinstance(error, InvalidMessage):
        return JsonRpcError(error.code, str(error))
    if isinstance(error, DecodeError):
        return JsonRpcError(int(JsonRpcErrorCode.PARSE_ERROR), str(error))
    return JsonRpcError(int(JsonRpcErrorCode.INTERNAL_ERROR), "Internal error")
