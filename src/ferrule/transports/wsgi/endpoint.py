"""The endpoint as a WSGI callable (PEP 3333), for hosts without an event loop: Flask, Django under gunicorn, mod_wsgi.

The requests run on an event loop in a thread of this process, which starts with the first request, so after a host has
forked its workers; those of Django that need no event loop run in the thread of the host. All answers are JSON in one
piece: a host gives each request a thread, and a stream would hold it for as long as the client likes. So GET is 405,
``subscriptions/listen`` is refused and changes are not announced, legacy requests have no sessions, and messages that a
handler sends before its result are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.request import BEGINS_IN_THREAD_KEY, SILENT_END_KEY
from ferrule.transports.asgi.runtime import AsyncioRuntime
from ferrule.transports.loop_thread import HostThread, LoopThread
from ferrule.transports.request_thread import SteppingThread
from ferrule.transports.wsgi.scope import SCRIPT_NAME_KEY, scope_of
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_object
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.sse import EventReader, ServerSentEvent

__all__ = ["WSGIEndpoint"]

_MAX_EVENT_BYTES = 256 * 1024 * 1024
"""Of one message that a handler of ours sends; larger results are bounded where they are made."""

_loop = LoopThread("ferrule-wsgi")

StartResponse = Callable[..., Any]
WSGIApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class WSGIEndpoint:
    """Serves an `HttpEndpoint` inside a WSGI host.

    Args:
        endpoint: made with ``stateless=True``: without a stream there is no way to the client but the answer.

    Raises:
        ValueError: the endpoint has sessions.
    """

    def __init__(self, endpoint: HttpEndpoint) -> None:
        if endpoint.options.legacy and not endpoint.options.stateless:
            raise ValueError("a WSGI host serves without sessions: stateless=True")
        self.endpoint = endpoint

    def beside(self, app: WSGIApp) -> WSGIApp:
        """Return a WSGI application that serves the endpoint's paths and gives all other requests to ``app``.

        The paths are those of ``endpoint.paths``: the endpoint, health, and with ``auth=`` the metadata of the
        protected resource, which clients look for at the root of the site.
        """
        own = frozenset(self.endpoint.paths)

        def serve(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            if environ.get("PATH_INFO", "") not in own:
                return app(environ, start_response)
            return self._serve(environ, start_response, {SCRIPT_NAME_KEY: environ.get("SCRIPT_NAME", "")})

        return serve

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        return self._serve(environ, start_response, {})

    def _serve(self, environ: dict[str, Any], start_response: StartResponse, facts: dict[str, Any]) -> Iterable[bytes]:
        """Serve one request; ``facts`` are added to the scope that tools see."""
        status, headers, body = self.answer(environ, facts)
        start_response(_status(status), headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def answer(
        self,
        environ: dict[str, Any],
        facts: Mapping[str, Any],
        *,
        in_host: bool = False,
        serves_in_thread: Callable[[Any], bool] | None = None,
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return status, headers and body of the answer to one request.

        Args:
            environ: the environment of the request.
            facts: added to the scope that tools see.
            in_host: synchronous functions of the server run in this thread while it waits; otherwise in threads of the
                server.
            serves_in_thread: returns whether a decoded message may be served in this thread, without the event loop
                (`ferrule.kernel.concurrency.yielding`); ``None`` for none. With ``in_host`` only.
        """
        if "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "") and not environ.get("wsgi.input_terminated"):
            # Without a length nothing says where the body ends (PEP 3333, "Input and Error Streams").
            return 411, [("Content-Type", "text/plain"), ("Content-Length", "0")], b""
        body = _read_body(environ, self.endpoint.options.max_body_bytes)
        _loop.open.add(self.endpoint)
        listen_id = _listen_id(environ, body)
        answer = _Answer(body, listen_id)
        scope = {**scope_of(environ), **facts}
        if listen_id is None:  # otherwise `_Answer` ends the stream as if the client had disconnected
            scope[SILENT_END_KEY] = True
        if not in_host:
            _loop.run(answer.receive(self.endpoint, scope))
        elif serves_in_thread is None or (loop := self._running_loop()) is None:
            HostThread().wait_for(_loop, answer.receive(self.endpoint, scope))
        else:
            scope[BEGINS_IN_THREAD_KEY] = serves_in_thread
            SteppingThread(_loop, loop).serve(answer.receive(self.endpoint, scope))
        if answer.status == 200 and _asks_for_capabilities(environ, body):
            answer.body = _without_streams(answer.body)
        return answer.status, answer.headers, answer.body

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that the server runs on; ``None`` before its start, and where it would be another."""
        runtime = self.endpoint.life.running_on
        if type(runtime) is AsyncioRuntime and runtime.is_live() and _loop.runs(runtime.loop):
            return runtime.loop
        return None


class _Answer:
    """One request to the endpoint, and its answer in one piece.

    Args:
        sent: body of the request.
        listen_id: the id of a request for a stream, in a tuple; ``None`` for any other request.

    Attributes:
        status, body: the status and the body of the answer.
    """

    def __init__(self, sent: bytes, listen_id: tuple[Any] | None) -> None:
        self.status = 500
        self.body = b""
        self._listen_id = listen_id
        self._sent: bytes | None = sent
        self._headers: list[tuple[str, str]] = []
        self._is_done = asyncio.Event()
        self._events: EventReader | None = None

    async def receive(self, endpoint: HttpEndpoint, scope: dict[str, Any]) -> None:
        """Let the endpoint answer."""
        try:
            await endpoint(scope, self._receive, self._send)
        finally:
            self._is_done.set()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Those of the answer, for a WSGI host."""
        # A host computes hop-by-hop headers itself (PEP 3333, "Other HTTP Features").
        replaced = {"connection", "content-length"}
        added: list[tuple[str, str]] = []
        if self._events is not None:
            replaced |= {"content-type", "cache-control", "x-accel-buffering"}
            added.append(("content-type", "application/json"))
        kept = [pair for pair in self._headers if pair[0] not in replaced] + added
        if self.status not in (204, 304):
            # To HEAD a document says the length that it would have (RFC 9110, 8.6), and has no body.
            said = next((value for name, value in self._headers if name == "content-length"), "0")
            kept.append(("content-length", str(len(self.body)) if self.body or self._events is not None else said))
            if not any(name == "content-type" for name, _ in kept):  # validators of WSGI want one
                kept.append(("content-type", "text/plain"))
        return [(name.title(), value) for name, value in kept]

    async def _receive(self) -> dict[str, Any]:
        if self._sent is not None:
            body, self._sent = self._sent, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_done.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._headers = [
                (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message.get("headers", ())
            ]
            if any(name == "content-type" and value.startswith("text/event-stream") for name, value in self._headers):
                self._events = EventReader(_MAX_EVENT_BYTES)
                if self._listen_id is not None:  # the endpoint would serve it: all its checks have passed
                    self.status, self.body = 400, _listen_refusal(self._listen_id[0])
                    self._is_done.set()
        elif message["type"] == "http.response.body":
            self._take_body(message.get("body", b""))
            if not message.get("more_body", False):
                self._is_done.set()

    def _take_body(self, part: bytes) -> None:
        if self._events is None:
            self.body += part
        elif self._listen_id is None:
            for event in self._events.feed(part):
                if isinstance(event, ServerSentEvent) and event.data:
                    self.body = event.data  # the last one is the answer


def _read_body(environ: dict[str, Any], max_bytes: int) -> bytes:
    """Return the body, and one byte more than is allowed of a larger one, which the endpoint then refuses."""
    length = environ.get("CONTENT_LENGTH") or ""
    source = environ["wsgi.input"]
    if length.isascii() and length.isdigit():
        wanted = min(int(length[:20]), max_bytes + 1)
    elif environ.get("wsgi.input_terminated"):
        wanted = max_bytes + 1
    else:
        return b""
    chunks: list[bytes] = []
    while wanted > 0:
        chunk = source.read(wanted)
        if not chunk:
            break
        chunks.append(chunk)
        wanted -= len(chunk)
    return b"".join(chunks)


def _listen_id(environ: dict[str, Any], body: bytes) -> tuple[Any] | None:
    """Return the id of a request that needs a stream, in a tuple; ``None`` for any other.

    The endpoint refuses a request whose ``Mcp-Method`` is not its method, so the header is enough.
    """
    if environ.get("HTTP_MCP_METHOD", "").strip() != "subscriptions/listen":
        return None
    try:
        message = decode(body)
    except DecodeError:
        return None
    return (message.get("id"),) if is_object(message) else None


def _listen_refusal(id: Any) -> bytes:
    error = {
        "code": int(JsonRpcErrorCode.METHOD_NOT_FOUND),
        "message": "subscriptions/listen needs a stream, which this server's WSGI host cannot hold; ask again instead",
    }
    return encode({"jsonrpc": "2.0", "id": id, "error": error})


def _asks_for_capabilities(environ: dict[str, Any], body: bytes) -> bool:
    if environ.get("HTTP_MCP_METHOD", "").strip() == "server/discover":
        return True
    if b"initialize" not in body:
        return False
    message: Any = decode(body)
    return is_object(message) and message.get("method") == "initialize"


def _without_streams(answer: bytes) -> bytes:
    """Return the announcement of a server without what needs a stream: changes of lists, updates of resources."""
    message: Any = decode(answer)
    result = message.get("result") if is_object(message) else None
    capabilities = result.get("capabilities") if is_object(result) else None
    if not is_object(capabilities):
        return answer
    for settings in capabilities.values():
        if is_object(settings):
            settings.pop("listChanged", None)
            settings.pop("subscribe", None)
    return encode(message)


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"
