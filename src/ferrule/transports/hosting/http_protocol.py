"""One HTTP/1.1 connection of `run_http`: uvicorn's httptools protocol, with bounds and one response for each request.

uvicorn has no options for bounds that a public server needs: the size of a request's head, the time until a head and a
body have arrived, and the time that a client may leave a response unread. This subclass adds them.

It also separates requests where the parser and uvicorn do not (RFC 9112, section 11.2, "request smuggling"):

* ``Connection: upgrade`` makes the parser end a request after its head, and it would read the body as the next request.
  This server upgrades nothing, as it may (RFC 9110, section 7.8), so a new parser reads the body.
* The fields after a chunked body (trailers) are dropped; they would be added to the headers.
* A refusal is sent after the responses to earlier requests.
* A client that waits before its body (``Expect: 100-continue``) and gets the final response may send the body or not,
  so the connection is closed after that response.

The class stays a small subclass of uvicorn's. An own class on httptools was measured (10 µs instead of 15 per request
of an empty application); using a maintained HTTP server is worth more than 5 µs.

No code of this module runs in each request: the limits apply in rare states only (an incomplete head, a body that is
still arriving, a full send buffer), and a request that arrives in one piece is in none of them.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ferrule.transports.loops import limit_reads

if TYPE_CHECKING:
    import asyncio

__all__ = ["BoundsWriting", "HttpLimits", "protocol_class"]

_TOO_LARGE: Final = b"The request's headers are too large."
_READ_BYTES: Final = 120 * 1024
"""Maximum bytes of one read: more than a head may have, and so few that the allocator does not map memory each time."""
_MAX_UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of a chunked body that may arrive after the response to its request."""
_MAX_PIPELINED: Final = 16
"""Maximum number of waiting requests of one connection, above which no data is read; one read may contain more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds on one connection of `run_http`.

    Attributes:
        max_head_bytes: maximum size of request line and headers together; a larger head is refused with 431.
        head_timeout_s: seconds from the first byte of a head (or from connecting) to its end; then the connection is
            closed.
        body_timeout_s: seconds that a body may take to arrive after its head; then the connection is closed.
        write_timeout_s: seconds that a client may leave a full send buffer unread; then the connection is closed.
        keep_alive_s: seconds that an idle connection stays open between requests.
        notice_s: seconds between SIGTERM and the end of listening, in which the server still serves but its readiness
            probe fails: as long as a load balancer needs to notice. 0 without a load balancer.
        drain_s: seconds that requests in flight may take at shutdown.
    """

    max_head_bytes: int = 64 * 1024
    head_timeout_s: float = 15.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    keep_alive_s: int = 65
    notice_s: float = 0.0
    drain_s: int = 10


@runtime_checkable
class BoundsWriting(Protocol):
    """A connection with a limit for clients that do not read: of `protocol_class`, but not uvicorn's WebSockets."""

    def hurry(self, timeout_s: float) -> None:
        """Close the connection if the client leaves a response unread for longer than ``timeout_s`` seconds."""
        ...


class _Discarded(list[tuple[bytes, bytes]]):
    """The headers of a request whose head is complete: fields that follow are trailers, and are dropped."""

    def append(self, item: tuple[bytes, bytes]) -> None:
        """Drop a field."""


class _DiscardingParser:
    """Replaces the parser of a refused connection: further data is dropped."""

    def feed_data(self, data: bytes) -> None:
        """Drop the data."""


class _Continuation:
    """Receives the events of a new parser that continues after one that ended a request too early.

    The new parser first gets an artificial head, which only describes the framing of the body and is not passed on.
    """

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._is_own_head = True

    def on_message_begin(self) -> None:
        """Begin the next request, after the body."""
        if not self._is_own_head:
            self._protocol.on_message_begin()

    def on_url(self, url: bytes) -> None:
        """As uvicorn's."""
        if not self._is_own_head:
            self._protocol.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's."""
        if not self._is_own_head:
            self._protocol.on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the artificial head, or that of a later request."""
        if self._is_own_head:
            self._is_own_head = False
        else:
            self._protocol.on_headers_complete()

    def on_chunk_header(self) -> None:
        """As `LimitedProtocol.on_chunk_header`."""
        self._protocol.on_chunk_header()

    def on_body(self, body: bytes) -> None:
        """As uvicorn's."""
        self._protocol.on_body(body)

    def on_message_complete(self) -> None:
        """As uvicorn's."""
        self._protocol.on_message_complete()


@functools.cache
def protocol_class(limits: HttpLimits) -> type[Any]:
    """Return uvicorn's httptools protocol with limits; made on first use, because importing uvicorn takes 60 ms."""
    import asyncio

    import httptools
    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

    max_head_bytes = limits.max_head_bytes

    class PatientFlow(FlowControl):
        """Pauses reading while many requests wait."""

        def __init__(self, transport: asyncio.Transport, pipeline: Any) -> None:
            super().__init__(transport)
            self._pipeline = pipeline

        def resume_reading(self) -> None:
            if self.read_paused and len(self._pipeline) < _MAX_PIPELINED:
                super().resume_reading()

    class ExpectingCycle(RequestResponseCycle):
        """A request whose client waits for ``100 Continue``."""

        async def send(self, message: Any) -> None:
            if self.waiting_for_100_continue:  # the response comes without it: the body may follow or not
                self.keep_alive = False
            await super().send(message)

    class LimitedProtocol(HttpToolsProtocol):
        """Bounds the head, the time of the body, and the time that a client may leave a response unread."""

        _head_bytes = 0
        _trailing_bytes = 0
        _read_timer: "asyncio.TimerHandle | None" = None
        _reads_body = False
        _write_timer: "asyncio.TimerHandle | None" = None
        _write_timeout_s = limits.write_timeout_s

        def connection_made(self, transport: Any) -> None:
            limit_reads(transport, _READ_BYTES)
            super().connection_made(transport)
            self.flow = PatientFlow(transport, self.pipeline)
            self._read_timer = self.loop.call_later(limits.head_timeout_s, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timers()
            self._unset_keepalive_if_required()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._unset_keepalive_if_required()
            before: Any = self.cycle
            head_before = self._head_bytes  # of a head that began in an earlier read
            had_body_left: bool = before is not None and before.more_body  # if so, the read brings the end of it first
            try:
                parser: Any = self.parser  # ``None`` only after the connection is lost
                parser.feed_data(data)
            except httptools.HttpParserError:
                self.refuse(400, b"Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._go_on(data[upgrade.args[0] :]):
                    return
            scope: Any = self.scope  # ``None`` before the first request
            if scope is None or "method" not in scope:
                is_all_head = self.cycle is before and not had_body_left
                self._head_is_incomplete(len(data) if is_all_head else self._parsed_head_bytes())
            elif self._read_timer is not None or self.cycle.more_body:
                self._head_is_complete(len(data))
            if head_before + len(data) > max_head_bytes and scope is not None:
                self._check_head()

        # --- the head ---------------------------------------------------------------------------------------------

        def _head_is_incomplete(self, arrived: int) -> None:
            self._head_bytes += arrived
            if self._head_bytes > max_head_bytes:
                self.refuse(431, _TOO_LARGE)
            elif self._read_timer is None:
                self._read_timer = self.loop.call_later(limits.head_timeout_s, self._give_up)

        def _head_is_complete(self, arrived: int) -> None:
            self._head_bytes = 0
            cycle = self.cycle
            waits_for_body = cycle.more_body
            if waits_for_body and self._reads_body:
                self._check_trailers(arrived)
                return
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None
            self._reads_body = waits_for_body
            self._trailing_bytes = 0
            if cycle.waiting_for_100_continue:
                # Not for a body that is here already, nor for a client that would take it for the answer (RFC 9110,
                # section 10.1.1).
                cycle.waiting_for_100_continue = waits_for_body and cycle.scope["http_version"] != "1.0"
                cycle.__class__ = ExpectingCycle
            if waits_for_body:
                self._read_timer = self.loop.call_later(limits.body_timeout_s, self._give_up)

        def _parsed_head_bytes(self) -> int:
            headers: Iterable[tuple[bytes, bytes]] = self.headers
            return len(self.url) + sum(len(name) + len(value) + 4 for name, value in headers)

        def _check_head(self) -> None:
            """Check the size of a head that arrived in one large chunk (which may also be large because of a body)."""
            headers: Iterable[tuple[bytes, bytes]] = self.scope["headers"]
            if sum(len(name) + len(value) + 4 for name, value in headers) > max_head_bytes:
                self.refuse(431, _TOO_LARGE)

        # --- the body ---------------------------------------------------------------------------------------------

        def on_chunk_header(self) -> None:
            """Handle the start of a chunk, or of the trailers after the last one; called by the parser."""
            if type(self.headers) is list:
                self.headers = _Discarded()

        def _check_trailers(self, arrived: int) -> None:
            """Bound the trailers: data of a chunked body that is not passed on as body."""
            if type(self.headers) is list:
                return
            self._trailing_bytes = 0 if self.cycle.body else self._trailing_bytes + arrived
            if self._trailing_bytes > (_MAX_UNREAD_BYTES if self.cycle.response_complete else max_head_bytes):
                self.refuse(431, _TOO_LARGE)

        def _go_on(self, rest: bytes) -> bool:
            """Continue after the head of a request with ``Upgrade``; return ``False`` if the request is refused."""
            scope: Any = self.scope
            if scope["method"] == "CONNECT":
                self.refuse(400, b"Invalid HTTP request received.")
                return False
            framing = [pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")]
            # Removed, so that no application tries to upgrade the connection.
            self.headers[:] = [pair for pair in self.headers if pair[0] not in (b"upgrade", b"http2-settings")]
            parser: Any = httptools.HttpRequestParser(_Continuation(self))
            self.parser = parser
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
            keeps = b"keep-alive" if self.cycle.keep_alive else b"close"
            head = [b"POST / HTTP/1.1", b"connection: " + keeps, *(b"%s: %s" % pair for pair in framing), b"", b""]
            self.cycle.more_body = bool(framing)  # the old parser has reported the message as complete
            try:
                parser.feed_data(b"\r\n".join(head))
                if rest:
                    parser.feed_data(rest)
            except httptools.HttpParserError:
                self.refuse(400, b"Invalid HTTP request received.")
                return False
            except httptools.HttpParserUpgrade as upgrade:  # the next request has `Upgrade`, too
                return self._go_on(rest[upgrade.args[0] :])
            return True

        # --- refusals ---------------------------------------------------------------------------------------------

        def refuse(self, status: int, message: bytes) -> None:
            """Refuse the request that is being read, without the application, and close the connection.

            The refusal is sent after the responses to earlier requests, and not if a response has begun.
            """
            if self.transport.is_closing():
                return
            self._stop_timers()
            deaf: Any = _DiscardingParser()
            self.parser = deaf
            self.flow.resume_reading()  # to notice when the client disconnects
            cycle: Any = self.cycle  # ``None`` before the first request
            if cycle is not None and cycle.scope is self.scope:  # its head was complete
                if self.pipeline and self.pipeline[0][0] is cycle:
                    self.pipeline.popleft()
                else:
                    cycle.disconnected = True  # the application, if it was started, must not answer as well
                    cycle.message_event.set()
                    if not cycle.response_started:
                        self._write_refusal(status, message)
                    self.transport.close()
                    return
            elif cycle is None or cycle.response_complete:
                self._write_refusal(status, message)
                self.transport.close()
                return
            self._refuse_in_turn(status, message)

        def _write_refusal(self, status: int, message: bytes) -> None:
            self.transport.write(
                b"%scontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
                % (STATUS_LINE[status], len(message), message)
            )

        def _refuse_in_turn(self, status: int, message: bytes) -> None:
            async def refuse(scope: Any, receive: Any, send: Any) -> None:
                headers = [
                    (b"content-type", b"text/plain; charset=utf-8"),
                    (b"content-length", b"%d" % len(message)),
                    (b"connection", b"close"),
                ]
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": message})

            self.on_message_begin()
            self.scope.update({"method": "GET", "path": "", "raw_path": b"", "query_string": b""})
            cycle = self.cycle = RequestResponseCycle(
                scope=self.scope,
                transport=self.transport,
                flow=self.flow,
                logger=self.logger,
                access_logger=self.access_logger,
                access_log=False,
                default_headers=self.server_state.default_headers,
                message_event=asyncio.Event(),
                expect_100_continue=False,
                keep_alive=False,
                on_response=self.on_response_complete,
            )
            cycle.more_body = False
            self.pipeline.appendleft((cycle, refuse))

        # --- timers -----------------------------------------------------------------------------------------------

        def _give_up(self) -> None:
            """Close the connection of a client that took too long to send its request."""
            self._read_timer = None
            cycle: Any = self.cycle  # ``None`` before the first request
            if cycle is not None and not cycle.response_complete and not cycle.more_body:
                return  # the client waits for a response; the time for its next head has not begun
            if not self.transport.is_closing():
                self.transport.close() if cycle is None or cycle.response_complete else self.transport.abort()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._write_timer is None:
                self._write_timer = self.loop.call_later(self._write_timeout_s, self.transport.abort)

        def hurry(self, timeout_s: float) -> None:
            """Shorten the time that a client may leave a response unread; called at a shutdown."""
            self._write_timeout_s = min(timeout_s, self._write_timeout_s)
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = self.loop.call_later(self._write_timeout_s, self.transport.abort)

        def resume_writing(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None
            super().resume_writing()

        def _stop_timers(self) -> None:
            for timer in (self._read_timer, self._write_timer):
                if timer is not None:
                    timer.cancel()
            self._read_timer = self._write_timer = None

    return LimitedProtocol
