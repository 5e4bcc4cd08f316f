"""Requests into a WSGI application of this process: its whole stack runs, in a worker thread, without a socket."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

import anyio.to_thread

from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin

__all__ = ["WSGICaller"]

logger = logging.getLogger(__name__)

_App: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

MAX_THREADS = 40
"""Requests that are in the application at the same time; more wait."""


class WSGICaller:
    """Calls a WSGI application (PEP 3333).

    Args:
        app: the application.
        script_name: the prefix that the application is mounted under, for the links that it makes.
    """

    def __init__(self, app: _App, *, script_name: str = "") -> None:
        self.app = app
        self.script_name = script_name.rstrip("/")
        self._limiter: anyio.CapacityLimiter | None = None

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`. A call that is cancelled is not waited for; the application's thread finishes it."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(MAX_THREADS)
        return await anyio.to_thread.run_sync(
            self.call_sync, request, origin, max_bytes, limiter=self._limiter, abandon_on_cancel=True
        )

    async def aclose(self) -> None:
        """Do nothing; the application is not the caller's."""

    def call_sync(self, request: ApiRequest, origin: Origin, max_bytes: int) -> ApiResponse:
        """Return the answer; in the thread of the caller. Raises as `Caller.call`."""
        answer: list[Any] = []
        chunks: list[bytes] = []
        room = max_bytes
        is_cut = False

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> Callable[[bytes], None]:
            answer[:] = [status, headers]
            return chunks.append

        try:
            produced = self.app(self._environ(request, origin), start_response)
            try:
                for chunk in produced:
                    is_cut = is_cut or len(chunk) > room
                    chunks.append(chunk[:room])
                    room -= min(len(chunk), room)
                    if is_cut:
                        break
            finally:
                close: Any = getattr(produced, "close", None)  # optional in PEP 3333
                if close is not None:
                    close()
        except Exception as error:
            logger.error("%s %s failed in the application", request.method, request.path, exc_info=error)
            raise CallerUnavailable("the application failed") from error
        if not answer:
            raise CallerUnavailable("the application gave no answer")
        status, headers = answer
        return ApiResponse(
            status=int(status.split(" ", 1)[0]),
            headers=tuple((name.lower(), value) for name, value in headers),
            body=b"".join(chunks)[:max_bytes],
            is_cut=is_cut,
        )

    def _environ(self, request: ApiRequest, origin: Origin) -> dict[str, Any]:
        host, _, port = origin.host.rpartition(":") if ":" in origin.host[-6:] else (origin.host, "", "")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": self.script_name,
            "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
            "RAW_URI": self.script_name + request.target,
            "REQUEST_URI": self.script_name + request.target,
            "QUERY_STRING": request.query,
            "SERVER_NAME": host,
            "SERVER_PORT": port if port.isdigit() else "443" if origin.scheme == "https" else "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": origin.host,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": origin.scheme,
            "wsgi.input": io.BytesIO(request.body),
            "wsgi.input_terminated": True,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        if origin.client is not None:
            environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = origin.client[0], str(origin.client[1])
        names = {name for name, _ in request.headers}
        for name, value in (*request.headers, *(pair for pair in origin.headers if pair[0] not in names)):
            key = name.upper().replace("-", "_")
            key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
            # A header that is there twice is joined, as servers do (RFC 9110, section 5.3).
            environ[key] = f"{environ[key]}, {value}" if key in environ and key != "CONTENT_TYPE" else value
        environ["CONTENT_LENGTH"] = str(len(request.body))
        return environ
