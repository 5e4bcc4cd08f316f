# DECISION OF THE LEAD: this file must not land. Default HTTP client = aiohttp (fits the budget: 20 distributions, 44 MB); see
# the last section of /work/notes/contract.md. Move what the module docstring measured into the commit message of the aiohttp adapter.
"""The built-in HTTP/1.1 client: asyncio's transports, and httptools for reading.

Why not a library (measured and read on 2026-11-28, Python 3.11, CPU per keep-alive POST): pyreqwest 0.15 withholds
the start of an event stream until 64 KiB have arrived unless told otherwise, dead-locks when a response is closed
while another task reads it, and does not close the connection of a cancelled request, not even with the client:
a cancelled tool would run on. aiohttp does all this right but brings seven distributions; httpx2 costs 387 µs against
about 50 here. Parsing is llhttp's (httptools), which the server side needs anyway; what remains is a pool, a write and
a queue of body pieces. HTTP/2, SOCKS and compression are not offered: pass a client of your own for them.

The rule that a newcomer would break: a request is never sent twice by itself. A connection that dies without a byte
of an answer may still have delivered the request; only the caller knows whether repeating it is harmless.
"""

from __future__ import annotations

import asyncio
import os
import select
import ssl
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import httptools

from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.http_client import (
    HttpConnectFailed,
    HttpConnectionLost,
    HttpOptions,
    HttpProtocolError,
    HttpRequest,
    TlsOptions,
)

__all__ = ["Http1Client", "Http1Response", "proxy_for"]

_MAX_HEAD_BYTES: Final = 128 * 1024
_HIGH_WATER_BYTES: Final = 256 * 1024
_LINGER_S: Final = 0.5
_NO_BODY: Final = frozenset({"GET", "HEAD", "DELETE", "CONNECT"})


class _Origin(NamedTuple):
    """What a connection is for."""

    is_tls: bool
    host: str
    port: int


class _Target(NamedTuple):
    """A parsed URL."""

    origin: _Origin
    host_header: str
    path: str
    public: str


class Http1Client:
    """Connections to any number of origins, reused one request at a time.

    Belongs to the event loop in which it is first used.
    """

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options = options or HttpOptions()
        self._idle: dict[tuple[_Origin, str | None], deque[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._targets: dict[str, _Target] = {}
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False

    async def open(self, request: HttpRequest) -> Http1Response:
        """Send a request and wait for the head of its answer.

        Raises:
            HttpConnectFailed: no connection; ``ValueError`` for a URL or header that cannot be sent.
            HttpConnectionLost: it ended first.
        """
        if self._is_closed:
            raise ConnectionClosed("The HTTP client is closed")
        target = self._targets.get(request.url)
        if target is None:
            if len(self._targets) > 256:
                self._targets.clear()
            target = self._targets[request.url] = _parse_url(request.url)
        proxy = self._proxy(target)
        connection = self._take_idle(target.origin, proxy)
        if connection is None:
            connection = await self._connect(target, proxy)
        as_proxy = proxy is not None and not target.origin.is_tls
        try:
            connection.send(_head(request, target, proxy if as_proxy else None), request.body, request.method, target)
            return await connection.response_head()
        except BaseException:
            connection.abort()
            raise

    async def aclose(self) -> None:
        """Close every connection; requests under way fail with `HttpConnectionLost`."""
        self._is_closed = True
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # lets the transports run their own closing

    def finish(self, response: Any) -> None:
        """The caller has what it needs, and the body is about to end by itself: keep the connection if it does."""
        if isinstance(response, Http1Response):
            response.finish()

    # -- connections --------------------------------------------------------------------------------------------

    def _proxy(self, target: _Target) -> str | None:
        proxy = self.options.proxy
        return proxy_for(target.origin.is_tls, target.origin.host) if proxy == "env" else proxy

    def _take_idle(self, origin: _Origin, proxy: str | None) -> _Connection | None:
        idle = self._idle.get((origin, proxy))
        while idle:
            connection = idle.pop()  # the one used last is the least likely to be closed by the server
            if connection.take():
                return connection
        return None

    def give_back(self, connection: _Connection) -> bool:
        """Keep a connection for the next request; ``False``: it should be closed."""
        if self._is_closed:
            return False
        idle = self._idle.setdefault(connection.key, deque())
        if len(idle) >= self.options.max_idle:
            return False
        idle.append(connection)
        return True

    def forget(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._open.discard(connection)
        idle = self._idle.get(connection.key)
        if idle and connection in idle:
            idle.remove(connection)

    async def _connect(self, target: _Target, proxy: str | None) -> _Connection:
        try:
            async with asyncio.timeout(self.options.connect_timeout_s):
                connection = await self._dial(target, proxy)
        except TimeoutError:
            raise HttpConnectFailed(
                target.public, f"no connection within {self.options.connect_timeout_s:g} s"
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise HttpConnectFailed(target.public, f"its certificate is not trusted: {error.verify_message}") from error
        except (OSError, UnicodeError) as error:
            raise HttpConnectFailed(target.public, str(error) or type(error).__name__) from error
        if self._is_closed:
            connection.abort()
            raise ConnectionClosed("The HTTP client is closed")
        self._open.add(connection)
        return connection

    async def _dial(self, target: _Target, proxy: str | None) -> _Connection:
        loop = asyncio.get_running_loop()
        origin = target.origin

        def make() -> _Connection:
            return _Connection(self, (origin, proxy), loop)

        if proxy is None:
            host, port, tls = origin.host, origin.port, origin.is_tls
        else:
            via = _parse_url(proxy)
            host, port, tls = via.origin.host, via.origin.port, via.origin.is_tls
        context = self._context() if tls else None
        _, connection = await loop.create_connection(make, host, port, ssl=context, happy_eyeballs_delay=0.25)
        if proxy is not None and origin.is_tls:
            await self._tunnel(connection, target, proxy, loop)
        return connection

    async def _tunnel(
        self, connection: _Connection, target: _Target, proxy: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        authority = f"{_bracketed(target.origin.host)}:{target.origin.port}"
        head = f"CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{_proxy_authorization(proxy)}\r\n"
        try:
            connection.send(head.encode("latin-1"), b"", "CONNECT", target)
            response = await connection.response_head()
            if response.status != 200:
                raise HttpConnectFailed(target.public, f"the proxy answered {response.status}")
            connection.leave_tunnel_handshake()
            transport = await loop.start_tls(
                connection.transport, connection, self._context(), server_hostname=target.origin.host
            )
            if transport is None:
                raise OSError("the proxy closed the connection")
            connection.connection_made(transport)
        except BaseException:
            connection.abort()
            raise

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            tls = self.options.tls
            self._tls = tls if isinstance(tls, ssl.SSLContext) else (tls or TlsOptions()).make_context()
        return self._tls


class Http1Response:
    """One answer; see `ferrule.transports.http_client.HttpResponse`."""

    __slots__ = ("_connection", "_inflate", "headers", "status")

    def __init__(self, connection: _Connection, status: int, headers: dict[str, str]) -> None:
        self._connection: _Connection | None = connection
        self.status = status
        self.headers = headers
        self._inflate: Any = None
        encoding = headers.get("content-encoding")
        if encoding is not None and encoding.strip().lower() in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=47)  # not asked for, but proxies do it

    async def receive(self) -> bytes:
        """The next piece of the body; ``b""`` at its end."""
        connection = self._connection
        if connection is None:
            return b""
        while True:
            piece = await connection.body_piece()
            if not piece:
                self._connection = None
                connection.release()
                return self._inflate.flush() if self._inflate is not None else b""
            if self._inflate is None:
                return piece
            if plain := self._inflated(connection, piece):
                return plain

    async def aclose(self) -> None:
        """Let go of it; closes the connection if the body has not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()

    def finish(self) -> None:
        """See `Http1Client.finish`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.linger()

    def _inflated(self, connection: _Connection, piece: bytes) -> bytes:
        try:
            return self._inflate.decompress(piece)
        except zlib.error as error:
            connection.abort()
            raise HttpProtocolError(connection.public, f"the body is not {error}", was_silent=False) from error


class _Connection(asyncio.Protocol):
    """One connection: at most one request at a time."""

    def __init__(
        self, client: Http1Client, key: tuple[_Origin, str | None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.key = key
        self.public = ""
        self.transport: Any = None
        self._client = client
        self._loop = loop
        self._parser: Any = None
        self._waiter: asyncio.Future[Any] | None = None
        self._lost: Exception | None = None
        self._is_lost = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._readable: Callable[[], Any] | None = None
        self._reset("", None)

    def _reset(self, method: str, target: _Target | None) -> None:
        self._method = method
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._status = 0
        self._has_head = False
        self._is_silent = True
        self._is_complete = False
        self._until_close = False
        self._may_reuse = False
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._is_paused = False
        self._is_lingering = False
        if target is not None:
            self.public = target.public

    # -- the request's side -------------------------------------------------------------------------------------

    def send(self, head: bytes, body: bytes, method: str, target: _Target) -> None:
        """Write a request."""
        self._reset(method, target)
        if self._is_lost:
            raise self._loss()
        self.transport.write(head + body if len(body) < 65536 else head)
        if len(body) >= 65536:
            self.transport.write(body)

    async def response_head(self) -> Http1Response:
        """Wait for status and headers."""
        while not self._has_head:
            if self._is_lost:
                raise self._loss()
            await self._wait()
        return Http1Response(self, self._status, self._headers)

    async def body_piece(self) -> bytes:
        """What has arrived of the body; ``b""`` at its end."""
        pieces = self._pieces
        while not pieces:
            if self._is_complete:
                return b""
            if self._is_lost:
                if self._until_close and self._lost is None:
                    return b""
                raise self._loss()
            await self._wait()
        piece = pieces.popleft() if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        return piece

    def release(self) -> None:
        """The answer was let go: keep the connection if its body has ended."""
        if self._is_complete and self._may_reuse and not self._is_lost and not self.transport.is_closing():
            self._pieces.clear()
            if self._client.give_back(self):
                self._idle_timer = self._loop.call_later(self._client.options.keep_alive_s, self.abort)
                return
        self.abort()

    def linger(self) -> None:
        """Give the body a moment to end; what still comes of it is dropped."""
        if self._is_complete or self._is_lost:
            self.release()
            return
        self._is_lingering = True
        self._idle_timer = self._loop.call_later(_LINGER_S, self.abort)

    def take(self) -> bool:
        """Leave the idle pool; ``False``: it is closed."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        return not self._is_lost and not self.transport.is_closing() and not self._has_unread()

    def _has_unread(self) -> bool:
        """Whether the server has closed, or said something unasked, and the loop has not seen it yet.

        A look at the socket (1 µs) closes most of the window in which a request is written to a dead connection.
        """
        if self._readable is None:
            fd = self.transport.get_extra_info("socket").fileno()
            if hasattr(select, "poll"):
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                self._readable = lambda: poll.poll(0)
            else:  # Windows
                self._readable = lambda: select.select([fd], [], [], 0)[0]
        try:
            return bool(self._readable())
        except (OSError, ValueError):
            return True

    def abort(self) -> None:
        """Close now; whoever waits gets an error."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._client.forget(self)
        if not self._is_lost:
            self._is_lost = True
            self._lost = self._lost or ConnectionAbortedError("closed by this side")
            if self.transport is not None:
                # close() flushes and says goodbye under TLS; what is unsent of a request nobody waits for is dropped
                self.transport.abort() if self.transport.get_write_buffer_size() else self.transport.close()
        self._wake()

    def leave_tunnel_handshake(self) -> None:
        """CONNECT was answered: the next bytes belong to TLS."""
        self._reset("", None)

    # -- the transport's side -----------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._is_lost:
            return
        self._is_silent = False
        if not self._has_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except Exception as error:
            cause = error.__context__ or error
            self._lost = cause if isinstance(cause, HttpProtocolError) else HttpProtocolError(
                self.public, f"it does not speak HTTP/1.1 ({error})", was_silent=False
            )
            self.abort()
            return
        if self._held_bytes > _HIGH_WATER_BYTES and not self._is_paused and not self._is_complete:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._lost = exc
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._client.forget(self)
        self._wake()

    # -- the parser's side --------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        held = self._headers.get(key)
        self._headers[key] = text if held is None else f"{held}, {text}"
        if self._head_bytes > _MAX_HEAD_BYTES:
            raise HttpProtocolError(
                self.public, f"the head of its answer is over {_MAX_HEAD_BYTES} bytes", was_silent=False
            )

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._headers = {}
            return
        self._status = status
        self._has_head = True
        if self._method == "CONNECT" and status == 200:
            self._is_complete = True
            return
        headers = self._headers
        self._until_close = (
            "content-length" not in headers
            and "chunked" not in headers.get("transfer-encoding", "").lower()
            and status not in (204, 304)
        )

    def on_body(self, body: bytes) -> None:
        if self._is_lingering:
            return
        self._pieces.append(body)
        self._held_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._has_head and not self._is_complete:
            self._is_complete = True
            self._may_reuse = self._parser.should_keep_alive() and not self._until_close
            if self._is_lingering:
                self._is_lingering = False
                if self._idle_timer is not None:
                    self._idle_timer.cancel()
                self._loop.call_soon(self.release)

    # -- waiting ------------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _loss(self) -> Exception:
        lost = self._lost
        if isinstance(lost, HttpProtocolError):
            return lost
        why = "the server closed it" if lost is None else str(lost) or type(lost).__name__
        error = HttpConnectionLost(self.public, why, was_silent=self._is_silent)
        error.__cause__ = lost
        return error


def proxy_for(is_tls: bool, host: str) -> str | None:
    """The proxy that the environment names for a host; ``None``: connect directly."""
    environ = os.environ
    names = ("https_proxy", "HTTPS_PROXY") if is_tls else ("http_proxy",)  # HTTP_PROXY: a CGI client can set it
    proxy = next((environ[name] for name in (*names, "all_proxy", "ALL_PROXY") if environ.get(name)), None)
    if proxy is None or _bypasses_proxy(host, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _bypasses_proxy(host: str, no_proxy: str) -> bool:
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return True
    for entry in no_proxy.replace(" ", ",").split(","):
        name = entry.strip().lower().removeprefix("*").removeprefix(".").partition(":")[0]
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False


def _parse_url(url: str) -> _Target:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{parts._replace(query='', fragment='').geturl()!r} is not an http or https URL")
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if any(c <= " " or c > "~" for c in path):
        from urllib.parse import quote

        path = quote(path, safe="/?#[]@!$&'()*+,;=:%-._~")
    host = parts.hostname
    shown = _bracketed(host) + (f":{parts.port}" if parts.port else "")
    host_header = shown.encode("idna").decode() if not shown.isascii() else shown
    return _Target(_Origin(is_tls, host, port), host_header, path, f"{parts.scheme}://{shown}{parts.path}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _head(request: HttpRequest, target: _Target, proxy: str | None) -> bytes:
    path = target.path if proxy is None else f"http://{target.host_header}{target.path}"
    lines = [f"{request.method} {path} HTTP/1.1\r\nhost: {target.host_header}\r\n"]
    for name, value in request.headers.items():
        if "\n" in value or "\r" in value or "\0" in value or "\n" in name or ":" in name:
            raise ValueError(f"The header {name!r} holds a line break or NUL")
        lines.append(f"{name}: {value}\r\n")
    if request.body or request.method not in _NO_BODY:
        lines.append(f"content-length: {len(request.body)}\r\n")
    if proxy is not None:
        lines.append(_proxy_authorization(proxy))
    lines.append("\r\n")
    try:
        return "".join(lines).encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("A header value holds characters that HTTP cannot carry") from None


def _proxy_authorization(proxy: str) -> str:
    parts = urlsplit(proxy)
    if parts.username is None:
        return ""
    from base64 import b64encode

    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"proxy-authorization: Basic {b64encode(pair.encode()).decode()}\r\n"
