"""Serving an ASGI callable over HTTP in this process: uvicorn's server on uvloop, bounded and quiet.

uvicorn brings the server (listening, signals, lifespan); the bytes of a connection are read and written by
`_http_protocol`, which bounds what uvicorn has no option for: the size of a request's head, the time that a head and a
body may take to arrive, and the time that a client may refuse to read. Whoever serves ``app.asgi()`` with a server of
their own gets these bounds from that server or not at all.

uvloop is started through its own loop factory, so it is really in use; without uvloop (Windows, PyPy) the loop is
asyncio's.
"""

import functools
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.transports.asgi.security import is_loopback_name

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["HttpLimits", "run_http", "serve_http"]

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
        drain_s: seconds that requests in flight get to finish at shutdown.
    """

    max_head_bytes: int = 64 * 1024
    head_timeout_s: float = 15.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    keep_alive_s: int = 65
    drain_s: int = 10


def run_http(
    app: ASGICallable,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    sockets: Sequence[socket.socket] | None = None,
    limits: HttpLimits | None = None,
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
        on_drain: awaited when shutdown begins, before waiting for requests in flight: ends the streams that would
            otherwise never end.
        on_started: called once with the host and the port actually bound.
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
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            runner.run(
                serve_http(
                    app,
                    host=host,
                    port=port,
                    sockets=sockets,
                    limits=limits,
                    on_drain=on_drain,
                    on_started=on_started,
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

    from ferrule.transports._http_protocol import HttpProtocol

    limits = limits or HttpLimits()
    bound = list(sockets) if sockets is not None else _bind(host, port)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="none",
        http=cast("Any", functools.partial(HttpProtocol, limits=limits)),
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
    server = _server_class()(config, on_drain, on_started)
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


def _bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for a host name, of every family that it has, so that clients find it by either."""
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


@functools.cache
def _server_class() -> type[Any]:
    import uvicorn

    class Server(uvicorn.Server):
        """uvicorn's server, which tells the application that it is going down before it waits for it."""

        def __init__(
            self,
            config: uvicorn.Config,
            on_drain: Callable[[], Awaitable[None]] | None,
            on_started: Callable[[str, int], None] | None,
        ) -> None:
            super().__init__(config)
            self._on_drain = on_drain
            self._on_started = on_started

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started and self._on_started is not None and sockets:
                name: Any = sockets[0].getsockname()
                self._on_started(self.config.host, name[1] if isinstance(name, tuple) else 0)  # pyright: ignore[reportUnknownArgumentType]

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for server in self.servers:
                server.close()  # no new connection may slip in between the end of the streams and the wait for them
            if self._on_drain is not None:
                await self._on_drain()
            await super().shutdown(sockets)

        async def serve_quietly(self, sockets: list[socket.socket]) -> None:
            """Serve without touching signal handlers."""
            await self._serve(sockets)

        def handle_exit(self, sig: int, frame: "FrameType | None") -> None:
            # Without re-raising afterwards: an orderly end is not a KeyboardInterrupt.
            if self.should_exit:
                self.force_exit = True
            self.should_exit = True

    return Server
