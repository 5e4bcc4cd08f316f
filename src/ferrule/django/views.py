"""The endpoint as a Django view: synchronous under WSGI, asynchronous under ASGI, at one URL.

Under WSGI answers are JSON in one piece, and what needs a stream is refused (`ferrule.transports.wsgi.endpoint`). Under
ASGI answers may be streams.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import URLPattern
from django.urls.resolvers import RoutePattern

from ferrule.django.access.authentication import REQUEST_KEY
from ferrule.django.threads import greenlets_in_place_of_threads, with_request_thread
from ferrule.transports.asgi.public_documents import ENDPOINT_PATH_KEY, PROXY_HEADERS
from ferrule.transports.wsgi.endpoint import WSGIEndpoint
from ferrule.transports.wsgi.scope import SCRIPT_NAME_KEY

if TYPE_CHECKING:
    from ferrule.transports.asgi.endpoint import HttpEndpoint

__all__ = ["DjangoEndpoint"]

logger = logging.getLogger(__name__)

MAX_WAITING = 16
"""Messages of an answer that wait for their client."""

_Response = TypeVar("_Response", HttpResponse, StreamingHttpResponse)


class _All(set[str]):
    """Names of all databases."""

    def __contains__(self, _: object) -> bool:
        return True


class DjangoEndpoint:
    """Serves one endpoint as a view.

    Args:
        wsgi: serves under WSGI.
        asgi: serves under ASGI.
        facts_of: returns what is added to the scope of a request under WSGI; called in its thread. Empty for a request
            that the event loop serves from the beginning.
        serves_in_thread: returns whether a decoded message needs no event loop under WSGI; ``None`` if all need one.
    """

    def __init__(
        self,
        wsgi: WSGIEndpoint,
        asgi: HttpEndpoint,
        facts_of: Callable[[HttpRequest], Mapping[str, Any]],
        serves_in_thread: Callable[[Any], bool] | None = None,
    ) -> None:
        self._wsgi = wsgi
        self._asgi = asgi
        self._facts_of = facts_of
        self._serves_in_thread = serves_in_thread

    def follow(self, other: DjangoEndpoint) -> None:
        """Serve from now on as another endpoint does, at the URLs of this one."""
        self._wsgi, self._asgi = other._wsgi, other._asgi
        self._facts_of, self._serves_in_thread = other._facts_of, other._serves_in_thread

    def pattern(
        self, route: Any, name: str, path: str = "/", endpoint_of: Callable[[HttpRequest], str | None] | None = None
    ) -> URLPattern:
        """Return the URL pattern of the endpoint, or of a document beside it.

        Args:
            route: the route, or a pattern of Django's.
            name: the name of the pattern.
            path: what is served, as a path below the endpoint.
            endpoint_of: returns the path of the endpoint for a request, ``None`` for 404; ``None``: that of the
                request.
        """

        def serve(request: HttpRequest, **_: Any) -> HttpResponse:
            return self.serve(request, path, _endpoint_path(request))

        async def serve_async(request: HttpRequest, **_: Any) -> HttpResponse | StreamingHttpResponse:
            return await self.serve_async(request, path, _endpoint_path(request))

        def _endpoint_path(request: HttpRequest) -> str:
            found = request.path if endpoint_of is None else endpoint_of(request)
            if found is None:
                raise Http404("The endpoint stands in no URLconf")
            return found

        for view in (serve, serve_async):
            made: Any = view
            made.mcp_endpoint = self  # for the check that looks for it in the URLconf
            made.csrf_exempt = True  # credentials are in headers; a session is checked where it is read
            made.login_required = False  # `LoginRequiredMiddleware` would redirect to a page
            made._non_atomic_requests = _All()  # tools have transactions of their own
        made_pattern = RoutePattern(route, name, is_endpoint=True) if isinstance(route, str) else route
        return _EndpointPattern(made_pattern, serve, serve_async, name)

    def serve(self, request: HttpRequest, path: str, endpoint: str) -> HttpResponse:
        """Serve one request under WSGI.

        Args:
            request: the request.
            path: what is served, as a path below the endpoint.
            endpoint: the path of the endpoint.
        """
        if (library := greenlets_in_place_of_threads()) is not None:  # no event loop may begin, see there
            return _refused(library)
        body = _read(request, self._wsgi.endpoint.options.max_body_bytes)
        environ = {
            **request.META,
            "SCRIPT_NAME": endpoint.rstrip("/"),
            "PATH_INFO": path,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.input_terminated": True,
            "wsgi.url_scheme": request.scheme,
            "HTTP_HOST": request.get_host(),
        }
        facts = {**_facts(request), ENDPOINT_PATH_KEY: endpoint}
        serves_in_thread = None
        if path != "/":
            for name in PROXY_HEADERS:  # Django has read them, as far as its settings trust them
                environ.pop(f"HTTP_{name.upper().replace('-', '_')}", None)
        elif found := self._facts_of(request):
            facts.update(found)
            serves_in_thread = self._serves_in_thread
        status, headers, answer = with_request_thread(
            lambda: self._wsgi.answer(environ, facts, in_host=True, serves_in_thread=serves_in_thread)
        )
        return _with_headers(HttpResponse(answer, status=status), headers, request)

    async def serve_async(self, request: Any, path: str, endpoint: str) -> HttpResponse | StreamingHttpResponse:
        """Serve one request under ASGI; see `serve`."""
        body = _read(request, self._asgi.options.max_body_bytes)
        replaced = {b"host", *(() if path == "/" else (name.encode() for name in PROXY_HEADERS))}
        scope = {
            **request.scope,
            "path": request.path if path == "/" else f"{endpoint.rstrip('/')}{path}",
            "root_path": endpoint.rstrip("/"),
            "scheme": request.scheme,
            # As Django found it: behind a proxy it may be in another header, and it is one of `ALLOWED_HOSTS`.
            "headers": [
                *(pair for pair in request.scope["headers"] if pair[0].lower() not in replaced),
                (b"host", request.get_host().encode("latin-1")),
            ],
            **_facts(request),
            ENDPOINT_PATH_KEY: endpoint,
        }
        exchange = _Exchange(body)
        serving = asyncio.ensure_future(exchange.run(self._asgi, scope))
        try:
            status, headers, is_stream = await exchange.started()
            if not is_stream:
                answer = b"".join([part async for part in exchange.parts()])
                exchange.disconnect()
                await serving
                return _with_headers(HttpResponse(answer, status=status), headers, request)
        except asyncio.CancelledError:  # the client has gone
            exchange.disconnect()
            await serving
            raise
        return _with_headers(StreamingHttpResponse(_stream(exchange, serving), status=status), headers, request)


class _EndpointPattern(URLPattern):
    """A pattern whose view is asynchronous where an event loop serves the request, which only ASGI handlers have."""

    def __init__(self, pattern: Any, view: Any, async_view: Any, name: str) -> None:
        super().__init__(pattern, view, name=name)
        self._async_view = async_view

    def resolve(self, path: str) -> Any:
        match = super().resolve(path)
        if match is not None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return match
            match.func = self._async_view
        return match


class _Exchange:
    """One request to an ASGI application, and the messages of its answer.

    At most `MAX_WAITING` messages wait for the client; then the application waits.
    """

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._messages: asyncio.Queue[Any] = asyncio.Queue(MAX_WAITING)
        self._gone = asyncio.Event()

    async def run(self, app: Any, scope: dict[str, Any]) -> None:
        """Let the application answer; an exception is logged and ends the answer."""
        try:
            await app(scope, self._receive, self._send)
        except Exception:
            if not self._gone.is_set():
                logger.exception("the endpoint failed")
        finally:
            if not self._gone.is_set():
                await self._messages.put(None)

    async def started(self) -> tuple[int, list[tuple[str, str]], bool]:
        """Return status and headers of the answer, and whether it is a stream; status 500 if there is no answer."""
        message = await self._messages.get()
        if message is None:
            await self._messages.put(None)
            return 500, [], False
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())]
        kinds = [value for name, value in headers if name.lower() == "content-type"]
        return message["status"], headers, any(kind.startswith("text/event-stream") for kind in kinds)

    async def parts(self) -> AsyncGenerator[bytes]:
        """Yield the parts of the body."""
        while (message := await self._messages.get()) is not None:
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return

    def disconnect(self) -> None:
        """End the exchange: the client has gone, or has the whole answer."""
        self._gone.set()
        while not self._messages.empty():  # the application may wait for a place
            self._messages.get_nowait()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._gone.is_set():
            raise OSError("the client has disconnected")  # as ASGI servers do (ASGI 2.4, "Disconnected Client")
        await self._messages.put(message)


async def _stream(exchange: _Exchange, serving: asyncio.Future[None]) -> AsyncGenerator[bytes]:
    try:
        async for part in exchange.parts():
            yield part
    finally:
        exchange.disconnect()
        await serving


def _refused(library: str) -> HttpResponse:
    text = (
        f"MCP is not served in a worker with {library}, where Django would refuse to use its database. "
        "Use gunicorn's sync or gthread workers, or ASGI: docs/how-to/django-deploy.md"
    )
    logger.error(text)
    return HttpResponse(f"{text}\n", status=503, content_type="text/plain; charset=utf-8")


def _facts(request: HttpRequest) -> dict[str, Any]:
    return {SCRIPT_NAME_KEY: request.META.get("SCRIPT_NAME", ""), REQUEST_KEY: request}


def _read(request: HttpRequest, max_bytes: int) -> bytes:
    """Return the body, and one byte more than is allowed of a larger one, which the endpoint then refuses."""
    read: bytes | None = getattr(request, "_body", None)  # set by Django where something has read `request.body`
    if read is None:
        read = request.read(max_bytes + 1)
        request._body = read  # for middleware and authentication classes that read the body
    return read[: max_bytes + 1]


def _with_headers(response: _Response, headers: Iterable[tuple[str, str]], request: HttpRequest) -> _Response:
    # Django computes the length of other answers; to HEAD it is that of the answer to GET (RFC 9110, 8.6).
    left_out = "" if request.method == "HEAD" else "content-length"
    for name, value in headers:
        if name.lower() == "www-authenticate" and response.has_header(name):  # a list (RFC 9110, 11.6.1)
            response.headers[name] = f"{response.headers[name]}, {value}"
        elif name.lower() != left_out:
            response.headers[name] = value
    return response
