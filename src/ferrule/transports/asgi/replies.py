"""Responses: a JSON body, an empty body, or an event stream that stays open.

A client that has disconnected is not an error here: ASGI servers drop what is sent to it or raise ``OSError``, and the
stream is then marked as lost.

Writers of one stream use a lock. An ASGI server may suspend inside ``send``, and a chunk before the response head, or
an event inside another one, would break the connection.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

import anyio

from ferrule.transports.asgi.runtime import Cancellable, Runtime, current_runtime
from ferrule.wire.sse import COMMENT

__all__ = [
    "EventStreamReply",
    "KeepAlive",
    "LastAnswer",
    "RawHeaders",
    "Receive",
    "Send",
    "close_websocket",
    "send_body",
    "send_document",
    "send_empty",
    "send_pieces",
]

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
RawHeaders = list[tuple[bytes, bytes]]

_JSON: Final = (b"content-type", b"application/json")
_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    # ``no-store``: events must not be cached. ``no-transform``: a proxy that compresses would buffer the stream.
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def close_websocket(send: Send) -> None:
    """Refuse a WebSocket; without an answer the ASGI host would wait, or report an error of the application."""
    # 1008: policy violation (RFC 6455, section 7.4.1).
    await send({"type": "websocket.close", "code": 1008})


async def send_body(send: Send, status: int, body: bytes, headers: RawHeaders | None = None) -> None:
    """Send a response with a JSON body; two ASGI messages."""
    all_headers = [_JSON, (b"content-length", b"%d" % len(body))]
    if headers:
        all_headers += headers
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def send_pieces(send: Send, status: int, pieces: Sequence[bytes], headers: RawHeaders | None = None) -> None:
    """Send a response whose JSON body is the pieces one after the other; an ASGI message for each, and no copy."""
    all_headers = [_JSON, (b"content-length", b"%d" % sum(map(len, pieces)))]
    if headers:
        all_headers += headers
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    for piece in pieces[:-1]:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": pieces[-1]})


async def send_document(send: Send, method: str, status: int, body: bytes, headers: Sequence[tuple[str, str]]) -> None:
    """Send a response with headers of its own, the content type among them; without the body to ``HEAD``.

    The length that ``HEAD`` and 304 announce is that of the response to ``GET`` (RFC 9110, 8.6), so 304 has none.
    """
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if status not in (204, 304):
        raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


async def send_empty(send: Send, status: int, headers: RawHeaders | None = None) -> None:
    """Send a response without body."""
    all_headers = [(b"content-length", b"0")] if status != 204 else []  # RFC 9110, 8.6: never with 204
    await send({"type": "http.response.start", "status": status, "headers": all_headers + (headers or [])})
    await send({"type": "http.response.body", "body": b""})


class LastAnswer:
    """Closes the connection after a response if the start of the next request would be ambiguous.

    Two request headers cause this: with ``Upgrade`` some servers parse the body as the next request; with ``Expect`` a
    client that gets a final response immediately may send the body or not (RFC 9110, sections 7.8 and 10.1.1). `send`
    and `receive` replace the server's.

    Args:
        receive, send: the ASGI callables.
        is_last: whether to close in any case; ``False`` closes only if the response begins before the body was read.
    """

    def __init__(self, receive: Receive, send: Send, *, is_last: bool) -> None:
        self._receive = receive
        self._send = send
        self._is_last = is_last
        self._has_read = False

    async def receive(self) -> MutableMapping[str, Any]:
        """Receive an ASGI message from the server."""
        self._has_read = True
        return await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send an ASGI message, with ``Connection: close`` where it is needed."""
        if message["type"] == "http.response.start" and (self._is_last or not self._has_read):
            headers = [pair for pair in message["headers"] if pair[0] != b"connection"]
            message = {**message, "headers": [*headers, (b"connection", b"close")]}
        await self._send(message)


class KeepAlive:
    """Writes comments on idle event streams, so that no proxy closes them.

    There is one timer for all streams of an endpoint, and none without streams. A comment is written after half to one
    interval without an event.

    Args:
        interval_s: longest idle time in seconds; ``None`` writes no comments.
    """

    def __init__(self, interval_s: float | None) -> None:
        self._interval_s = interval_s
        self._streams: dict[EventStreamReply, None] = {}
        self._timer: Cancellable | None = None
        self._runtime: Runtime | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: "EventStreamReply") -> None:
        """Add a stream."""
        self._streams[stream] = None
        runtime = current_runtime()
        # The timer of a loop that was closed (serverless, tests) never fires.
        if self._interval_s is not None and (self._timer is None or self._runtime is not runtime):
            self._runtime = runtime
            self._timer = runtime.call_later(self._interval_s / 2, self._tick)

    def discard(self, stream: "EventStreamReply") -> None:
        """Remove a stream; no error if it was not added."""
        self._streams.pop(stream, None)

    def _tick(self) -> None:
        self._timer = None
        runtime = self._runtime
        if runtime is None or self._interval_s is None or not self._streams:
            return
        for stream in self._streams:
            if stream.was_written:
                stream.was_written = False
            else:
                # In a task for each: a slow client must not delay the comments of others.
                runtime.spawn(stream.comment)
        self._timer = runtime.call_later(self._interval_s / 2, self._tick)


class EventStreamReply:
    """One response of type ``text/event-stream``; opens with its first event.

    Attributes:
        is_open: whether the response head was sent; the HTTP status can then no longer change.
        is_over: whether it was closed by this side, or lost; nothing more can be written.
        was_written: whether an event was written since the last check of the keep-alive.
    """

    __slots__ = ("_busy", "_free", "_headers", "_keep_alive", "_over", "_send", "is_open", "is_over", "was_written")

    def __init__(self, send: Send, keep_alive: KeepAlive, headers: RawHeaders | None = None) -> None:
        self._send = send
        self._keep_alive = keep_alive
        self._headers = headers
        self._busy = False
        self._free: anyio.Event | None = None
        self._over: anyio.Event | None = None
        self.is_open = False
        self.is_over = False
        self.was_written = False

    async def write(self, event: bytes) -> None:
        """Send an encoded event; returns when the ASGI server has accepted it, so a slow client slows its handler.

        ``b""`` only opens the stream. Does nothing on a stream that is over.
        """
        while self._busy:
            await self._wait_for_turn()
        if self.is_over:
            return
        self._busy = True
        try:
            if not self.is_open:
                await self._open()
            if event and not self.is_over:  # the client may disconnect while the head is being sent
                self.was_written = True
                await self._send({"type": "http.response.body", "body": event, "more_body": True})
        except OSError:
            self.lose()
        finally:
            self._release()

    async def close(self, last: bytes = b"") -> None:
        """Send a last event and end the response; does nothing if the stream is over."""
        while self._busy:
            await self._wait_for_turn()
        if self.is_over:
            return
        self._busy = True
        try:
            if not self.is_open:
                await self._open()
            self.is_over = True  # set before the lock, so that a writer that waits for it finds the stream over
            self._keep_alive.discard(self)
            await self._send({"type": "http.response.body", "body": last})
        except OSError:
            self.lose()
        finally:
            self._release()
            if self.is_over and self._over is not None:  # not earlier: a waiting task may end the request
                self._over.set()

    async def comment(self) -> None:
        """Send a keep-alive comment, unless an event is being written."""
        if not self._busy and self.is_open:
            await self.write(COMMENT)
            self.was_written = False

    def lose(self) -> None:
        """Mark the stream as lost after a disconnect: later events are dropped."""
        self.is_over = True
        self._keep_alive.discard(self)
        if self._over is not None:
            self._over.set()

    async def wait_over(self) -> None:
        """Wait until the stream is over and its last event was sent."""
        while not self.is_over or self._busy:
            if self._over is None or self._over.is_set():
                self._over = anyio.Event()
            await self._over.wait()

    async def _open(self) -> None:
        headers = _STREAM_HEADERS if not self._headers else _STREAM_HEADERS + self._headers
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self.is_open = True
        if not self.is_over:  # an ASGI server may suspend in ``send``, and the client disconnect meanwhile
            self._keep_alive.add(self)

    async def _wait_for_turn(self) -> None:
        if self._free is None:
            self._free = anyio.Event()
        await self._free.wait()

    def _release(self) -> None:
        self._busy = False
        if self._free is not None:
            self._free.set()
            self._free = None
