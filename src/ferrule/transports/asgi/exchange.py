"""One HTTP request and the ways to answer it; and the exchange of one modern MCP request, which is its dispatch
context.

The exchange is what makes a queue unnecessary: what a handler says before it answers goes straight to the client. The
first `notify` commits the response to ``text/event-stream`` and the result becomes the last
event; a handler that says nothing is answered with plain JSON.

A handler that has to wait for something arms a timer; one that still runs after the grace gets a watcher on
``receive()``. A
client that is gone cancels its request: that is how cancelling works over HTTP in the modern era
(2026-07-28, "Cancellation").

Rule a newcomer would break: cancelling means the task that serves the request, which is the server's own task for it.
The cancellation is taken back (``uncancel``) before that task returns to the server.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import CallOptions, ProgressSender
from ferrule.protocol.correlation import ProgressGate
from ferrule.protocol.errors import NoBackChannel, error_from_exception
from ferrule.protocol.inbound import http_status
from ferrule.transports.asgi.context import HttpContext
from ferrule.transports.asgi.replies import (
    EventStreamReply,
    RawHeaders,
    Receive,
    Send,
    send_body,
    send_empty,
)
from ferrule.transports.asgi.runtime import Cancellable, Runtime
from ferrule.wire.faults import EncodeError
from ferrule.wire.jsonrpc import JsonRpcError, RequestId, encode_error, encode_notification, encode_response
from ferrule.wire.sse import encode_event

if TYPE_CHECKING:
    from asyncio import Task

    from anyio import CancelScope

    from ferrule.transports.asgi.modern import ModernSide

__all__ = ["DisconnectWatch", "HttpRequest", "ModernExchange"]

log = logging.getLogger("ferrule.http")


class HttpRequest:
    """One HTTP request: what came, and how to answer.

    Attributes:
        scope, receive, send: as the ASGI server gave them.
        headers: lower-case name to value (Latin-1).
        reply_headers: what every answer carries (CORS), ``None`` for nothing.
        principal: set by the ``authenticate`` hook.
    """

    __slots__ = ("headers", "principal", "receive", "reply_headers", "scope", "send")

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send, headers: dict[str, str]) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers = headers
        self.reply_headers: RawHeaders | None = None
        self.principal: Any = None

    def context(self, session_id: str | None = None, *, can_send_request: bool = False) -> HttpContext:
        """The facts that a handler gets."""
        client = self.scope.get("client")
        return HttpContext(
            "http",
            can_send_request,
            principal=self.principal,
            headers=self.headers,
            client=None if client is None else (client[0], client[1]),
            scope=self.scope,
            session_id=session_id,
        )

    async def reply(self, status: int, body: bytes, headers: RawHeaders | None = None) -> None:
        """Answer with a JSON body."""
        await send_body(self.send, status, body, [*(headers or ()), *(self.reply_headers or ())])

    async def reply_empty(self, status: int, headers: RawHeaders | None = None) -> None:
        """Answer with no body."""
        await send_empty(self.send, status, [*(headers or ()), *(self.reply_headers or ())])

    async def refuse(
        self,
        status: int,
        code: int,
        message: str,
        *,
        id: RequestId | None = None,
        data: Any = None,
        headers: RawHeaders | None = None,
    ) -> None:
        """Answer with a JSON-RPC error body; ``id`` is that of the refused request where it could be read."""
        error = JsonRpcError(code, message) if data is None else JsonRpcError(code, message, data)
        await self.reply(status, encode_error(id, error), headers)


class DisconnectWatch:
    """Watches for a vanished client, but only of a request that takes longer than a grace.

    `arm` is called when the handler first waits. On a disconnect ``on_gone`` is called once.
    """

    __slots__ = ("_grace_s", "_on_gone", "_receive", "_runtime", "_watcher")

    def __init__(self, runtime: Runtime, receive: Receive, grace_s: float, on_gone: Any) -> None:
        self._runtime = runtime
        self._receive = receive
        self._grace_s = grace_s
        self._on_gone = on_gone
        self._watcher: Cancellable | None = None

    def arm(self) -> None:
        """Start the grace time."""
        self._watcher = self._runtime.call_later(self._grace_s, self.start)

    def stop(self) -> None:
        """The request has been answered: watch no longer."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def start(self) -> None:
        """Watch from now on."""
        self._watcher = self._runtime.spawn(self._watch)

    async def _watch(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                break
        if self._watcher is not None:
            self._watcher = None
            self._on_gone()


class ModernExchange(ProgressSender):
    """The dispatch context of one modern request, and its connection's outbound channel.

    Attributes:
        stream: the event stream, once the handler has spoken.
        connection: set by whoever serves the request.
        cancel_requested: the client has gone.
    """

    __slots__ = (
        "_request",
        "_runtime",
        "_side",
        "_watch",
        "cancel_requested",
        "connection",
        "finished",
        "loop",
        "request_id",
        "scope",
        "stream",
        "task",
        "transport",
    )

    can_send_request = False

    def __init__(
        self,
        request: HttpRequest,
        transport: HttpContext,
        request_id: RequestId | None,
        params: Mapping[str, Any],
        runtime: Runtime,
        side: "ModernSide",
    ) -> None:
        self.request_id = request_id
        self.transport = transport
        self.stream: EventStreamReply | None = None
        self.connection: Connection | None = None
        self.cancel_requested = False
        self.finished = False
        self.task: Task[Any] | None = None
        self.scope: CancelScope | None = None
        self._request = request
        self.progress_params = params
        self._runtime = runtime
        self.loop = getattr(runtime, "loop", None)
        self._side = side
        self._watch: DisconnectWatch | None = None
        self._gate: ProgressGate | None = None
        self.interruption = None
        self.foreign_cancels = 0
        self.left_over = 0

    # --- what the handler says --------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification on this request's own stream; after the answer, or to a client that has gone, drop it."""
        if self.finished:
            log.debug("dropped %s: its request has been answered", method)
            return
        stream = self.stream
        if stream is None:
            stream = self.stream = EventStreamReply(
                self._request.send, self._side.keep_alive, self._request.reply_headers
            )
        await stream.write(encode_event(encode_notification(method, params)))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Always refuses: a modern server asks by returning input requests.

        Raises:
            NoBackChannel: always.
        """
        raise NoBackChannel(f"{method} cannot be sent: in this era a server asks by returning input requests")

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        """Answer now although the handler still runs; what it returns, raises or says later is dropped."""
        if self.finished:
            return
        self.finished = True
        if self._watch is not None:
            self._watch.stop()
        status, payload = 200, b""
        if error is None:
            try:
                payload = encode_response(self.request_id, result)  # type: ignore[arg-type]
            except EncodeError as exc:
                log.exception("the result of request %r cannot be written as JSON", self.request_id)
                error = exc
        if error is not None:
            told = error_from_exception(error)
            payload, status = encode_error(self.request_id, told), http_status(told.code)
        if self.stream is not None:
            await self.stream.close(encode_event(payload))
        else:
            await send_body(self._request.send, status, payload, self._request.reply_headers)

    # --- the client's end -------------------------------------------------------------------------------------------

    def suspended(self) -> None:
        """The handler waits for something: from here on the client may vanish, or the server go down, meanwhile."""
        self.task = self._runtime.current_task()
        self._side.waiting[self] = None
        if self._side.is_ending and self.connection is not None:
            self.connection.closing()
        self._watch = DisconnectWatch(self._runtime, self._request.receive, self._side.grace_s, self.cancel)
        self._watch.arm()

    def cancel(self) -> None:
        """The client has gone: cancel the handler, which runs in the task of this request."""
        if self.finished or self.cancel_requested:
            return
        self.cancel_requested = True
        log.info("the client of request %r went away; the request is cancelled", self.request_id)
        if self.stream is not None:
            self.stream.lose()
        if self.task is not None:
            self.task.cancel()
        elif self.scope is not None:
            self.scope.cancel()

    def finish(self) -> None:
        """The handler has ended: nothing more is sent but the answer, and nothing is watched."""
        self.finished = True
        self.connection = None  # it holds us as its outbound channel; a cycle per request would be the collector's work
        if self._watch is not None:
            self._watch.stop()
