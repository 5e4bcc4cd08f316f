"""Serving an ASGI callable over HTTP in this process: uvicorn on uvloop with httptools, with bounds.

uvicorn is the HTTP server; this module starts and ends it in an order that loses no request, and
`ferrule.transports.hosting.http_protocol` bounds its connections. Under another server the bounds of ``app.asgi()`` are
those of that server.

The event loop is uvloop's, made by its loop factory; asyncio's where there is no uvloop (Windows, PyPy).

A shutdown has several steps, so that no request is lost. After SIGTERM the readiness check fails, and the server serves
for ``notice_s`` more seconds. Then it stops listening and the streams end. Connections without a request in flight get
`_LINGER_S` for a request that is on its way; requests in flight get ``drain_s``. From the first step on each response
has ``Connection: close``, so that clients close their connections. SIGINT (Ctrl-C) skips the notice.
"""

import contextlib
import errno
import functools
import importlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ferrule._imports import without_collector
from ferrule.transports.asgi.security import is_loopback_name
from ferrule.transports.hosting.collector import patient_collector
from ferrule.transports.hosting.http_protocol import BoundsWriting, HttpLimits, protocol_class
from ferrule.transports.loops import outliving_exits, refuse_in_running_loop

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["HttpLimits", "address", "announce", "bind", "how_to_connect", "log_to_stderr", "run_http", "serve_http"]

_LINGER_S = 0.5
"""Seconds that a connection without a request stays open at shutdown: a round trip around the world, with reserve."""
_LOOK_EVERY_S = 0.02
_STALLED_S = 2.0
"""Seconds that a client may leave a response unread after a shutdown has begun."""

ASGICallable = Callable[[Any, Any, Any], Awaitable[None]]


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
    log_level: str | None = "warning",
    ssl_certfile: str | None = None,
    ssl_keyfile: str | None = None,
) -> None:
    """Serve ``app`` until SIGINT or SIGTERM, then drain and return.

    Args:
        app: the ASGI callable.
        host, port: the address; port 0 means a free port.
        sockets: listening sockets to use instead; they are closed at the end.
        limits: bounds of each connection.
        on_notice: called when the shutdown begins, while requests are still accepted: makes the readiness probe fail.
        on_drain: awaited after the end of listening, before waiting for requests in flight: ends the streams, which
            would otherwise never end.
        on_started: called once with the host and the bound port; ``None`` prints on stderr the address and how to
            connect to it.
        access_log: log each request on ``uvicorn.access``: client, method, path, status. Queries and headers, which may
            hold tokens, are not logged.
        log_level: write log records of this level and above to stderr, with the time, unless the program has configured
            logging; ``None`` changes nothing.
        ssl_certfile, ssl_keyfile: serve TLS with these files.

    Raises:
        OSError: the address cannot be bound.
        RuntimeError: an event loop runs in this thread already.
        ValueError: an unknown ``log_level``.
    """
    import asyncio

    refuse_in_running_loop()
    log_to_stderr(log_level, access_log)
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:  # no uvloop on this platform
        pass
    else:
        new_event_loop = uvloop.new_event_loop
    with without_collector():
        importlib.import_module("uvicorn")  # before `gc.freeze` excludes the existing objects from collections

    with patient_collector(), asyncio.Runner(loop_factory=lambda: outliving_exits(new_event_loop())) as runner:
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
    _check_readable(ssl_certfile, ssl_keyfile)
    if access_log:
        logging.getLogger("uvicorn.access").addFilter(_remove_query)  # a second time it changes nothing
    bound = list(sockets) if sockets is not None else bind(host, port)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="none",
        http=protocol_class(limits),
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
    server = _server_class()(config, limits.notice_s, limits.drain_s, on_notice, on_drain, on_started)
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
    """Log the address of the server; in a log file this line also says that it has started."""
    from ferrule.transports.asgi.gate import HttpGate

    served: object = app
    announce(host, port, served.options.path if isinstance(served, HttpGate) else "", is_tls=is_tls)


def announce(host: str, port: int, path: str, *, is_tls: bool = False) -> None:
    """Print on stderr, if there is one, the address of a server and how to connect to it."""
    url = address(host, port, path, is_tls=is_tls)
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"Serving {url} (Ctrl-C ends it)\n{how_to_connect(host, port, path, is_tls=is_tls)}\n")
        sys.stderr.flush()


def address(host: str, port: int, path: str, *, is_tls: bool = False) -> str:
    """Return the URL of a server."""
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{name}:{port}{path}"


def how_to_connect(host: str, port: int, path: str, *, is_tls: bool = False) -> str:
    """Return the line that says how to try a server, and how to add it to a host."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    url = address(reachable, port, path, is_tls=is_tls)
    return f"Try it: ferrule dev {url}; add it to a host: ferrule install HOST {url}"


def log_to_stderr(level: str | None, access_log: bool = False) -> None:
    """Write log records to stderr, with the time, if the program has not configured logging; ``None`` does nothing.

    Raises:
        ValueError: an unknown level.
    """
    if access_log and logging.getLogger("uvicorn.access").level == logging.NOTSET:
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)  # the root's level may be above it
    if level is None:
        return
    number: object = logging.getLevelNamesMapping().get(level.upper())
    if not isinstance(number, int):
        raise ValueError(f"log_level={level!r}: expected 'debug', 'info', 'warning', 'error', 'critical' or None")
    root = logging.getLogger()
    if root.handlers or sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - without a console
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(number)


def _check_readable(*files: str | None) -> None:
    """Raise an error that names the file, if one cannot be read; the error of OpenSSL does not name it.

    Raises:
        OSError: a file cannot be read.
    """
    for file in files:
        if file is not None:
            open(file, "rb").close()


def bind(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets for all addresses of a host name, IPv4 and IPv6.

    Raises:
        OSError: the address cannot be bound, or the name has no address.
        ValueError: there is no such port.
    """
    if type(port) is not int or not 0 <= port <= 65_535:  # the system would use the lowest 16 bits
        raise ValueError(f"port={port!r}: expected a number from 0 to 65535")
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise _with_address(error, host, port) from error
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
            except OSError as error:
                if len(bound) == 1 or not is_loopback_name(host):
                    raise _with_address(error, host, port) from error
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


def _with_address(error: OSError, host: str, port: int) -> OSError:
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        reason += "; another program has this port: take another one (port=), or any that is free (port=0)"
    return type(error)(error.errno, f"cannot listen on {host}:{port}: {reason}")


def _remove_query(record: logging.LogRecord) -> bool:
    """Filter of uvicorn's access log: remove the query of a path, where some clients send a token."""
    arguments = record.args
    if isinstance(arguments, tuple) and len(arguments) == 5 and isinstance(arguments[2], str):
        record.args = (*arguments[:2], arguments[2].partition("?")[0], *arguments[3:])
    return True


def _is_no_cut_off_request(record: logging.LogRecord) -> bool:
    """Filter the tracebacks of requests that a shutdown cancels; uvicorn logs their number in one line."""
    return record.exc_info is None or record.exc_info[0] is None or record.exc_info[0].__name__ != "CancelledError"


def _awaits_request(connection: Any) -> bool:
    """Return whether a connection has no request in flight, so that one may be on its way."""
    return connection.cycle is None or connection.cycle.response_complete


@functools.cache
def _server_class() -> type[Any]:
    import asyncio

    import uvicorn

    class UvicornServer(uvicorn.Server):
        """uvicorn's server with a shutdown in steps that are reported to the application."""

        ends_streams = True

        def __init__(
            self,
            config: uvicorn.Config,
            notice_s: float,
            drain_s: float,
            on_notice: Callable[[], object] | None,
            on_drain: Callable[[], Awaitable[None]] | None,
            on_started: Callable[[str, int], None] | None,
        ) -> None:
            super().__init__(config)
            self._notice_s = notice_s
            self._drain_s = drain_s
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
            # Sent with each response from now on; uvicorn then closes the connection itself.
            self.server_state.default_headers.append((b"connection", b"close"))
            if self._on_notice is not None:
                self._on_notice()
            if self._gives_notice:
                await self._wait(self._notice_s, lambda: False)
            for server in self.servers:
                server.close()  # no new connection may be accepted after the streams have ended
            end = time.monotonic() + self._drain_s
            connections: list[object] = [*self.server_state.connections]
            for connection in connections:
                if isinstance(connection, BoundsWriting):
                    connection.hurry(_STALLED_S)
            if self._on_drain is not None:
                await self._drain(self._on_drain)
            await self._wait(_LINGER_S, lambda: not any(map(_awaits_request, self.server_state.connections)))
            self.config.timeout_graceful_shutdown = max(0, end - time.monotonic())  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
            logger = logging.getLogger("uvicorn.error")
            logger.addFilter(_is_no_cut_off_request)
            try:
                await super().shutdown(sockets)
            finally:
                logger.removeFilter(_is_no_cut_off_request)

        async def _drain(self, on_drain: Callable[[], Awaitable[None]]) -> None:
            try:
                await asyncio.wait_for(on_drain(), max(self._drain_s, _STALLED_S))
            except TimeoutError:
                logging.getLogger("uvicorn.error").warning("Streams did not end within %g s", self._drain_s)
            except Exception:
                logging.getLogger("uvicorn.error").exception("The streams could not be ended")

        async def _wait(self, timeout_s: float, is_over: Callable[[], bool]) -> None:
            end = time.monotonic() + timeout_s
            # uvicorn has no event for any of these.
            while not is_over() and not self.force_exit and time.monotonic() < end:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY_S)

        async def serve_quietly(self, sockets: list[socket.socket]) -> None:
            """Serve without installing signal handlers."""
            await self._serve(sockets)

        def handle_exit(self, sig: int, frame: "FrameType | None") -> None:
            # uvicorn's own raises the signal again afterwards, which would end the process with a KeyboardInterrupt.
            if self.should_exit:
                self.force_exit = True
            self._gives_notice = sig == signal.SIGTERM
            self.should_exit = True

    return UvicornServer
