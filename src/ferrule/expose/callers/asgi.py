"""Requests into an ASGI application of this process: its whole stack runs, without a socket."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import anyio

from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin

__all__ = ["ASGICaller"]

logger = logging.getLogger(__name__)

_Message: TypeAlias = MutableMapping[str, Any]
_App: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]


class ASGICaller:
    """Calls an ASGI application (ASGI 3, HTTP).

    Args:
        app: the application.
        root_path: the prefix that the application is mounted under, for the links that it makes.
        state: returns what the application's lifespan left in its state; put into the scope of each request.
    """

    def __init__(
        self, app: _App, *, root_path: str = "", state: Callable[[], dict[str, Any] | None] = lambda: None
    ) -> None:
        self.app = app
        self.root_path = root_path.rstrip("/")
        self._state = state

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        exchange = _Exchange(request, max_bytes)
        try:
            await self.app(self._scope(request, origin), exchange.receive, exchange.send)
        except Exception as error:
            # A framework answers 500 and raises again for its server's log. An answer that was cut ends like this, too.
            if exchange.is_cut:
                logger.debug("%s %s ended after its answer was cut", request.method, request.path, exc_info=error)
            elif exchange.status is None:
                logger.error("%s %s failed in the application", request.method, request.path, exc_info=error)
                raise CallerUnavailable("the application failed") from error
            else:
                logger.error("%s %s failed in the application", request.method, request.path, exc_info=error)
        finally:
            exchange.is_done.set()
        if exchange.status is None:
            raise CallerUnavailable("the application gave no answer")
        return ApiResponse(
            status=exchange.status,
            headers=tuple(exchange.headers),
            body=b"".join(exchange.chunks),
            is_cut=exchange.is_cut,
        )

    async def aclose(self) -> None:
        """Do nothing; the application is not the caller's."""

    def _scope(self, request: ApiRequest, origin: Origin) -> MutableMapping[str, Any]:
        host, _, port = origin.host.partition(":") if not origin.host.startswith("[") else _split_ipv6(origin.host)
        default_port = 443 if origin.scheme == "https" else 80
        names = {name for name, _ in request.headers}
        headers = [(b"host", origin.host.encode("latin-1", "replace"))]
        headers += [
            (name.encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in (*request.headers, *(pair for pair in origin.headers if pair[0] not in names))
        ]
        if request.body:
            headers.append((b"content-length", str(len(request.body)).encode()))
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": origin.scheme,
            "path": self.root_path + unquote(request.path),
            "raw_path": (self.root_path + request.path).encode(),
            "root_path": self.root_path,
            "query_string": request.query.encode(),
            "headers": headers,
            "client": origin.client,
            "server": (host, int(port) if port.isdigit() else default_port),
        }
        state = self._state()
        if state is not None:
            scope["state"] = dict(state)
        return scope


class _Exchange:
    """The messages of one request."""

    def __init__(self, request: ApiRequest, max_bytes: int) -> None:
        self.status: int | None = None
        self.headers: list[tuple[str, str]] = []
        self.chunks: list[bytes] = []
        self.is_cut = False
        self.is_done = anyio.Event()
        self._body: bytes | None = request.body
        self._room = max_bytes

    async def receive(self) -> _Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.is_done.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: _Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [
                (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
        elif message["type"] == "http.response.body" and not self.is_cut:
            chunk = bytes(message.get("body", b""))
            if len(chunk) > self._room:
                self.is_cut = True
            self.chunks.append(chunk[: self._room])
            self._room -= min(len(chunk), self._room)
            if self.is_cut or not message.get("more_body", False):
                self.is_done.set()
        if self.is_cut:
            raise OSError("the answer is larger than is read")


def _split_ipv6(host: str) -> tuple[str, str, str]:
    address, _, rest = host[1:].partition("]")
    return address, ":", rest.removeprefix(":")
