"""Sends requests to an ASGI application in this process: all of its middleware runs, without a socket."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import anyio

from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin
from ferrule.transports.asgi.runtime import current_runtime

__all__ = ["DRAIN_TIMEOUT_S", "ASGICaller"]

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 30.0
"""Seconds that the end of the server waits for work of the application after its responses."""

_Message: TypeAlias = MutableMapping[str, Any]
_App: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]


class ASGICaller:
    """Calls an ASGI application (ASGI 3, HTTP).

    The application runs in a task of its own. A call returns at the end of the response; later work of the application,
    such as background tasks, continues. If a call is cancelled, or its response is cut, the application's task is
    cancelled, so that its dependencies are closed.

    Args:
        app: the application.
        root_path: the prefix that the application is mounted under, for the links that it makes. Where the outer
            request came in through the application itself, the prefix of that request is used in its place.
        path_has_root: whether ``path`` in the scope begins with the prefix, as ASGI says and older frameworks do not
            expect.
        state: returns the state of the application's lifespan, which is put into the scope of each request.
    """

    def __init__(
        self,
        app: _App,
        *,
        root_path: str = "",
        path_has_root: bool = True,
        state: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        self.app = app
        self.root_path = root_path.rstrip("/")
        self._path_has_root = path_has_root
        self._state = state
        self._under_way: set[_Exchange] = set()

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        if "%2f" in request.path.lower():
            # An ASGI path is decoded, so such a value would lead to another operation.
            raise CallerUnavailable("a value in the path must not have a slash, which this API reads as a further step")
        exchange = _Exchange(request, max_bytes)
        scope = self._scope(request, origin)
        task = current_runtime().spawn(lambda: self._run(request, scope, exchange))
        exchange.cancel = task.cancel
        try:
            await exchange.answered.wait()
        except BaseException:
            exchange.is_abandoned = True
            exchange.gone.set()
            task.cancel()
            raise
        if exchange.status is None:
            raise CallerUnavailable(
                "the application failed" if exchange.has_failed else "the application did not answer"
            )
        return ApiResponse(
            status=exchange.status,
            headers=tuple(exchange.headers),
            body=b"".join(exchange.chunks),
            is_cut=exchange.is_cut,
            prefix=self._root_path(origin),
        )

    async def aclose(self) -> None:
        """Wait for work of the application after its responses, at most `DRAIN_TIMEOUT_S`; then cancel it."""
        runtime = current_runtime()
        exchanges = [exchange for exchange in self._under_way if exchange.runtime is runtime]
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(DRAIN_TIMEOUT_S):
                for exchange in exchanges:
                    await exchange.ended.wait()
            for exchange in exchanges:
                exchange.cancel()
            with anyio.move_on_after(1):  # time for its clean-up after the cancellation
                for exchange in exchanges:
                    await exchange.ended.wait()

    async def _run(self, request: ApiRequest, scope: MutableMapping[str, Any], exchange: _Exchange) -> None:
        self._under_way.add(exchange)
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except Exception as error:
            # A framework sends a 500 response and raises the error again, for its server's log. A response that was cut
            # also ends with an exception.
            exchange.has_failed = True
            if exchange.is_cut or exchange.is_abandoned:
                logger.debug("%s %s ended after its answer was cut", request.method, request.path, exc_info=error)
            else:
                logger.error("%s %s failed in the application", request.method, request.path, exc_info=error)
        finally:
            self._under_way.discard(exchange)
            exchange.gone.set()
            exchange.answered.set()
            exchange.ended.set()

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
        root_path = self._root_path(origin)
        path = request.path
        if not request.route and root_path and path.startswith(f"{root_path}/"):
            path = path[len(root_path) :]  # a redirect names the whole path
        before = root_path if self._path_has_root else ""
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": origin.scheme,
            "path": before + unquote(path),
            "raw_path": (before + path).encode(),
            "root_path": root_path,
            "query_string": request.query.encode(),
            "headers": headers,
            "client": origin.client,
            "server": (host, int(port) if port.isdigit() else default_port),
        }
        state = self._state()
        if state is not None:
            scope["state"] = dict(state)
        return scope

    def _root_path(self, origin: Origin) -> str:
        outer = origin.scope
        if outer is None or outer.get("app") is not self.app:
            return self.root_path
        # Starlette keeps the application's own prefix apart from that of a mount inside it.
        return str(outer.get("app_root_path", outer.get("root_path", ""))).rstrip("/") or self.root_path


class _Exchange:
    """The messages of one request."""

    def __init__(self, request: ApiRequest, max_bytes: int) -> None:
        self.status: int | None = None
        self.headers: list[tuple[str, str]] = []
        self.chunks: list[bytes] = []
        self.is_cut = False
        self.is_abandoned = False
        self.has_failed = False
        self.runtime = current_runtime()
        self.cancel: Callable[[], object] = lambda: None
        self.answered = anyio.Event()
        self.gone = anyio.Event()
        """Set when the response is complete, or no longer needed."""
        self.ended = anyio.Event()
        self._body: bytes | None = request.body
        self._room = max_bytes

    async def receive(self) -> _Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: _Message) -> None:
        if self.is_abandoned:
            raise OSError("the call was cancelled")
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
                self.gone.set()
                self.answered.set()
        if self.is_cut:
            raise OSError("the answer is larger than is read")


def _split_ipv6(host: str) -> tuple[str, str, str]:
    address, _, rest = host[1:].partition("]")
    return address, ":", rest.removeprefix(":")
