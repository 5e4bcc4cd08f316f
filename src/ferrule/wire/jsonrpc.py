"""JSON-RPC 2.0 messages: their types, their invariants, and the classification of decoded values.

Source: JSON-RPC 2.0; MCP "Base protocol". MCP restricts it: an id is text or an integer and not ``null`` (except in the
response to a request that could not be read), params are an object, and batches exist in revision 2025-03-26 only, so
that an array is not a message here.

The hot path does not build these objects: it calls `message_kind` for the decoded mapping and writes responses with
`encode_response`. `parse_message` and `decode_message` use the same classification.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import UNSET

from ferrule.wire.codec import Encoded, decode, encode
from ferrule.wire.faults import FerruleError
from ferrule.wire.struct import WireStruct

__all__ = [
    "BATCH_TOO_LARGE",
    "MAX_BATCH",
    "InvalidMessage",
    "JsonRpcError",
    "JsonRpcErrorCode",
    "JsonRpcMessage",
    "JsonRpcNotification",
    "JsonRpcRequest",
    "JsonRpcResponse",
    "RequestId",
    "WholeResponse",
    "decode_message",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_response",
    "message_kind",
    "parse_message",
    "readable_id",
    "shown_text",
]

RequestId: TypeAlias = str | int
"""An id as on the wire: ``1`` and ``"1"`` are different ids."""

MAX_BATCH: Final = 1000
"""Maximum number of messages in a batch (2025-03-26, the only revision with batches)."""
BATCH_TOO_LARGE: Final = f"A batch holds {MAX_BATCH} messages at most"

_MAX_SHOWN_CHARS: Final = 200

MessageKind: TypeAlias = Literal["request", "notification", "response"]


class JsonRpcErrorCode(IntEnum):
    """The codes that JSON-RPC and MCP define. Peers may send others; `JsonRpcError.code` keeps any integer."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002
    """Revisions up to 2025-11-25. From 2026-07-28 a missing resource is `INVALID_PARAMS`."""
    HEADER_MISMATCH = -32020
    """From 2026-07-28: a mirrored HTTP header contradicts the body."""
    MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
    """From 2026-07-28; ``data.requiredCapabilities`` names what the client did not declare."""
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    """From 2026-07-28; ``data.supported`` lists the server's revisions."""
    URL_ELICITATION_REQUIRED = -32042
    """Revision 2025-11-25 only."""


class InvalidMessage(FerruleError, ValueError):
    """A decoded JSON value is not a JSON-RPC message that MCP allows (the sender's fault).

    Attributes:
        id: the id for the error response; ``None`` if none could be read.
        code: -32600, or -32602 if only ``params`` has the wrong type.
        wants_answer: whether it gets an error response. ``False`` for a malformed notification or response: on a duplex
            channel an error with the id of a response would be taken for the response to the peer's own request.
    """

    def __init__(
        self,
        message: str,
        *,
        id: RequestId | None = None,
        code: int = JsonRpcErrorCode.INVALID_REQUEST,
        wants_answer: bool = True,
    ) -> None:
        super().__init__(message)
        self.id = id
        self.code = int(code)
        self.wants_answer = wants_answer


class JsonRpcError(WireStruct):
    """The error member of a response.

    ``code`` is a plain integer, so that codes outside `JsonRpcErrorCode` survive a round trip. ``data`` absent
    and ``data`` null are different.
    """

    code: int
    message: str
    data: Any = UNSET


class JsonRpcRequest(WireStruct, tag_field="jsonrpc", tag="2.0"):
    """A message that expects a response with the same id.

    Raises:
        TypeError: the id is not text or an integer (``True`` is not an integer here).
    """

    id: RequestId
    method: str
    params: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if type(self.id) is not int and not isinstance(self.id, str):
            raise TypeError("A request id is a string or an integer")


class JsonRpcNotification(WireStruct, tag_field="jsonrpc", tag="2.0"):
    """A message without an id, which gets no response."""

    method: str
    params: dict[str, Any] | None = None


class JsonRpcResponse(WireStruct, tag_field="jsonrpc", tag="2.0"):
    """The answer to one request: exactly one of ``result`` and ``error``.

    ``id`` is ``None`` only beside an error, when the request's id could not be read.

    Raises:
        ValueError: both or neither of the two were given, or a result without an id.
    """

    id: RequestId | None
    result: Any = UNSET
    error: JsonRpcError | None = None

    def __post_init__(self) -> None:
        if (self.result is UNSET) == (self.error is None):
            raise ValueError("A response has exactly one of result and error")
        if self.id is None and self.error is None:
            raise ValueError("A result needs the id of its request")


JsonRpcMessage: TypeAlias = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse


def readable_id(payload: Any) -> RequestId | None:
    """Return the id of a message that may be broken elsewhere; ``None`` if it has none that can be echoed."""
    if type(payload) is not dict and not isinstance(payload, Mapping):
        return None
    found: Any = cast("Mapping[str, Any]", payload).get("id")
    return found if type(found) is int or isinstance(found, str) else None


def message_kind(payload: Any) -> MessageKind:
    """Return what kind of message a decoded JSON value is.

    A response is set right where peers differ harmlessly: of both members, the one that is ``null`` is taken out
    (many servers write every member of their type), and an error code ``-32000.0`` becomes an integer.

    Raises:
        InvalidMessage: it is none; carries the id and the code to answer with.
    """
    if type(payload) is not dict:
        what = "A batch of messages is not accepted here" if isinstance(payload, list) else "A message is an object"
        raise InvalidMessage(what)
    message: dict[str, Any] = payload  # pyright: ignore[reportUnknownVariableType]
    if message.get("jsonrpc") != "2.0":
        raise _invalid(message, 'A message carries "jsonrpc": "2.0"')
    if "method" in message:
        method, id = message["method"], message.get("id")
        if (
            type(method) is str
            and method
            and (type(id) is int or type(id) is str)
            and type(message.get("params")) is dict
        ):
            return "request"  # the common case, without one more frame
        return _call_kind(message)
    if "result" in message or "error" in message:
        _check_response(message)
        return "response"
    raise _invalid(message, "A message has a method, a result or an error")


def _call_kind(message: dict[str, Any]) -> MessageKind:
    method = message["method"]
    if not isinstance(method, str) or not method:
        raise _invalid(message, "A method is text that is not empty")
    params = message.get("params")
    if params is not None and type(params) is not dict:
        raise _invalid(message, "Params are an object", JsonRpcErrorCode.INVALID_PARAMS)
    if "id" not in message:
        return "notification"
    id = message["id"]
    if type(id) is int or isinstance(id, str):
        return "request"
    raise _invalid(message, "A request id is a string or an integer")


def _check_response(message: dict[str, Any]) -> None:
    if "result" in message and "error" in message:
        if message["error"] is not None and message["result"] is not None:
            raise _invalid(message, "A response has exactly one of result and error")
        del message["error" if message["error"] is None else "result"]
    id, error = message.get("id"), message.get("error")
    if type(error) is dict and type(error.get("code")) is float and error["code"].is_integer():  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        error["code"] = int(error["code"])  # pyright: ignore[reportUnknownArgumentType]
    if "error" in message and not _is_error(error):
        raise _invalid(message, "An error has an integer code and a text message")
    if type(id) is int or isinstance(id, str) or (id is None and "error" in message):
        return
    if type(id) is float and id.is_integer():  # a peer without an integer type echoes 1 as 1.0
        return
    raise _invalid(message, "A response carries the id of its request")


def _invalid(
    message: dict[str, Any], why: str, code: JsonRpcErrorCode = JsonRpcErrorCode.INVALID_REQUEST
) -> InvalidMessage:
    method = message.get("method")
    if "method" not in message:
        wants_answer = "result" not in message and "error" not in message
    else:
        wants_answer = "id" in message or not isinstance(method, str) or not method
    return InvalidMessage(why, id=readable_id(message), code=code, wants_answer=wants_answer)


def _is_error(error: Any) -> bool:
    return (
        isinstance(error, dict)
        and type(error.get("code")) is int  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        and isinstance(error.get("message"), str)  # pyright: ignore[reportUnknownMemberType]
    )


def parse_message(payload: dict[str, Any]) -> JsonRpcMessage:
    """Return the typed message in a decoded mapping.

    Raises:
        InvalidMessage: the mapping is not a message; its ``code`` is that of the error response.
    """
    kind = message_kind(payload)
    params = payload.get("params")
    if kind == "request":
        return JsonRpcRequest(payload["id"], payload["method"], params)
    if kind == "notification":
        return JsonRpcNotification(payload["method"], params)
    if "result" in payload:
        return JsonRpcResponse(_whole(payload["id"]), result=payload["result"])
    error = payload["error"]
    return JsonRpcResponse(
        _whole(payload.get("id")), error=JsonRpcError(error["code"], error["message"], error.get("data", UNSET))
    )


def _whole(id: Any) -> Any:
    return int(id) if type(id) is float else id


def decode_message(data: bytes | bytearray | memoryview | str) -> JsonRpcMessage:
    """Return the typed message in JSON bytes.

    Raises:
        DecodeError: not JSON.
        InvalidMessage: the bytes are JSON, but not a message.
    """
    return parse_message(decode(data))


class WholeResponse(bytes):
    """An encoded response with its id, in the place of a result."""


def encode_response(id: RequestId, result: Any) -> bytes:
    """Return an encoded result response; ``result`` is a Struct, a mapping, `Encoded` or a `WholeResponse`.

    An `Encoded` result is inserted unchanged: its depth was checked when it was encoded.
    """
    if type(result) is WholeResponse:
        return result
    if type(result) is Encoded:
        return b"".join((b'{"jsonrpc":"2.0","id":', encode(id), b',"result":', result, b"}"))
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def encode_error(id: RequestId | None, error: JsonRpcError) -> bytes:
    """Return an encoded error response; ``id`` is ``None`` if the request's id could not be read."""
    return encode({"jsonrpc": "2.0", "id": id, "error": error})


def encode_request(id: RequestId, method: str, params: Any = None) -> bytes:
    """Return an encoded request; ``params`` are omitted if ``None``."""
    if params is None:
        return encode({"jsonrpc": "2.0", "id": id, "method": method})
    return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def encode_notification(method: str, params: Any = None) -> bytes:
    """Return an encoded notification; ``params`` are omitted if ``None``."""
    if params is None:
        return encode({"jsonrpc": "2.0", "method": method})
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def shown_text(text: str) -> str:
    """Return a text of a message, such as its method, for the log: one line of at most 200 characters and "…".

    Control characters are escaped: a peer could otherwise write lines of its own into the log.
    """
    short = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
    return short if short.isprintable() else repr(short)[1:-1]
