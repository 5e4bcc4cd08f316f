"""The exchange of one modern MCP request over HTTP, which is its dispatch context.

No queue is needed: a notification that a handler sends before its result is written to the client at once. The first
`notify` commits the response to ``text/event-stream``, and the result becomes the last event. A handler that sends no
notification is answered with plain JSON.

When a handler first waits, a timer starts. A handler that still runs after the grace time gets a watcher on
``receive()``. A client that disconnects cancels its request (2026-07-28, "Cancellation").

To cancel means to cancel the task that serves the request, which is the ASGI server's own task. The cancellation is
taken back (``uncancel``) before that task returns to the ASGI server.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import CallOptions, ProgressSender
from ferrule.protocol.errors import NoBackChannel, error_from_exception
from ferrule.protocol.inbound import http_status
from ferrule.transports.asgi.context import HttpContext
from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive, send_body
from ferrule.transports.asgi.request import SILENT_END_KEY, DisconnectWatch, IncomingRequest
from ferrule.transports.asgi.runtime import Runtime
from ferrule.wire.faults import EncodeError
from ferrule.wire.jsonrpc import RequestId, encode_error, encode_notification, encode_response
from ferrule.wire.sse import encode_event

if TYPE_CHECKING:
    from asyncio import Task

    from anyio import CancelScope

__all__ = ["ExchangeOwner", "ModernExchange"]

log = logging.getLogger("ferrule.http")


class ExchangeOwner(Protocol):
    """The state that the exchanges of one endpoint share; implemented by `ModernEndpoint`.

    Attributes:
        keep_alive: writes comments on open streams.
        grace_s: seconds that a handler may run before the client's disconnect is watched.
        is_ending: whether a shutdown has begun.
        waiting: exchanges whose handler waits.
    """

    keep_alive: KeepAlive
    grace_s: float
    is_ending: bool
    waiting: dict["ModernExchange", None]


class ModernExchange(ProgressSender):
    """The dispatch context of one modern request, and its connection's outbound channel.

    Attributes:
        stream: the event stream; ``None`` before the first notification.
        connection: the connection of the request, set by the endpoint; ``None`` after the end.
        cancel_requested: whether the client disconnected.
    """

    __slots__ = (
        "_owner",
        "_request",
        "_runtime",
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
        request: IncomingRequest,
        transport: HttpContext,
        request_id: RequestId | None,
        params: Mapping[str, Any],
        runtime: Runtime,
        owner: ExchangeOwner,
    ) -> None:
        super().__init__(params)
        self.request_id = request_id
        self.transport = transport
        self.stream: EventStreamReply | None = None
        self.connection: Connection | None = None
        self.cancel_requested = False
        self.finished = False
        self.task: Task[Any] | None = None
        self.scope: CancelScope | None = None
        self._request = request
        self._runtime = runtime
        self.loop = runtime.loop
        self._owner = owner
        self._watch: DisconnectWatch | None = None

    # --- messages of the handler ------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification on this request's stream; dropped after the response and after a disconnect."""
        if self.finished:
            log.debug("dropped %s: its request has been answered", method)
            return
        await self.send_encoded(encode_notification(method, params))

    async def send_encoded(self, message: bytes) -> None:
        """Send an encoded notification on this request's own stream, as `notify` does."""
        if self.finished:
            return
        stream = self.stream
        if stream is None:
            stream = self.stream = EventStreamReply(
                self._request.send, self._owner.keep_alive, self._request.reply_headers
            )
        await stream.write(encode_event(message))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse the request: a modern server sends none, and returns input requests instead.

        Raises:
            NoBackChannel: always.
        """
        raise NoBackChannel(f"{method} cannot be sent: in this era a server returns input requests instead")

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        """Send the response now although the handler still runs.

        Its later result, error and notifications are dropped.
        """
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
            sent = error_from_exception(error)
            payload, status = encode_error(self.request_id, sent), http_status(sent.code)
        if self.stream is not None:
            await self.stream.close(encode_event(payload))
        else:
            await send_body(self._request.send, status, payload, self._request.reply_headers)

    # --- the client's end -------------------------------------------------------------------------------------------

    def suspended(self) -> Any:
        """Record that the handler waits: from now on a disconnect is watched, and a shutdown can end a stream."""
        self.task = self._runtime.current_task()
        # Only handlers that wait can be streams; those that end without waiting cost nothing here.
        self._owner.waiting[self] = None
        # The shutdown has ended the other streams already.
        if self._owner.is_ending and self.connection is not None:
            self.connection.closing()
        if SILENT_END_KEY not in self._request.scope:
            self._watch = DisconnectWatch(self._runtime, self._request.receive, self._owner.grace_s, self.cancel)
            self._watch.arm()
        return None if self.loop is None else self.task

    def cancel(self) -> None:
        """Cancel the handler, which runs in the task of this request, after a disconnect."""
        if self.finished or self.cancel_requested:
            return
        self.cancel_requested = True
        log.info("the client of request %r has disconnected; the request is cancelled", self.request_id)
        if self.stream is not None:
            self.stream.lose()
        if self.task is not None:
            self.task.cancel()
        elif self.scope is not None:
            self.scope.cancel()

    def finish(self) -> None:
        """Record that the handler has ended: only the response is sent from now on, and nothing is watched."""
        self.finished = True
        # A reference cycle in each request would be freed by the garbage collector only.
        self.connection = None
        self.interruption = None
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
