"""Serving an ASGI callable over HTTP in this process: uvicorn on uvloop with httptools, bounded and quiet.

uvicorn brings the HTTP server; this file brings what a server that faces the world needs and uvicorn has no option
for: a bound on the size of a request's head, on the time that a head and a body may take to arrive, and on the time
that a client may refuse to read. Whoever serves ``app.asgi()`` with a server of their own gets these bounds from that
server or not at all.

uvloop is started through its own loop factory, so it is really in use; without uvloop (Windows, PyPy) the loop is
asyncio's.

The protocol stays a small subclass of uvicorn's on purpose. A class of our own on httptools was written and measured
(10 µs instead of 15 per request of a bare application) and given up: a well-kept HTTP server is worth more than 5 µs.

A shutdown goes in steps, so that nobody loses a request to it: after SIGTERM the server says that it is not ready and
serves on for ``notice_s``; then it stops listening and the streams end; connections without a request in flight get
`_LINGER_S` to send one that is on its way; requests in flight get ``drain_s``. From the first step on every answer
carries ``Connection: close``, so that clients leave by themselves. SIGINT, which is Ctrl-C, leaves out the notice.

Rule a newcomer would break: nothing here may run per request. The limits hang on the rare states (an incomplete head,
a body that is still arriving, a socket that does not drain) and a request that arrives in one piece meets none of
them.
"""

import functools
import importlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.transports._collector import patient_collector
from ferrule.transports.asgi.security import is_loopback_name

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

__all__ = ["HttpLimits", "bind", "run_http", "serve_http"]

_LINGER_S = 0.5
"""What a connection without a request gets at shutdown: twice the way of a packet around the world."""
_LOOK_EVERY_S = 0.02

ASGICallable = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds on one connection of `run_http`.

    Attributes:
        max_head_bytes: request line and headers together; more is answered 431.
        head_timeout_s: seconds from the first byte of a head (or from connecting) to its end; then the connection
        closes.
        body_timeout_s: seconds that a body may take to arrive after its head; then the connection closes.
        write_timeout_s: seconds that a client may leave a full send buffer unread; then the connection is dropped.
        keep_alive_s: seconds that an idle connection stays open between requests.
        notice_s: seconds between SIGTERM and the end of listening, in which the server serves on but says that it is
            not ready: as long as a balancer needs to hear of it. 0 where nothing asks.
        drain_s: seconds that requests in flight get to finish at shutdown.
    """

    max_head_bytes: int = 64 * 1024
    head_timeout_s: float = 15.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    keep_alive_s: int = 65
    notice_s: float = 0.0
    drain_s: int = 10


def run_http(
    app: ASGICallable,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    sockets: Sequence[socket.socket] | None = None,
    limits: HttpLimits | None = None,
    on_notice: Callable[[], object] | None = None,
    on_drain: Callable[[], Awaitable[None]] | None = None,
    on_started: Callable[[str, int], None] | None = None,
    access_log: bool = False,
    ssl_certfile: str | None = None,
    ssl_keyfile: str | None = None,
) -> None:
    """Serve ``app`` until SIGINT or SIGTERM, then drain and return.

    Args:
        app: the ASGI callable.
        host, port: where to listen; port 0 takes a free one.
        sockets: listen on these instead; they are closed at the end.
        limits: bounds of each connection.
        on_notice: called when shutdown begins, while requests are still taken: says no to probes for readiness.
        on_drain: awaited when listening has ended, before waiting for requests in flight: ends the streams that would
            otherwise never end.
        on_started: called once with the host and the port actually bound; ``None`` says at a terminal where it serves.
        access_log: log each request on ``uvicorn.access``.
        ssl_certfile, ssl_keyfile: serve TLS with these files.

    Raises:
        OSError: the address cannot be bound.
    """
    import asyncio

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:  # no uvloop on this platform
        pass
    else:
        new_event_loop = uvloop.new_event_loop
    importlib.import_module("uvicorn")  # before the collector is told what to leave alone

    with patient_collector(), asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            runner.run(
                serve_http(
                    app,
                    host=host,
                    port=port,
                    sockets=sockets,
                    limits=limits,
                    on_notice=on_notice,
                    on_drain=on_drain,
                    on_started=on_started or functools.partial(_announce, app, ssl_certfile is not None),
                    access_log=access_log,
                    ssl_certfile=ssl_certfile,
                    ssl_keyfile=ssl_keyfile,
                    handle_signals=True,
                )
            )
        except KeyboardInterrupt:  # a second Ctrl-C while draining
            return


async def serve_http(
    app: ASGICallable,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    sockets: Sequence[socket.socket] | None = None,
    limits: HttpLimits | None = None,
    on_notice: Callable[[], object] | None = None,
    on_drain: Callable[[], Awaitable[None]] | None = None,
    on_started: Callable[[str, int], None] | None = None,
    access_log: bool = False,
    ssl_certfile: str | None = None,
    ssl_keyfile: str | None = None,
    handle_signals: bool = False,
) -> None:
    """As `run_http`, inside a running asyncio loop; cancelling it drains and returns.

    Args:
        handle_signals: stop on SIGINT and SIGTERM (main thread only). Otherwise only cancellation stops it.
    """
    import asyncio

    import uvicorn

    limits = limits or HttpLimits()
    bound = list(sockets) if sockets is not None else bind(host, port)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="none",
        http=_protocol_class(limits),
        ws="none",
        interface="asgi3",
        lifespan="auto",
        log_config=None,
        log_level=None if access_log else "warning",
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=limits.keep_alive_s,
        timeout_graceful_shutdown=limits.drain_s,
        ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile,
    )
    server = _server_class()(config, limits.notice_s, on_notice, on_drain, on_started)
    if handle_signals:
        await server.serve(sockets=bound)
        return
    serving = asyncio.ensure_future(server.serve_quietly(bound))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


def _announce(app: ASGICallable, is_tls: bool, host: str, port: int) -> None:
    """Tell a person at a terminal where to find the server; a log collector has no use for it."""
    if sys.stderr.isatty():
        path = getattr(getattr(app, "options", None), "path", "")
        name = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Serving {'https' if is_tls else 'http'}://{name}:{port}{path} (Ctrl-C ends it)\n")


def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for a host name, of every family that it has, so that clients find it by either.

    Raises:
        OSError: the address cannot be bound.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if bound and port == 0:  # the further families listen on the port that the first one got
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError:  # a family that this machine does not have
                continue
            bound.append(sock)
            if sys.platform != "win32":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind(address)
            except OSError:
                if len(bound) == 1 or not is_loopback_name(host):
                    raise
                bound.pop().close()  # IPv6 loopback is switched off; IPv4 serves
                continue
            sock.listen(2048)
            sock.setblocking(False)
    except BaseException:
        for sock in bound:
            sock.close()
        raise
    if not bound:
        raise OSError(f"cannot listen on {host}:{port}")
    return bound


def _is_no_cut_off_request(record: logging.LogRecord) -> bool:
    """Drops the stack of each request that is cut off at shutdown: uvicorn says in one line how many there are."""
    return record.exc_info is None or record.exc_info[0] is None or record.exc_info[0].__name__ != "CancelledError"


def _awaits_request(connection: Any) -> bool:
    """Whether a connection is open and has nothing in flight: the first or the next request may be on its way."""
    return connection.cycle is None or connection.cycle.response_complete


@functools.cache
def _server_class() -> type[Any]:
    import asyncio

    import uvicorn

    class Server(uvicorn.Server):
        """uvicorn's server, which goes down in steps and tells the application of each."""

        def __init__(
            self,
            config: uvicorn.Config,
            notice_s: float,
            on_notice: Callable[[], object] | None,
            on_drain: Callable[[], Awaitable[None]] | None,
            on_started: Callable[[str, int], None] | None,
        ) -> None:
            super().__init__(config)
            self._notice_s = notice_s
            self._on_notice = on_notice
            self._on_drain = on_drain
            self._on_started = on_started
            self._gives_notice = False

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started and self._on_started is not None and sockets:
                name: Any = sockets[0].getsockname()
                self._on_started(self.config.host, name[1] if isinstance(name, tuple) else 0)  # pyright: ignore[reportUnknownArgumentType]

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # These go out with every answer from now on, at no cost before; uvicorn closes such a connection itself.
            self.server_state.default_headers.append((b"connection", b"close"))
            if self._on_notice is not None:
                self._on_notice()
            if self._gives_notice:
                await self._wait(self._notice_s, lambda: False)
            for server in self.servers:
                server.close()  # no new connection may slip in between the end of the streams and the wait for them
            if self._on_drain is not None:
                await self._on_drain()
            await self._wait(_LINGER_S, lambda: not any(map(_awaits_request, self.server_state.connections)))
            logger = logging.getLogger("uvicorn.error")
            logger.addFilter(_is_no_cut_off_request)
            try:
                await super().shutdown(sockets)
            finally:
                logger.removeFilter(_is_no_cut_off_request)

        async def _wait(self, timeout_s: float, is_over: Callable[[], bool]) -> None:
            end = time.monotonic() + timeout_s
            # uvicorn tells of none of these by an event.
            while not is_over() and not self.force_exit and time.monotonic() < end:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY_S)

        async def serve_quietly(self, sockets: list[socket.socket]) -> None:
            """Serve without touching signal handlers."""
            await self._serve(sockets)

        def handle_exit(self, sig: int, frame: "FrameType | None") -> None:
            # Without re-raising afterwards: an orderly end is not a KeyboardInterrupt.
            if self.should_exit:
                self.force_exit = True
            self._gives_notice = sig == signal.SIGTERM
            self.should_exit = True

    return Server


@functools.cache
def _protocol_class(limits: HttpLimits) -> type[Any]:
    """uvicorn's httptools protocol with ``limits``; made when needed, because importing uvicorn costs 60 ms."""
    import httptools
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

    max_head_bytes = limits.max_head_bytes

    class LimitedProtocol(HttpToolsProtocol):
        """Bounds the head, the arrival of the body and the patience with a client that does not read."""

        _head_bytes = 0
        _read_timer: "asyncio.TimerHandle | None" = None
        _reads_body = False
        _write_timer: "asyncio.TimerHandle | None" = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._read_timer = self.loop.call_later(limits.head_timeout_s, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timers()
            self._unset_keepalive_if_required()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._unset_keepalive_if_required()
            try:
                parser: Any = self.parser  # ``None`` only after the connection is lost
                parser.feed_data(data)
            except httptools.HttpParserError:
                self.refuse(400, b"Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade:
                pass  # no protocol to upgrade to: the request is served as it is
            scope: Any = self.scope  # ``None`` before the first request
            if scope is None or "method" not in scope:
                self._head_is_incomplete(len(data))
            elif self._read_timer is not None or self.cycle.more_body:
                self._head_is_complete()
            if len(data) > max_head_bytes:
                self._check_head()

        def _head_is_incomplete(self, arrived: int) -> None:
            self._head_bytes += arrived
            if self._head_bytes > max_head_bytes:
                self.refuse(431, b"The request's headers are too large.")
            elif self._read_timer is None:
                self._read_timer = self.loop.call_later(limits.head_timeout_s, self._give_up)

        def _head_is_complete(self) -> None:
            self._head_bytes = 0
            waits_for_body = self.cycle.more_body
            if waits_for_body and self._reads_body:
                return
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None
            self._reads_body = waits_for_body
            if waits_for_body:
                self._read_timer = self.loop.call_later(limits.body_timeout_s, self._give_up)

        def _check_head(self) -> None:
            """A chunk this large may hold the whole of an oversized head (or a body, which is not our business)."""
            if sum(len(name) + len(value) + 4 for name, value in self.headers) > max_head_bytes:
                self.refuse(431, b"The request's headers are too large.")

        def refuse(self, status: int, message: bytes) -> None:
            """Answer without the application and close."""
            if self.transport.is_closing():
                return
            self.transport.write(
                b"%scontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
                % (STATUS_LINE[status], len(message), message)
            )
            self._stop_timers()
            self.transport.close()
            cycle: Any = self.cycle  # ``None`` before the first request
            if cycle is not None:
                cycle.disconnected = True  # the application, if it was started, must not answer as well
                cycle.message_event.set()

        def _give_up(self) -> None:
            """The client took too long over its request."""
            self._read_timer = None
            cycle: Any = self.cycle  # ``None`` before the first request
            if cycle is not None and not cycle.response_complete and not cycle.more_body:
                return  # it waits for our answer: its next head may wait as well
            if not self.transport.is_closing():
                self.transport.close() if cycle is None or cycle.response_complete else self.transport.abort()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._write_timer is None:
                self._write_timer = self.loop.call_later(limits.write_timeout_s, self.transport.abort)

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
