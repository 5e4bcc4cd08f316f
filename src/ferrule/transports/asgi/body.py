"""Reads a request body up to a bound."""

from typing import Final

import anyio

from ferrule.transports.asgi.replies import Receive, Send

__all__ = ["BodyTooLarge", "ClientGone", "read_body", "refuse_body"]

# Enough for the data in the network buffers of both systems. A client that sends more may not read the response.
_DRAIN_BYTES: Final = 4 * 1024 * 1024
_DRAIN_S: Final = 2.0


class BodyTooLarge(Exception):
    """The body is larger than the limit, by its declared length or by the bytes received.

    Attributes:
        has_more: whether a part of it has not arrived yet.
    """

    def __init__(self, has_more: bool) -> None:
        super().__init__()
        self.has_more = has_more


class ClientGone(Exception):
    """The client closed the connection before its body was complete."""


async def read_body(receive: Receive, first: bytes, max_body_bytes: int) -> bytes:
    """Return a whole body that arrives in several ASGI messages.

    Args:
        receive: the ASGI callable.
        first: the body of the first message.
        max_body_bytes: bound for the bytes received, whatever the declared length is.

    Raises:
        BodyTooLarge: more than ``max_body_bytes`` were received.
        ClientGone: the client disconnected before the body was complete.
    """
    chunks, size, has_more = [first], len(first), True
    # Counted while it arrives: the declared length may be absent or wrong.
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
    """Respond with 413 and close the connection, in an order in which the client can read the response.

    If the connection were closed with unread bytes, a client that is still sending would get a reset and not the
    response. So the whole response is sent first, then a bounded amount of the body is discarded, then the connection
    is closed.
    """
    start = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": 413, "headers": start})
    # `more_body`: the response is complete by its length, but the ASGI server must not close the connection yet.
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if has_more:  # A thread that serves its request without an event loop has the whole body, and no timers.
        dropped = 0
        with anyio.move_on_after(_DRAIN_S):
            while has_more and dropped < _DRAIN_BYTES:
                message = await receive()
                has_more = message["type"] == "http.request" and message.get("more_body", False)
                dropped += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})
