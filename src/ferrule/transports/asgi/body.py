"""Reading a request body, never more of it than allowed."""

from typing import Final

import anyio

from ferrule.transports.asgi.replies import Receive, Send

__all__ = ["BodyTooLarge", "ClientGone", "read_body", "refuse_body"]

_DRAIN_BYTES: Final = 4 * 1024 * 1024
_DRAIN_S: Final = 2.0


class BodyTooLarge(Exception):
    """The body is larger than the limit, by its own declaration or by what arrived.

    Attributes:
        has_more: a part of it has not arrived yet.
    """

    def __init__(self, has_more: bool) -> None:
        super().__init__()
        self.has_more = has_more


class ClientGone(Exception):
    """The client closed the connection before its body was complete."""


async def read_body(receive: Receive, first: bytes, max_body_bytes: int) -> bytes:
    """Return the rest of a body that did not come in one piece.

    Args:
        receive: the ASGI callable.
        first: what the first message held.
        max_body_bytes: more than this raises as soon as it has arrived, whatever the declared length.

    Raises:
        BodyTooLarge: see above.
        ClientGone: the client disconnected in mid-body.
    """
    chunks, size, has_more = [first], len(first), True
    while has_more and size <= max_body_bytes:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        has_more = message.get("more_body", False)
    if size > max_body_bytes:
        raise BodyTooLarge(has_more)
    return b"".join(chunks)


async def refuse_body(
    receive: Receive, send: Send, body: bytes, headers: list[tuple[bytes, bytes]], has_more: bool
) -> None:
    """Answer 413 and end the connection, in an order that lets the client read the answer.

    A client that is still sending sees a reset, and not our answer, if the connection closes while bytes of its are
    unread. So the answer goes out whole first, then a bounded amount of the body is dropped, then the response ends.
    """
    start = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": 413, "headers": start})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    dropped = 0
    with anyio.move_on_after(_DRAIN_S):
        while has_more and dropped < _DRAIN_BYTES:
            message = await receive()
            has_more = message["type"] == "http.request" and message.get("more_body", False)
            dropped += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})
