"""HTTP/1.1 between a socket and an ASGI callable: the protocol class that `http_server` gives to uvicorn's server.

uvicorn keeps what it is good at (listening, signals, workers, lifespan); the bytes are ours, on httptools. Two reasons,
both measured: uvicorn's own class has no bound on heads, slow bodies and clients that do not read, and half of the CPU
of a small request was in it. What is different here: no event and no timer per request, the head and the body of a
response in one write, one timer per connection for keep-alive and for slow requests together, slots instead of dicts.

WebSockets are not served. Requests are pipelined in order. A response without a length is chunked, or ends with the
connection where the client speaks HTTP/1.0.

Rule a newcomer would break: what runs for every request must stay short; a state that is rare (an incomplete head, a
body in pieces, a full send buffer, a second request behind the first) has a method of its own.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import httptools

__all__ = ["HttpProtocol"]

log = logging.getLogger("ferrule.http")
access_log = logging.getLogger("uvicorn.access")

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode("ascii") for status in HTTPStatus
}
_HIGH_WATER_BYTES: Final = 64 * 1024
_MAX_JOINED_BYTES: Final = 16 * 1024
_MAX_DROPPED_BYTES: Final = 1024 * 1024
_MAX_KNOWN_TARGETS: Final = 128
_INTERNAL_ERROR: Final = b"Internal Server Error"


def _status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


class HttpProtocol(asyncio.Protocol):
    """One connection. The constructor's signature is what ``uvicorn.Server`` calls."""

    __slots__ = (
        "_app",
        "_app_state",
        "_current",
        "_head_bytes",
        "_headers",
        "_idle_since_s",
        "_limits",
        "_parser",
        "_peers",
        "_reading_paused",
        "_reading_since_s",
        "_scope",
        "_shuts_down",
        "_timer",
        "_url",
        "_waiting",
        "_writable",
        "_write_timer",
        "keeps_access_log",
        "loop",
        "server_state",
        "transport",
        "write_is_full",
    )

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Any,
    ) -> None:
        self.loop = _loop or asyncio.get_running_loop()
        self.transport: Any = None
        self._app: Callable[[Any, Any, Any], Any] = config.loaded_app
        self._app_state = app_state
        self.server_state = server_state
        self._limits = limits
        self.keeps_access_log: bool = config.access_log and access_log.isEnabledFor(logging.INFO)
        self._parser: Any = httptools.HttpRequestParser(self)
        self._scope: dict[str, Any] | None = None  # of the request whose head is being read
        self._headers: list[tuple[bytes, bytes]] = []
        self._url = b""
        self._head_bytes = 0
        self._current: _Exchange | None = None  # the request being answered
        self._waiting: deque[_Exchange] | None = None  # requests behind it
        self._peers: tuple[Any, Any, str] = (None, None, "http")
        self._reading_paused = False
        self._writable: asyncio.Event | None = None  # set while the send buffer has room; made when it first has none
        self._write_timer: asyncio.TimerHandle | None = None
        self.write_is_full = False
        self._shuts_down = False
        now = self.loop.time()
        self._idle_since_s: float | None = None
        self._reading_since_s: float | None = now
        self._timer: asyncio.TimerHandle | None = None

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """A client has connected; its first head is due."""
        self.transport = transport
        self.server_state.connections.add(self)
        server, client = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        self._peers = (
            (server[0], server[1]) if isinstance(server, tuple) else (server or None, None),  # pyright: ignore[reportUnknownVariableType]
            (client[0], client[1]) if isinstance(client, tuple) else None,  # pyright: ignore[reportUnknownVariableType]
            "https" if transport.get_extra_info("sslcontext") else "http",
        )
        self._arm(self._limits.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or we closed: whoever waits for it learns so."""
        self.server_state.connections.discard(self)
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None
        for exchange in (self._current, *(self._waiting or ())):
            if exchange is not None:
                exchange.lost()
        if self.write_is_full:
            self.resume_writing()
        self._parser = None  # it holds us by its callbacks

    def eof_received(self) -> None:
        """A client that closes its side has gone: returning nothing closes ours (the transport's rule)."""

    def shutdown(self) -> None:
        """The server is going down: close when there is nothing to answer, else after the answer."""
        self._shuts_down = True
        if self._current is None:
            self.transport.close()
        else:
            self._current.keep_alive = False

    # --- time ---------------------------------------------------------------------------------------------------------

    def _arm(self, delay_s: float) -> None:
        self._timer = self.loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        """One timer looks at everything that may take too long; it is moved on instead of being cancelled."""
        self._timer = None
        if self.transport.is_closing():
            return
        now, limits = self.loop.time(), self._limits
        due: list[float] = []
        if self._reading_since_s is not None:
            reads_body = self._current is not None and self._current.more_body and self._scope is None
            due.append(self._reading_since_s + (limits.body_timeout_s if reads_body else limits.head_timeout_s))
        elif self._idle_since_s is not None:
            due.append(self._idle_since_s + limits.keep_alive_s)
        if due and due[0] <= now:
            self.transport.close() if self._current is None else self.transport.abort()
            return
        if due:
            self._arm(max(0.01, due[0] - now))

    # --- bytes in -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what came; the callbacks below do the rest."""
        self._idle_since_s = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # nothing to upgrade to: answered as it is, then closed
            if self._current is not None:
                self._current.keep_alive = False
        except (httptools.HttpParserError, httptools.HttpParserInvalidURLError):
            self.refuse(400, b"Invalid HTTP request received.")
            return
        if self._scope is not None:
            self._head_is_incomplete(len(data))
        elif self._current is not None and self._current.more_body:
            self._body_is_incomplete()
        else:
            self._reading_since_s = None
        if len(data) > self._limits.max_head_bytes:
            self._check_head()

    def _head_is_incomplete(self, arrived: int) -> None:
        self._head_bytes += arrived
        if self._head_bytes > self._limits.max_head_bytes:
            self.refuse(431, b"The request's headers are too large.")
        elif self._reading_since_s is None:
            self._start_reading(self._limits.head_timeout_s)

    def _body_is_incomplete(self) -> None:
        exchange = self._current
        if exchange is not None and not exchange.reads_body:
            exchange.reads_body = True
            self._start_reading(self._limits.body_timeout_s)

    def _start_reading(self, timeout_s: float) -> None:
        self._reading_since_s = self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._arm(timeout_s)

    def _check_head(self) -> None:
        """A chunk this large may hold the whole of an oversized head (or a body, which is not our business)."""
        if sum(len(name) + len(value) + 4 for name, value in self._headers) > self._limits.max_head_bytes:
            self.refuse(431, b"The request's headers are too large.")

    def refuse(self, status: int, message: bytes) -> None:
        """Answer without the application, and close."""
        if self.transport.is_closing():
            return
        current = self._current
        if current is None or not current.started:
            self.transport.write(
                b"%scontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
                % (_status_line(status), len(message), message)
            )
        if current is not None:
            current.lost()  # it was started on a part of this request, or is cut off behind it
        self.transport.close()

    # --- the parser's callbacks ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        server, client, scheme = self._peers
        self._url = b""
        self._headers = []
        self._scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "server": server,
            "client": client,
            "scheme": scheme,
            "root_path": "",
            "headers": self._headers,
            "state": self._app_state.copy(),
        }

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete: start the application, or queue behind the request before."""
        parser, scope = self._parser, self._scope
        assert scope is not None
        self._scope = None
        self._head_bytes = 0
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"], scope["raw_path"], scope["query_string"] = _targets.get(self._url) or self._target()
        version = parser.get_http_version()
        keep_alive = parser.should_keep_alive() and not self._shuts_down
        if version != "1.1":
            scope["http_version"] = version
        exchange = _Exchange(self, scope, keep_alive)
        if self._current is None:
            self._start(exchange)
        else:
            self._waiting = self._waiting or deque()
            self._waiting.append(exchange)
            self._pause_reading()

    def _target(self) -> tuple[str, bytes, bytes]:
        """The parts of a request target; the few that a server has are remembered."""
        url = httptools.parse_url(self._url)
        raw_path: bytes = url.path or b"/"
        path = raw_path.decode("ascii")
        parts = (unquote(path) if "%" in path else path, raw_path, url.query or b"")
        if len(_targets) < _MAX_KNOWN_TARGETS:
            _targets[self._url] = parts
        return parts

    def on_body(self, body: bytes) -> None:
        """A piece of the body of the newest request."""
        exchange = self._waiting[-1] if self._waiting else self._current
        if exchange is None:
            return
        if exchange.body or exchange.changed is not None or exchange.complete or exchange.disconnected:
            exchange.fed(body)
        else:
            exchange.body.append(body)

    def on_message_complete(self) -> None:
        """The newest request is complete."""
        exchange = self._waiting[-1] if self._waiting else self._current
        if exchange is None:
            return
        exchange.more_body = False
        if exchange.complete:  # answered before its body had come
            self._next()
        elif exchange.changed is not None:
            exchange.changed.set()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _start(self, exchange: "_Exchange") -> None:
        self._current = exchange
        task = self.loop.create_task(exchange.run(self._app))
        exchange.task = task
        self.server_state.tasks.add(task)

    def finished(self, exchange: "_Exchange") -> None:
        """The response is out."""
        self.server_state.total_requests += 1
        if self._current is not exchange:
            return
        if not exchange.keep_alive:
            self._current = None
            self.transport.close()
        elif exchange.more_body:
            self.wants_body()  # the rest of a request that was answered early is dropped as it comes
        elif self._waiting or self._shuts_down or self._reading_paused or self._timer is None:
            self._next()
        else:
            self._current = None
            self._idle_since_s = self.loop.time()

    def _next(self) -> None:
        """The next request, or waiting for one."""
        self._current = None
        if self._reading_paused:
            self._resume_reading()
        if self._waiting:
            self._start(self._waiting.popleft())
        elif self._shuts_down:
            self.transport.close()
        elif self._scope is None:
            self._idle_since_s = self.loop.time()
            if self._timer is None:
                self._arm(self._limits.keep_alive_s)

    def log_access(self, scope: MutableMapping[str, Any], status: int) -> None:
        """One line per request, where that was asked for."""
        client = scope["client"]
        path = scope["raw_path"].decode("ascii")
        peer = f"{client[0]}:{client[1]}" if client else ""
        access_log.info('%s - "%s %s HTTP/%s" %d', peer, scope["method"], path, scope["http_version"], status)

    # --- flow ---------------------------------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading_paused = False
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def body_is_large(self) -> None:
        """The application is slower than the client: let the client wait."""
        self._pause_reading()

    def wants_body(self) -> None:
        """The application waits for more."""
        if self._reading_paused and not self._waiting:
            self._resume_reading()

    def pause_writing(self) -> None:
        """The send buffer is full: writers wait, but not for ever."""
        if self._writable is None:
            self._writable = asyncio.Event()
        self._writable.clear()
        self.write_is_full = True
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """There is room again."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        self.write_is_full = False
        if self._writable is not None:
            self._writable.set()

    async def drained(self) -> None:
        """Return when there is room in the send buffer, or nobody to write to."""
        if self._writable is not None:
            await self._writable.wait()


_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_targets: dict[bytes, tuple[str, bytes, bytes]] = {}


class _Exchange:
    """One request and its response."""

    __slots__ = (
        "_asked",
        "_chunked",
        "_dropped_bytes",
        "_head",
        "_left",
        "_protocol",
        "_scope",
        "body",
        "changed",
        "complete",
        "delivered",
        "disconnected",
        "keep_alive",
        "more_body",
        "reads_body",
        "started",
        "task",
    )

    def __init__(self, protocol: HttpProtocol, scope: dict[str, Any], keep_alive: bool) -> None:
        self._protocol = protocol
        self._scope = scope
        self.body: list[bytes] = []
        self.changed: asyncio.Event | None = None  # made by the first receive() that has to wait
        self._head: bytes | None = None
        self._asked = False
        self._chunked = False
        self._dropped_bytes = 0
        self._left = 0
        self.keep_alive = keep_alive
        self.more_body = True
        self.delivered = False
        self.reads_body = False
        self.started = False
        self.complete = False
        self.disconnected = False
        self.task: asyncio.Task[None] | None = None

    # --- from the protocol --------------------------------------------------------------------------------------------

    def fed(self, body: bytes) -> None:
        """A piece of the body."""
        if self.complete or self.disconnected:
            self._dropped_bytes += len(body)
            if self._dropped_bytes > _MAX_DROPPED_BYTES:
                self._protocol.transport.close()
            return
        self.body.append(body)
        if len(self.body) > 1 and sum(map(len, self.body)) > _HIGH_WATER_BYTES:
            self._protocol.body_is_large()
        self.wake()

    def lost(self) -> None:
        """The client has gone."""
        if not self.complete:
            self.disconnected = True
        self.wake()

    def wake(self) -> None:
        """Something changed that a receive() may wait for."""
        if self.changed is not None:
            self.changed.set()

    # --- the application ----------------------------------------------------------------------------------------------

    async def run(self, app: Callable[[Any, Any, Any], Any]) -> None:
        """Call the application; whatever it does, the client gets an end."""
        try:
            await app(self._scope, self.receive, self.send)
        except asyncio.CancelledError:  # the server is going down and does not wait any longer
            if not self.complete:
                self._protocol.transport.close()
        except Exception as exc:
            log.error("the ASGI application failed", exc_info=exc)
            await self._fail()
        else:
            if not self.complete and not self.disconnected:
                log.error("the ASGI application returned without completing its response")
                await self._fail()
        finally:
            self._protocol.server_state.tasks.discard(self.task)
            self.task = None

    async def _fail(self) -> None:
        if self.disconnected or self.complete:
            return
        if self.started and self._head is None:
            self._protocol.transport.close()
            return
        self.started, self._head = False, None
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(_INTERNAL_ERROR)),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _INTERNAL_ERROR})

    async def receive(self) -> dict[str, Any]:
        """The ASGI callable."""
        while True:
            if self.disconnected or self.complete:
                return {"type": "http.disconnect"}
            if self.body or not (self.more_body or self.delivered):
                body = self.body[0] if len(self.body) == 1 else b"".join(self.body)
                self.body = []
                self.delivered = not self.more_body
                return {"type": "http.request", "body": body, "more_body": self.more_body}
            self._continue()
            self._protocol.wants_body()
            if self.changed is None:
                self.changed = asyncio.Event()
            self.changed.clear()
            await self.changed.wait()

    def _continue(self) -> None:
        """Ask for the body of a client that waits to be asked (RFC 9110, 10.1.1)."""
        if not self.more_body or self.started or self._asked:
            return
        self._asked = True
        for name, value in self._scope["headers"]:
            if name == b"expect" and value.lower() == b"100-continue":
                self._protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """The ASGI callable."""
        protocol = self._protocol
        if protocol.write_is_full and not self.disconnected:
            await protocol.drained()
        if self.disconnected:
            return
        kind = message["type"]
        if not self.started:
            if kind != "http.response.start":
                raise RuntimeError(f"expected http.response.start, got {kind}")
            self._start_response(message["status"], message.get("headers", ()))
        elif kind != "http.response.body" or self.complete:
            raise RuntimeError(f"{kind} does not belong here in a response")
        else:
            self._write_body(message.get("body", b""), message.get("more_body", False))

    def _start_response(self, status: int, headers: Any) -> None:
        self.started, self._chunked = True, False
        protocol, scope = self._protocol, self._scope
        if protocol.keeps_access_log:
            protocol.log_access(scope, status)
        lines = [_STATUS_LINES.get(status) or _status_line(status)]
        length: int | None = None
        for name, value in (*protocol.server_state.default_headers, *headers):
            lines.append(b"%s: %s\r\n" % (name, value))
            lowered = name.lower()
            if lowered == b"content-length":
                length = int(value)
            elif lowered == b"connection" and b"close" in value.lower():
                self.keep_alive = False
        bodiless = scope["method"] == "HEAD" or status in (204, 304)
        if length is None and not bodiless:
            if scope["http_version"] == "1.1":
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
            self.started = False
            raise RuntimeError("a response header holds a line break or NUL")
        self._left = -1 if bodiless or length is None else length
        if length is None and not bodiless:
            protocol.transport.write(head)  # a stream: the client should see at once that it is open
            self._head = None
        else:
            self._head = head

    def _write_body(self, body: bytes, more_body: bool) -> None:
        protocol, head = self._protocol, self._head
        if self._chunked:
            data = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            if not more_body:
                data += b"0\r\n\r\n"
        elif self._left < 0:
            data = b"" if head is not None else body  # HEAD, 204, 304 have none; HTTP/1.0 ends with the connection
        else:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("the response is longer than its content-length")
            data = body
        if head is not None:
            self._head = None
            if len(data) > _MAX_JOINED_BYTES:
                protocol.transport.write(head)  # copying a large body costs more than a second write
            else:
                data = head + data
        if data:
            protocol.transport.write(data)
        if not more_body:
            if self._left > 0:
                raise RuntimeError("the response is shorter than its content-length")
            self.complete = True
            if self.changed is not None:
                self.changed.set()
            protocol.finished(self)
