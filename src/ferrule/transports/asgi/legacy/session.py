"""One legacy session: its connection, its requests in flight, its streams, and the pending requests to the client.

The session is the outbound channel of its connection (``Outbound``): messages of the server outside any request are
sent on one GET stream of the client, the newest one that is connected (2025-11-25, "Streamable HTTP").

A request id is reserved before anything is awaited and released before the response is sent, so that two requests never
share it, and a client may use it again as soon as it has the response.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import anyio

from ferrule.kernel.changes.bus import ListenFilter
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import CallOptions
from ferrule.kernel.runner import ServerRunner, aclose_shielded
from ferrule.kernel.server import Server
from ferrule.protocol.errors import ConnectionClosed, NoBackChannel
from ferrule.transports.asgi.legacy.questions import ClientQuestions
from ferrule.transports.asgi.legacy.stream import ResumableStream
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.asgi.replies import EventStreamReply
from ferrule.transports.asgi.runtime import current_runtime
from ferrule.wire.jsonrpc import RequestId, encode_notification
from ferrule.wire.uri_template import normal_uri

__all__ = ["GET_STREAM", "MAX_IN_FLIGHT", "InFlight", "LegacySession", "OtherWorkers"]

log = logging.getLogger("ferrule.http")

_END_S = 1.0
"""Seconds for a client to read the last events of a stream that is ended."""
GET_STREAM = "g"
"""The first letter of the ids of GET streams."""

# A client needs one; a few more for those that reconnect before the old connection is known to be lost.
_MAX_GET_STREAMS = 8
MAX_IN_FLIGHT = 1024
"""Maximum number of requests of one session in flight; each may continue after its connection has closed."""


class InFlight(Protocol):
    """A request in flight; implemented by `LegacyExchange`.

    Attributes:
        method: the method of the request.
        outlet: the HTTP response; the requests of a batch share one.
    """

    method: str
    outlet: Any

    def cancel(self) -> None:
        """Cancel its handler."""
        ...


class OtherWorkers(Protocol):
    """The other workers that share a session; implemented by `SharedSessions`."""

    async def publish(self, kind: str, session_id: str, content: Any = None) -> bool:
        """Send a message about a session to the other workers; return ``False`` if it was lost."""
        ...

    async def stream_started(self, session_id: str, stream_id: str, requests: list[RequestId]) -> None:
        """Announce to the others that this worker writes a stream, which will have the responses to these requests."""
        ...

    async def stream_ended(self, session_id: str, stream_id: str) -> None:
        """Announce to the others that a stream of this worker has ended."""
        ...


class LegacySession:
    """One legacy session: its connection, its requests in flight, its streams, and its requests to the client.

    Attributes:
        session_id: the id; empty for the temporary session of a stateless request.
        in_use, idle_since_s: maintained by the session table.
        principal: the principal of the session, as its newest request had it; for requests of others the session does
            not exist.
        in_flight: requests in flight by id.
        channels: the streams that can be resumed, by stream id.
        shared: the sessions shared with other workers; ``None`` without other workers.
    """

    __slots__ = (
        "_get_channels",
        "_is_sending_changes",
        "_next_stream",
        "_options",
        "_questions",
        "_server",
        "_stream_prefix",
        "channels",
        "connection",
        "idle_since_s",
        "in_flight",
        "in_use",
        "is_over",
        "principal",
        "runner",
        "session_id",
        "shared",
    )

    def __init__(
        self,
        session_id: str,
        server: Server[Any],
        options: HttpOptions,
        lifespan_state: Any,
        principal: Any,
        connection: Connection | None = None,
    ) -> None:
        self.session_id = session_id
        self.in_use = 0
        self.idle_since_s = 0.0
        self.principal = principal
        self.is_over = False
        self.in_flight: dict[RequestId, InFlight] = {}
        self.channels: dict[str, ResumableStream] = {}
        self.connection = connection or Connection.for_loop(self, session_id=session_id or None)
        self.runner: ServerRunner[Any] = ServerRunner(server, self.connection, lifespan_state)
        self._server = server
        self._options = options
        self._questions: ClientQuestions | None = None
        self._get_channels: list[ResumableStream] | None = None
        self._next_stream = 0
        self._is_sending_changes = False
        self._stream_prefix = ""
        self.shared: OtherWorkers | None = None

    def share(self, worker_id: str, shared: OtherWorkers) -> None:
        """Share this session with other workers: its stream ids differ from those of all others."""
        self._stream_prefix = f"{worker_id}."
        self.shared = shared

    @property
    def is_stateless(self) -> bool:
        """Whether it ends with its request."""
        return not self.session_id

    @property
    def questions(self) -> ClientQuestions:
        """The pending requests to the client."""
        if self._questions is None:
            # Below 2**53, the largest integer of clients in JavaScript, and in a range of this worker's own.
            self._questions = ClientQuestions(0 if self.shared is None else secrets.randbits(40) << 12)
        return self._questions

    # --- streams ----------------------------------------------------------------------------------------------------

    @property
    def has_get_stream(self) -> bool:
        """Whether a GET stream of the client is connected to this worker."""
        return self._get_channel() is not None

    @property
    def has_get_streams(self) -> bool:
        """Whether there is a GET stream, connected or not."""
        return bool(self._get_channels)

    def new_channel(self, kind: str = "") -> ResumableStream:
        """Return a new stream that is not connected yet; its id begins with ``kind``."""
        store = None if self.is_stateless else self._options.event_store
        self._next_stream += 1
        channel = ResumableStream(
            self.session_id,
            f"{kind}{self._stream_prefix}{self._next_stream}",
            store,
            retry_ms=self._options.retry_ms,
            primes=self.connection.revision.has_polling_streams,
        )
        if channel.is_resumable:
            self.channels[channel.stream_id] = channel
        return channel

    def forget_channel(self, channel: ResumableStream) -> None:
        """Remove a stream that has ended; its events remain in the store."""
        self.channels.pop(channel.stream_id, None)

    async def open_get_stream(self, reply: EventStreamReply) -> ResumableStream:
        """Start and return a GET stream, for messages outside any request."""
        channel = self.new_channel(GET_STREAM)
        if self.shared is not None:
            await self.shared.publish("get", self.session_id)
        channels = self._get_channels = self._get_channels or []
        for older in channels:
            older.cut_write()  # its client has probably disconnected; its queued messages are sent on the new stream
        channels.append(channel)
        await channel.open(reply)
        while len(channels) > _MAX_GET_STREAMS or (len(channels) > 1 and not channels[0].has_connection):
            oldest = channels.pop(0)
            self.forget_channel(oldest)
            current_runtime().spawn(partial(oldest.finish, None))
        if self.is_over:  # the session ended while the stream was opened
            await self.close_get_streams()
        self.send_changes()
        return channel

    def lost_get_stream(self, channel: ResumableStream) -> None:
        """Handle the disconnect of a GET stream; the stream is kept while it can be resumed."""
        if not channel.is_resumable and self._get_channels and channel in self._get_channels:
            self._get_channels.remove(channel)
        self.lost_client(channel)

    def lost_client(self, channel: ResumableStream) -> None:
        """Handle the disconnect of a stream: its pending requests fail unless the client reconnects in time."""
        if self._questions is None or not self._questions.are_open(channel):
            return
        if not channel.is_resumable:
            self._questions.fail(ConnectionClosed("The client of this stream has disconnected"), channel)
            return
        # By the number of losses `give_up` sees whether the client reconnected and disconnected again meanwhile.
        losses, wait_s = channel.losses, self._options.resume_s + channel.retry_ms / 1000

        def give_up() -> None:
            if channel.losses == losses and not channel.has_connection and self._questions is not None:
                self._questions.fail(ConnectionClosed(f"The client did not reconnect within {wait_s:g} s"), channel)

        current_runtime().call_later(wait_s, give_up)

    async def ask(
        self, channel: ResumableStream, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None
    ) -> dict[str, Any]:
        """Send a request to the client on one of its streams; see ``Outbound.send_raw_request``."""

        async def emit(data: bytes) -> None:
            await channel.emit(data)
            if not channel.has_connection:
                self.lost_client(channel)

        return await self.questions.ask(emit, channel, method, params, opts)

    def _get_channel(self) -> ResumableStream | None:
        """Return the GET stream for the next message: the newest connected one, else the newest resumable one."""
        channels = self._get_channels or ()
        for channel in reversed(channels):
            if channel.has_connection:
                return channel
        for channel in reversed(channels):
            if channel.can_deliver:
                return channel
        return None

    # --- Outbound: messages outside any request ----------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification on the GET stream; without one it is dropped."""
        channel = self._get_channel()
        if channel is None:
            if self.shared is not None:
                await self.shared.publish("notice", self.session_id, [method, params])
                return
            log.debug("dropped %s: the client has no GET stream open", method)
            return
        try:
            await channel.emit(encode_notification(method, params))
        except ConnectionClosed:
            log.debug("dropped %s: the client has disconnected", method)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request to the client on its GET stream and return the result.

        Raises:
            NoBackChannel: the client has no GET stream.
        """
        channel = self._get_channel()
        # Notifications may wait for a reconnect, a request may not: its caller would wait for a client that may be
        # gone.
        if channel is None or not channel.has_connection:
            raise NoBackChannel(f"{method} cannot be sent: the client has no GET stream open")
        return await self.ask(channel, method, params, opts)

    # --- changes ----------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Subscribe to the server's change notifications; called when the client is initialized."""
        server, connection = self._server, self.connection
        if connection.listener is not None or self.is_stateless or self.is_over:
            return
        if server.list_changed or server.resource_updates:
            connection.listener = server.bus.listen(self._filter())
            connection.listener.on_wake(self.send_changes)

    def use_principal(self, principal: Any) -> None:
        """Set the principal as a request has it, equal to the former: its token may have other scopes than before."""
        self.principal = principal
        if self.connection.listener is not None:
            self.connection.listener.filter.bind(principal, self._server.resource_visibility)

    def _filter(self, uris: Iterable[str] = (), allows: Callable[[str], bool] | None = None) -> ListenFilter:
        """Return a filter for the session's principal.

        Args:
            uris: the resources that the client has subscribed to.
            allows: the rule of middleware; ``None`` if no subscription has passed it in this process.
        """
        made = ListenFilter(self._kinds(), uris)
        made.bind(self.principal, self._server.resource_visibility)
        made.allows = allows
        if allows is None and self._server.middleware:
            from ferrule.kernel.serving.members import HidesMembers

            if any(isinstance(each, HidesMembers) and each.hides_members for each in self._server.middleware):
                # The subscriptions passed it in another process. It was asked about what they name, not about the
                # resources below.
                made.allows = lambda uri: normal_uri(uri) in made.uris
        return made

    def _kinds(self) -> list[str]:
        changing = self._server.changing_lists(self.connection.revision)
        return [kind for kind in ("tools", "prompts", "resources") if kind in changing]

    def add_gap(self) -> None:
        """Queue a change of each list and of each resource that the client has subscribed to: any may have changed."""
        if self.connection.listener is not None:
            self.connection.listener.add_gap()

    def send_changes(self) -> None:
        """Forward queued change notifications if the client has a GET stream; called when either changes."""
        listener = self.connection.listener
        if listener is None or self._is_sending_changes or self.is_over or self._get_channel() is None:
            return
        self._is_sending_changes = True
        current_runtime().spawn(self._send_changes)

    async def _send_changes(self) -> None:
        try:
            while (listener := self.connection.listener) is not None and (events := listener.drain()):
                for event in events:
                    await self.notify(event.method, event.params or None)
                if listener.ended and not self.is_over:
                    # The listener overflowed while the client had no stream; the client got the newest changes.
                    # Subscribe again.
                    before = listener.filter
                    self.connection.listener = self._server.bus.listen(self._filter(before.uris, before.allows))
                    self.connection.listener.on_wake(self.send_changes)
        finally:
            self._is_sending_changes = False

    # --- its end ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Stop everything that belongs to the session, which was deleted, has expired or was displaced."""
        if self.is_over:
            return
        self.is_over = True
        # Before the exchanges are cancelled: subscriptions then end by themselves.
        self.connection.closing()
        if self.connection.listener is not None:
            self.connection.listener.on_wake(None)
            self.connection.listener.end()
        if self._questions is not None:
            self._questions.fail(ConnectionClosed("The session has ended"))
        for exchange in list(self.in_flight.values()):
            exchange.cancel()
        # Thousands may expire together, and most have nothing to clean up: no task for those.
        if self.connection.opened_exit_stack is not None or self._next_stream:
            current_runtime().spawn(self._clean_up)
        else:
            self.connection.detach()

    async def _clean_up(self) -> None:
        await self.close_get_streams()
        await aclose_shielded(self.connection)
        if self._options.event_store is not None and self.shared is None:  # other workers may still need them
            await self._options.event_store.forget(self.session_id)
        self.connection.detach()

    async def close_get_streams(self) -> None:
        """End the GET streams concurrently; those of requests in flight stay.

        A client that does not read is abandoned.
        """
        # Taken first, so that a second call does nothing.
        channels, self._get_channels = self._get_channels or [], None
        if not channels:
            return
        async with anyio.create_task_group() as group:
            for channel in channels:
                self.forget_channel(channel)
                group.start_soon(_end_stream, channel)


async def _end_stream(channel: ResumableStream) -> None:
    with anyio.move_on_after(_END_S) as scope:
        await channel.finish(None)
    if scope.cancelled_caught:
        channel.give_up()
