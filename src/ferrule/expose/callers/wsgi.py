"""Sends requests to a WSGI application in this process: all of its middleware runs, in a thread, without a socket.

The application gets the environment of a server (PEP 3333). As with a server, an error after the response was sent does
not change the response: an error in the application's ``close()`` is logged.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

import anyio.to_thread
from anyio.lowlevel import RunVar
from msgspec import Struct
from msgspec.structs import replace

from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin
from ferrule.transports.wsgi.scope import SCRIPT_NAME_KEY

__all__ = ["MAX_THREADS", "WSGICaller"]

logger = logging.getLogger(__name__)

_App: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

MAX_THREADS = 40
"""Maximum number of requests that an application handles at the same time; more wait."""


class WSGICaller:
    """Calls a WSGI application (PEP 3333).

    Args:
        app: the application.
        script_name: the prefix that the application is mounted under, for the links that it makes. If the endpoint is
            part of a WSGI server with an application (`WSGIEndpoint.beside`), the outer request's prefix is used.
        max_threads: maximum number of requests in the application at the same time; ``1`` for one that is not
            thread-safe.
        context: returns the context variables that a request runs with (PEP 567); by default those of the call.
    """

    def __init__(
        self,
        app: _App,
        *,
        script_name: str = "",
        max_threads: int = MAX_THREADS,
        context: Callable[[], Context] = copy_context,
    ) -> None:
        self.app = app
        self.script_name = script_name.rstrip("/")
        self.max_threads = max_threads
        self._context = context
        self._threads: RunVar[_Threads] = RunVar(f"ferrule.wsgi.{id(self)}")

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`.

        A cancelled call returns at once; its thread stops at the next part of the response. A thread whose application
        does not return counts as one of ``max_threads`` until it does.
        """
        threads = self._threads.get(None)
        if threads is None:
            threads = _Threads(self.max_threads)
            self._threads.set(threads)
        exchange = _Exchange(max_bytes)
        try:
            async with threads.turns:
                if not threads.enter():
                    raise CallerUnavailable("the application has not answered earlier requests; try again later")
                return await anyio.to_thread.run_sync(
                    self._call_and_leave,
                    threads,
                    request,
                    origin,
                    exchange,
                    abandon_on_cancel=True,
                    limiter=_unlimited(),
                )
        finally:
            exchange.is_over = True

    async def aclose(self) -> None:
        """Do nothing; the application is not the caller's."""

    def call_sync(self, request: ApiRequest, origin: Origin, max_bytes: int) -> ApiResponse:
        """Call the application in the thread of the caller, and return the response.

        Args:
            request: the request.
            origin: the origin of the outer request.
            max_bytes: the maximum number of bytes of the response's body that are read.

        Raises:
            CallerUnavailable: the application failed, or sent no valid response.
        """
        return self._context().run(self._call, request, origin, _Exchange(max_bytes))

    def _call_and_leave(
        self, threads: _Threads, request: ApiRequest, origin: Origin, exchange: _Exchange
    ) -> ApiResponse:
        try:
            return self._context().run(self._call, request, origin, exchange)
        finally:
            threads.leave()

    def _call(self, request: ApiRequest, origin: Origin, exchange: _Exchange) -> ApiResponse:
        if "%2f" in request.path.lower():
            # A WSGI path is decoded, so such a value would lead to another operation.
            raise CallerUnavailable("a value in the path must not have a slash, which this API reads as a further step")
        environ = self._environ(request, origin)
        try:
            exchange.run(self.app, environ)
        except _Ended:
            logger.debug("%s %s ended after its answer was cut", request.method, request.path)
        except BaseException as error:  # also SystemExit: an application must not end this process
            logger.error("%s %s failed in the application", request.method, request.path, exc_info=error)
            raise CallerUnavailable("the application failed") from error
        return replace(exchange.answer(f"{request.method} {request.path}"), prefix=self._script_name(origin))

    def _environ(self, request: ApiRequest, origin: Origin) -> dict[str, Any]:
        host, port = _split_host(origin.host)
        script_name = self._script_name(origin)
        path = request.path
        if not request.route and script_name and path.startswith(f"{script_name}/"):
            path = path[len(script_name) :]  # a redirect names the whole path
        target = script_name + path + (f"?{request.query}" if request.query else "")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": _native(script_name),
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "RAW_URI": target,
            "REQUEST_URI": target,
            "QUERY_STRING": request.query,
            "SERVER_NAME": host,
            "SERVER_PORT": port or ("443" if origin.scheme == "https" else "80"),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_SOFTWARE": "ferrule",
            "HTTP_HOST": origin.host,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": origin.scheme,
            "wsgi.input": io.BytesIO(request.body),
            "wsgi.input_terminated": True,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": self.max_threads > 1,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        if origin.client is not None:
            environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = origin.client[0], str(origin.client[1])
        names = {name for name, _ in request.headers}
        for name, value in (*request.headers, *(pair for pair in origin.headers if pair[0] not in names)):
            text = value.encode("latin-1", "replace").decode("latin-1")
            key = name.upper().replace("-", "_")
            if key in ("CONTENT_LENGTH", "HOST"):
                continue
            key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
            # A header that is there twice is joined, as servers do (RFC 9110, section 5.3; RFC 6265, section 5.4).
            joint = "; " if key == "HTTP_COOKIE" else ", "
            environ[key] = f"{environ[key]}{joint}{text}" if key in environ and key != "CONTENT_TYPE" else text
        environ["CONTENT_LENGTH"] = str(len(request.body))
        return environ

    def _script_name(self, origin: Origin) -> str:
        outer: Any = None if origin.scope is None else origin.scope.get(SCRIPT_NAME_KEY)
        return self.script_name if outer is None else str(outer).rstrip("/")


class _Threads:
    """The requests of one caller on one event loop; a forked process, which has another loop, begins anew."""

    def __init__(self, limit: int) -> None:
        self.turns = anyio.CapacityLimiter(limit)
        self._limit = limit
        self._running = 0
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Count a request; return ``False`` if cancelled requests occupy all threads."""
        with self._lock:
            if self._running >= self._limit:
                return False
            self._running += 1
            return True

    def leave(self) -> None:
        """Count a request as ended; called in its thread."""
        with self._lock:
            self._running -= 1


def _unlimited() -> anyio.CapacityLimiter:
    """Return a limiter for one thread: `_Threads` has counted it."""
    return anyio.CapacityLimiter(1)


class _Ended(Exception):
    """Raised into the application when its response is no longer read."""


class _Result(Struct):
    status: str
    headers: list[tuple[str, str]]


class _Exchange:
    """One request to an application, and its answer.

    Attributes:
        is_over: the response is no longer needed. Set by another thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self.is_over = False
        self._room = max_bytes
        self._is_cut = False
        self._is_begun = False
        self._result: _Result | None = None
        self._chunks: list[bytes] = []

    def run(self, app: _App, environ: dict[str, Any]) -> None:
        """Call the application and read its response.

        Raises:
            _Ended: the rest of the response is not needed.
            BaseException: the application raised it.
        """
        produced = app(environ, self._start_response)
        try:
            for chunk in produced:
                self._write(chunk)
        finally:
            close: Any = getattr(produced, "close", None)  # optional in PEP 3333
            if close is not None:
                self._close(close)

    def answer(self, what: str) -> ApiResponse:
        """Return the response; ``what`` names the request in log messages.

        Raises:
            CallerUnavailable: the application sent no response, or an invalid status.
        """
        if self._result is None:
            raise CallerUnavailable("the application gave no answer")
        code = self._result.status[:3]
        if not (code.isascii() and code.isdigit()):
            logger.error("%s: the application answered the status %r", what, self._result.status[:60])
            raise CallerUnavailable("the application gave no answer")
        return ApiResponse(
            status=int(code),
            headers=tuple((name.lower(), value) for name, value in self._result.headers),
            body=b"".join(self._chunks),
            is_cut=self._is_cut,
        )

    def _close(self, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as error:
            if self._result is None:
                raise
            logger.error("the application failed after its answer", exc_info=error)

    def _start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        if exc_info is not None:
            try:
                if self._is_begun:  # a server has sent the headers before this point
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # no cycle with the frames of the traceback (PEP 3333)
        elif self._result is not None:
            raise AssertionError("start_response() was called before, and there is no exc_info")
        self._result = _Result(status, list(headers))
        return self._write

    def _write(self, chunk: bytes) -> None:
        if self._result is None:
            raise AssertionError("the application answered before start_response()")
        if self.is_over:
            raise _Ended
        if not chunk:
            return
        self._is_begun = True
        self._is_cut = self._is_cut or len(chunk) > self._room
        self._chunks.append(chunk[: self._room])
        self._room -= min(len(chunk), self._room)
        if self._is_cut:
            raise _Ended


def _split_host(authority: str) -> tuple[str, str]:
    """Return host and port of a ``Host`` header; no port without one."""
    host, mark, port = authority.rpartition(":")
    if mark and port.isascii() and port.isdigit() and (":" not in host or host.endswith("]")):
        return host, port
    return authority or "localhost", ""


def _native(text: str) -> str:
    """Return a text in the form of WSGI: its UTF-8 bytes decoded as Latin-1."""
    return text.encode().decode("latin-1")
