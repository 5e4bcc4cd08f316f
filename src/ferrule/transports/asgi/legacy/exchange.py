"""The dispatch context of one legacy request over HTTP, and the response that the requests of one POST share.

A response is JSON unless the handler sends a message before it. The first such message opens an event stream, and the
response is its last event. A disconnect does *not* cancel a request in the legacy era (2025-11-25, "Streamable HTTP"):
the handler continues. If the stream can be resumed, its messages are kept until the client reconnects.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ferrule.kernel.dispatch import CallOptions, ProgressSender
from ferrule.protocol.errors import ClientNotAskable, ConnectionClosed, NoBackChannel
from ferrule.transports.asgi.context import HttpContext, http_form_of
from ferrule.transports.asgi.legacy.session import LegacySession
from ferrule.transports.asgi.legacy.stream import ResumableStream
from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive, RawHeaders
from ferrule.transports.asgi.request import SILENT_END_KEY, DisconnectWatch, IncomingRequest
from ferrule.transports.asgi.runtime import Runtime, TrioRuntime
from ferrule.wire.jsonrpc import RequestId, encode_notification

if TYPE_CHECKING:
    from asyncio import Task

    from anyio import CancelScope

__all__ = ["LegacyExchange", "Outlet"]

log = logging.getLogger("ferrule.http")


class Outlet:
    """The response to one POST: JSON or an event stream, which the first message decides.

    Args:
        request: the POST.
        session: the session of the request; it has the streams.
        keep_alive: writes comments on the stream, if there is one.
        headers: further response headers (the session id of an initialize).
        may_stream: ``False`` drops the messages that handlers send before their result.

    Attributes:
        channel: the stream; ``None`` before the first message.
        client_is_gone: whether the client disconnected before the first message.
        refusal: status and headers of an error that is an HTTP refusal as well (missing scope), while there is no
            stream; a batch gets 200.
    """

    __slots__ = (
        "_keep_alive",
        "_reply",
        "_request",
        "_watch",
        "channel",
        "client_is_gone",
        "headers",
        "may_stream",
        "refusal",
        "session",
    )

    def __init__(
        self,
        request: IncomingRequest,
        session: LegacySession,
        keep_alive: KeepAlive,
        headers: RawHeaders | None = None,
        *,
        may_stream: bool = True,
    ) -> None:
        self._request = request
        self._keep_alive = keep_alive
        self._watch: DisconnectWatch | None = None
        self._reply: EventStreamReply | None = None
        self.session = session
        self.headers = headers
        self.may_stream = may_stream
        self.channel: ResumableStream | None = None
        self.client_is_gone = False
        self.refusal: tuple[int, RawHeaders] | None = None

    async def open(self) -> ResumableStream:
        """Return the stream of this response, opened now if this is its first message.

        Raises:
            ConnectionClosed: the client disconnected before there was a stream that it could resume.
        """
        if self.channel is not None:
            return self.channel
        if self.client_is_gone:
            raise ConnectionClosed("The client of this request has disconnected")
        channel = self.channel = self.session.new_channel()
        self._reply = self._new_reply()
        await channel.open(self._reply, None if self.session.shared is None else self._announce_stream)
        return channel

    async def _announce_stream(self) -> None:
        shared, channel = self.session.shared, self.channel
        if shared is not None and channel is not None:
            # A batch has several; a worker that takes the stream over must answer all of them.
            requests = [id for id, exchange in self.session.in_flight.items() if exchange.outlet is self]
            await shared.stream_started(self.session.session_id, channel.stream_id, requests)

    async def answer(self, payload: bytes | None) -> None:
        """End the response with an encoded answer; ``None`` ends it without one (the request was cancelled).

        The specification leaves two forms for a request, so "no answer" is an event stream with no event in it.
        """
        if self._watch is not None:
            self._watch.stop()
        if self.channel is not None:
            self.session.forget_channel(self.channel)
            await self.channel.finish(payload)
            if self.session.shared is not None:
                await self.session.shared.stream_ended(self.session.session_id, self.channel.stream_id)
        # An empty event stream: see above.
        elif payload is None:
            await self._new_reply().close()
        else:
            status, headers = self.refusal or (200, [])
            await self._request.reply(status, payload, [*(self.headers or ()), *headers])

    def watch(self, runtime: Runtime, grace_s: float) -> None:
        """Watch for the client's disconnect while a handler waits; only the first call of a response has an effect."""
        if self._watch is None and SILENT_END_KEY not in self._request.scope:
            self._watch = DisconnectWatch(runtime, self._request.receive, grace_s, self._gone)
            self._watch.arm()

    def _gone(self) -> None:
        self.client_is_gone = True
        channel = self.channel
        if channel is None:
            log.info("the client of a legacy request has disconnected before the first message; the request continues")
            return
        if self._reply is not None:  # another connection may carry the stream already
            channel.lost(self._reply)
        if not channel.has_connection:
            self.session.lost_client(channel)

    def _new_reply(self) -> EventStreamReply:
        headers = [*(self.headers or ()), *(self._request.reply_headers or ())]
        return EventStreamReply(self._request.send, self._keep_alive, headers)


class LegacyExchange(ProgressSender):
    """The dispatch context of one legacy request over HTTP.

    Attributes:
        outlet: the HTTP response that gets its messages and its answer.
        cancel_requested: whether the client sent ``notifications/cancelled``, or its session ended.
        finished: whether the handler has ended.
    """

    __slots__ = (
        "_grace_s",
        "_runtime",
        "cancel_requested",
        "finished",
        "loop",
        "method",
        "outlet",
        "request_id",
        "scope",
        "task",
        "transport",
    )

    def __init__(
        self,
        outlet: Outlet,
        transport: HttpContext,
        request_id: RequestId | None,
        method: str,
        params: Mapping[str, Any] | None,
        runtime: Runtime,
        grace_s: float,
    ) -> None:
        super().__init__(params)
        self.request_id = request_id
        self.transport = transport
        self.method = method
        self.cancel_requested = False
        self.finished = False
        self.task: Task[Any] | None = None
        self.scope: CancelScope | None = None
        self.outlet = outlet
        self._runtime = runtime
        self.loop = runtime.loop
        self._grace_s = grace_s

    @property
    def can_send_request(self) -> bool:
        """Whether a request to the client can be sent on this request's stream."""
        return self.transport.can_send_request and not (self.finished or self.cancel_requested)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification on this request's stream; dropped after the answer, or when the client cannot get it."""
        if self.finished or self.cancel_requested or not self.outlet.may_stream:
            log.debug("dropped %s: it cannot go with its request", method)
            return
        try:
            channel = await self.outlet.open()
            await channel.emit(encode_notification(method, params))
        except ConnectionClosed:
            log.debug("dropped %s: the client has disconnected", method)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request to the client on this request's stream and return its result, which arrives in another POST.

        Raises:
            ClientNotAskable: a stateless server, JSON-only answers, or the request has been answered.
            ConnectionClosed: the client disconnected, or the session ended.
        """
        if not self.can_send_request:
            if self.finished or self.cancel_requested:
                raise ClientNotAskable(f"{method} cannot be sent: the request has been answered or withdrawn")
            raise ClientNotAskable(f"{method} cannot be sent: this request's answer is not a stream of a session")
        channel = await self.outlet.open()
        return await self.outlet.session.ask(channel, method, params, opts)

    def refuse(self, error: Exception) -> None:
        """Set status and headers of an error that has an HTTP form, unless the response head was sent."""
        form = http_form_of(error)
        if form is not None:
            self.outlet.refusal = form

    @property
    def runs_on_asyncio(self) -> bool:
        """Whether it is cancelled by cancelling its task (asyncio); on trio it needs a cancel scope."""
        return type(self._runtime) is not TrioRuntime

    async def open_stream(self) -> None:
        """Answer with an event stream, also if the handler sends no message."""
        await self.outlet.open()

    async def close_stream(self, retry_ms: int | None = None) -> None:
        """Close this request's connection while the handler continues; the client reconnects for the rest (SEP-1699).

        Args:
            retry_ms: reconnection time for the client in milliseconds; ``None`` takes the endpoint's option.

        Raises:
            NoBackChannel: the revision has no polling, or the stream cannot be resumed.
        """
        session = self.outlet.session
        if not session.connection.revision.has_polling_streams or not self.outlet.may_stream or self.finished:
            raise NoBackChannel("The stream of this request cannot be closed and resumed")
        channel = await self.outlet.open()
        await channel.close_connection(retry_ms)

    def suspended(self) -> Any:
        """Record that the handler waits: from now on it can be cancelled, and the client's disconnect is watched."""
        self.suspended_in(self._runtime.current_task())
        return None if self.loop is None else self.task

    def suspended_in(self, task: "Task[Any] | None") -> None:
        """Record that the handler waits in a task."""
        self.task = task
        self.outlet.watch(self._runtime, self._grace_s)

    def cancel(self) -> None:
        """Cancel the handler: the client cancelled the request, or the session ended."""
        if self.finished or self.cancel_requested:
            return
        self.cancel_requested = True
        if self.task is not None:
            self.task.cancel()
        elif self.scope is not None:
            self.scope.cancel()
