"""Writing responses: one JSON body, one empty body, or an event stream that stays open.

Everything goes through an ASGI ``send``. A client that has gone is not an error here: servers drop what is sent to it
(or raise ``OSError``, which is taken as the same news), and the stream remembers that it is lost.

Two writers of one stream take turns. ASGI servers may suspend inside ``send``, and a body chunk that overtakes the
response head, or an event that lands inside another, ends the connection.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import anyio

from ferrule.transports.asgi.runtime import Cancellable, Runtime, current_runtime
from ferrule.wire.sse import COMMENT

__all__ = ["EventStreamReply", "KeepAlive", "LastAnswer", "RawHeaders", "Receive", "Send", "send_body", "send_empty"]

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
RawHeaders = list[tuple[bytes, bytes]]

_JSON: Final = (b"content-type", b"application/json")
_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    # ``no-store``: the stream is about one moment. ``no-transform``: a proxy that compresses would buffer it.
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def send_body(send: Send, status: int, body: bytes, headers: RawHeaders | None = None) -> None:
    """Answer with one JSON body: two sends."""
    all_headers = [_JSON, (b"content-length", b"%d" % len(body))]
    if headers:
        all_headers += headers
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, headers: RawHeaders | None = None) -> None:
    """Answer with no body."""
    all_headers = [(b"content-length", b"0")] if status != 204 else []  # RFC 9110, 8.6: never with 204
    await send({"type": "http.response.start", "status": status, "headers": all_headers + (headers or [])})
    await send({"type": "http.response.body", "body": b""})


class LastAnswer:
    """Ends the connection with an answer after which client and server may disagree where the next request begins.

    Two headers bring this about: ``Upgrade``, with which some servers take the body for the next request, and
    ``Expect``, with which a client that gets its answer at once may send the body or not (RFC 9110, sections 7.8 and
    10.1.1). Its `send` and `receive` take the place of the server's.

    Args:
        is_last: whatever happens; ``False`` for an answer that is given before the body was asked for.
    """

    def __init__(self, receive: Receive, send: Send, *, is_last: bool) -> None:
        self._receive = receive
        self._send = send
        self._is_last = is_last
        self._has_read = False

    async def receive(self) -> MutableMapping[str, Any]:
        """As the server's."""
        self._has_read = True
        return await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """As the server's, with ``Connection: close`` where it is needed."""
        if message["type"] == "http.response.start" and (self._is_last or not self._has_read):
            headers = [pair for pair in message["headers"] if pair[0] != b"connection"]
            message = {**message, "headers": [*headers, (b"connection", b"close")]}
        await self._send(message)


class KeepAlive:
    """Writes a comment on open streams that have been silent, so that no proxy takes them for dead.

    One timer for all streams of an endpoint, and none while there are no streams. A comment comes after between half
    and one interval of silence.

    Args:
        interval_s: the longest silence in seconds; ``None`` never writes one.
    """

    def __init__(self, interval_s: float | None) -> None:
        self._interval_s = interval_s
        self._streams: dict[EventStreamReply, None] = {}
        self._timer: Cancellable | None = None
        self._runtime: Runtime | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: "EventStreamReply") -> None:
        """Look after a stream from now on."""
        self._streams[stream] = None
        runtime = current_runtime()
        # After a restart on another loop (serverless) the old timer will never fire.
        if self._interval_s is not None and (self._timer is None or self._runtime is not runtime):
            self._runtime = runtime
            self._timer = runtime.call_later(self._interval_s / 2, self._tick)

    def discard(self, stream: "EventStreamReply") -> None:
        """Forget a stream; nothing happens if it was not there."""
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
                runtime.spawn(stream.comment)
        self._timer = runtime.call_later(self._interval_s / 2, self._tick)


class EventStreamReply:
    """One response of type ``text/event-stream``; opens with its first event.

    Attributes:
        is_open: the response head is out, so the HTTP status can no longer change.
        is_over: closed by this side, or lost; nothing more can be written.
        was_written: something was written since the keep-alive last looked.
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
        """Send an encoded event; returns when the server has taken it, which is how a slow client slows its handler.

        ``b""`` only opens the stream. On a stream that is over it does nothing.
        """
        while self._busy:
            await self._wait_for_turn()
        if self.is_over:
            return
        self._busy = True
        try:
            if not self.is_open:
                await self._open()
            if event and not self.is_over:  # the client may go while the head is being sent
                self.was_written = True
                await self._send({"type": "http.response.body", "body": event, "more_body": True})
        except OSError:
            self.lose()
        finally:
            self._release()

    async def close(self, last: bytes = b"") -> None:
        """Send a last event and end the response; does nothing when it is over."""
        while self._busy:
            await self._wait_for_turn()
        if self.is_over:
            return
        self._busy = True
        try:
            if not self.is_open:
                await self._open()
            self.is_over = True  # a writer that waits for its turn must find it over
            self._keep_alive.discard(self)
            await self._send({"type": "http.response.body", "body": last})
        except OSError:
            self.lose()
        finally:
            self._release()
            if self.is_over and self._over is not None:  # not before: who waits may end the request
                self._over.set()

    async def comment(self) -> None:
        """Send a keep-alive comment, unless something is being written anyway."""
        if not self._busy and self.is_open:
            await self.write(COMMENT)
            self.was_written = False

    def lose(self) -> None:
        """The client has gone: drop everything from now on."""
        self.is_over = True
        self._keep_alive.discard(self)
        if self._over is not None:
            self._over.set()

    async def wait_over(self) -> None:
        """Return once it is over, and its last event is out."""
        while not self.is_over or self._busy:
            if self._over is None or self._over.is_set():
                self._over = anyio.Event()
            await self._over.wait()

    async def _open(self) -> None:
        headers = _STREAM_HEADERS if not self._headers else _STREAM_HEADERS + self._headers
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self.is_open = True
        if not self.is_over:  # a server may suspend in ``send``, and the client go meanwhile
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
