"""The HTTP+SSE transport of 2024-11-05, deprecated since 2025-03-26: for clients without Streamable HTTP.

There are two paths. A GET of the first opens an event stream, whose first event (``endpoint``) has the URL for POSTs;
all messages of the server are ``message`` events of that stream. A POST to the second has one message and gets 202. The
stream *is* the session: when it ends, the session ends, and its requests are cancelled.

The endpoint uses the kernel's loop driver, with a bounded queue between the POSTs and the loop. It is not fast, and new
servers do not need it. Mount it beside the Streamable HTTP endpoint, not instead of it.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, quote

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from ferrule.kernel.dispatch import StreamMessage
from ferrule.kernel.runner import serve_loop
from ferrule.kernel.server import Server
from ferrule.transports.asgi.context import HttpContext
from ferrule.transports.asgi.gate import HttpGate
from ferrule.transports.asgi.headers.forwarded import forwarded_prefix
from ferrule.transports.asgi.headers.media import accepts, is_json_content_type
from ferrule.transports.asgi.legacy.sessions import new_session_id
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive, Receive, Send, close_websocket
from ferrule.transports.asgi.request import DisconnectWatch, IncomingRequest
from ferrule.transports.asgi.runtime import Runtime, current_runtime
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.jsonrpc import InvalidMessage, JsonRpcErrorCode, message_kind
from ferrule.wire.sse import encode_event

__all__ = ["SseEndpoint"]

_INVALID: Final = int(JsonRpcErrorCode.INVALID_REQUEST)
# Above it a POST waits for its response, which slows its client.
_MAX_WAITING_MESSAGES: Final = 64
_MESSAGE = "message"
_READ_PAUSE_S: Final = 0.05
"""Seconds between the last progress notification of a request and its response."""


class _Inbox:
    """The queue for messages of the POSTs of one session, and the principal that opened it."""

    __slots__ = ("principal", "send")

    def __init__(self, send: "MemoryObjectSendStream[StreamMessage]", principal: Any) -> None:
        self.send = send
        self.principal = principal


class _EventWriter:
    """The outbound half of the loop's stream pair: one ``message`` event per message."""

    encodes = True

    def __init__(self, reply: EventStreamReply) -> None:
        self._reply = reply

    async def wait_until_read(self) -> None:
        """Pause, since TCP does not report what the client has read; see `DelaysUntilRead`."""
        await anyio.sleep(_READ_PAUSE_S)

    async def send(self, item: StreamMessage, /) -> None:
        """Write one message; raises as ``WriteStream.send``."""
        if self._reply.is_over:
            raise anyio.BrokenResourceError
        await self._reply.write(encode_event(encode(item.message), event=_MESSAGE))

    async def aclose(self) -> None:
        """End the stream."""
        await self._reply.close()


class SseEndpoint(HttpGate):
    """The ASGI callable of the deprecated transport.

    Args:
        server: the server.
        options: as for `HttpEndpoint`; those about sessions, response modes and event stores have no effect, but
            ``max_sessions`` bounds the open streams (503 beyond it).
        sse_path: path of the event stream.
        message_path: path for POSTs of messages.
    """

    def __init__(
        self,
        server: Server[Any],
        options: HttpOptions | None = None,
        *,
        sse_path: str = "/sse",
        message_path: str = "/messages",
    ) -> None:
        super().__init__(server, options, sse_path, message_path)
        self._sse_path = sse_path.rstrip("/")
        self._message_path = message_path.rstrip("/")
        self._keep_alive = KeepAlive(self.options.keep_alive_s)
        self._sessions: dict[str, _Inbox] = {}
        self._replies: dict[EventStreamReply, None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.life.serve_lifespan(receive, send)
            elif scope["type"] == "websocket":
                await close_websocket(send)
            return
        raw_headers = scope["headers"]
        headers = {name.decode("latin-1"): value.strip().decode("latin-1") for name, value in raw_headers}
        request = IncomingRequest(scope, receive, send, headers)
        if "upgrade" in headers or "expect" in headers:
            self._end_with_answer(request)
        if len(headers) != len(raw_headers) and not await self._join_headers(request):
            return
        if not await self._admit(request, headers.get("origin")):
            return
        route, prefix = _route(scope)
        verb = scope["method"]
        if (route, verb) not in ((self._sse_path, "GET"), (self._message_path, "POST")):
            if route in (self._sse_path, self._message_path):
                allowed = b"GET" if route == self._sse_path else b"POST"
                await request.reply_empty(405, [(b"allow", allowed)])
            else:
                await self._serve_elsewhere(request)
            return
        runtime = await self._start(request)
        if runtime is None:
            return
        if self.options.authenticate is not None:
            # The client's token is for the URL that it knows, that of the stream; it holds for the POSTs as well.
            client = scope.get("client")
            entrance = HttpContext(
                headers=headers,
                client=None if client is None else (client[0], client[1]),
                scope={**scope, "path": f"{prefix}{self._sse_path}"},
                authority=request.authority,
            )
            if not await self._authenticate(request, entrance):
                return
        if verb == "GET" and self.is_ending:
            await self._refuse_ending(request)
        elif verb == "GET":
            if self.security.reads_forwarded and self.security.trusts(scope.get("client")):
                prefix = forwarded_prefix(headers) + prefix
            await self._serve_stream(request, prefix, runtime)
        else:
            await self._take(request)

    async def drain(self) -> None:
        """Begin the shutdown: end the streams concurrently, and their sessions with them."""
        await super().drain()
        for reply in list(self._replies):
            current_runtime().spawn(reply.close)

    # --- the stream -----------------------------------------------------------------------------------------------

    async def _serve_stream(self, request: IncomingRequest, prefix: str, runtime: Runtime) -> None:
        if not accepts(request.headers.get("accept", ""), "text/event-stream"):
            await request.refuse(406, _INVALID, "A client that opens a stream accepts text/event-stream")
            return
        if len(self._sessions) >= self.options.max_sessions:
            await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), "Too many sessions")
            return
        session_id = new_session_id()
        reply = EventStreamReply(request.send, self._keep_alive, request.reply_headers)
        inbox, messages = anyio.create_memory_object_stream[StreamMessage](_MAX_WAITING_MESSAGES)
        self._sessions[session_id] = _Inbox(inbox, request.principal)
        self._replies[reply] = None
        watch = DisconnectWatch(runtime, request.receive, 0, reply.lose)
        watch.start()
        try:
            # A path without a host: behind a proxy the host of this request may be another than the client's.
            address = f"{quote(prefix + self._message_path)}?session_id={session_id}"
            await reply.write(encode_event(address.encode("ascii"), event="endpoint"))
            async with anyio.create_task_group() as group:

                async def serve() -> None:
                    await serve_loop(
                        self.server,
                        messages,
                        _EventWriter(reply),
                        lifespan_state=self.life.state,
                        session_id=session_id,
                    )
                    group.cancel_scope.cancel()

                group.start_soon(serve)
                await reply.wait_over()
                group.cancel_scope.cancel()
        finally:
            watch.stop()
            reply.lose()
            del self._sessions[session_id]
            del self._replies[reply]
            inbox.close()
            messages.close()

    # --- the messages ---------------------------------------------------------------------------------------------

    async def _take(self, request: IncomingRequest) -> None:
        found = parse_qs(request.scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])
        session_id = found[0]
        inbox = self._sessions.get(session_id)
        # The same response for both: it must not be a sign that the session exists.
        if inbox is None or inbox.principal != request.principal:
            await request.refuse(404, _INVALID, "Session not found")
            return
        if not is_json_content_type(request.headers.get("content-type", "")):
            await request.refuse(415, _INVALID, "The content type of a message is application/json")
            return
        first = await request.receive()
        if first["type"] != "http.request":
            return
        body = await self._read_body(request, first.get("body", b""), first.get("more_body", False))
        if body is None:
            return
        try:
            message = decode(body)
            message_kind(message)
        except DecodeError as error:
            await request.refuse(400, int(JsonRpcErrorCode.PARSE_ERROR), str(error))
            return
        except InvalidMessage as error:
            await request.refuse(400, error.code, str(error), id=error.id)
            return
        context = request.context(session_id, can_send_request=True, kind="sse")
        try:
            await inbox.send.send(StreamMessage(message, context))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            await request.refuse(404, _INVALID, "Session not found")
            return
        await request.reply_empty(202)


def _route(scope: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path below the mounting prefix, without a slash at its end, and the prefix."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "").rstrip("/")
    if prefix and path.startswith(prefix):
        path = path[len(prefix) :]
    return path.rstrip("/"), prefix
