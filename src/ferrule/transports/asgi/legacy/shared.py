"""Legacy sessions on several workers: any worker serves any request, and a store has the shared state.

A session is opened on one worker. When another gets a request for it, it builds the session from its record: the
handshake, the log level, the subscriptions, the state. Every request reads the record once, so a session that was
deleted on another worker does not exist here either, and writes it only if it changed. Messages for a task of another
worker are sent there over the channel: the response to a request of the server, a cancellation, progress, a
notification for the client's GET stream.

Streams are kept in the shared event store. If a client resumes a stream on another worker, that worker forwards its
events until the worker that writes the stream has ended it or has died. In the latter case the requests of that worker
are answered with an error; without it the client would reconnect forever.

A lost store must not be mistaken for deleted sessions. Each worker therefore writes a witness record, which only a loss
of data can remove; after a loss every worker writes its sessions again.

A request whose session has not changed costs one round trip to the store.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.kernel.connection import Connection
from ferrule.kernel.server import Server
from ferrule.protocol.era import is_handshake_version
from ferrule.protocol.legacy.handshake import Negotiation
from ferrule.stores.channel import Channel
from ferrule.stores.sessions import SessionStore
from ferrule.stores.store import Store
from ferrule.transports.asgi.legacy.session import LegacySession
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.asgi.runtime import Cancellable, current_runtime
from ferrule.wire.codec import convert, decode, encode, to_builtins
from ferrule.wire.faults import ConvertError, DecodeError, EncodeError
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.types import InitializeParams

if TYPE_CHECKING:
    from ferrule.transports.asgi.runtime import Runtime

__all__ = ["SharedSessions", "StreamWatch"]

log = logging.getLogger("ferrule.http")

# Stores need an expiry: a month, if sessions do not expire.
_NEVER_IDLE_S: Final = 30 * 24 * 3600.0
_HEARTBEAT_TTL_S: Final = 8.0
_HEARTBEAT_INTERVAL_S: Final = 2.0
"""Seconds between two heartbeats. One is valid for `_HEARTBEAT_TTL_S`, longer than a short outage of the store."""
_RETRY_S: Final = 0.3
_SILENT_S: Final = 1.0
"""Seconds without a heartbeat after which a worker counts as ended. After an outage of the store it writes sooner."""
_LIVE_STREAM_S: Final = 24 * 3600.0
_LOOK_EVERY_S: Final = 0.1
_WITNESS_S: Final = 24 * 3600.0
# A new worker cannot know whether the store was emptied before it started: it asks the others for this time.
_YOUNG_S: Final = 1.0
_RECOVERY_S: Final = 3.0
"""Seconds: longer than any worker needs to notice that the store was emptied, and to write its sessions again."""


class SharedSessions:
    """One endpoint's access to the sessions of all workers.

    Args:
        store: the shared store; it has session records and a channel.
        server, options: the server and the options of the endpoint.
        find: returns the session that this worker has already, or ``None``.
        drop: removes a session from this worker, because it ended on another one.

    Attributes:
        worker_id: identifies this process for the others.
    """

    def __init__(
        self,
        store: Store,
        server: Server[Any],
        options: HttpOptions,
        find: Callable[[str], LegacySession | None],
        drop: Callable[[str], object],
    ) -> None:
        if store.sessions is None or store.channel is None:
            raise ValueError("sessions are shared through a store that has sessions and a channel, such as Redis")
        self.worker_id = secrets.token_hex(4)
        self._sessions: SessionStore = store.sessions
        self._channel: Channel = store.channel
        self._blobs = store.blobs
        self._server = server
        self._options = options
        self._find = find
        self._drop = drop
        self._idle_s = _NEVER_IDLE_S if options.session_idle_s is None else options.session_idle_s
        self._seen: dict[str, bytes] = {}
        self._listener: Cancellable | None = None
        self._heartbeat: Cancellable | None = None
        self._runtime: Runtime | None = None
        self._witness = f"worker:{self.worker_id}:witness"
        self._has_witness = False
        self._recovers_until_s = float("-inf")

    # --- records ----------------------------------------------------------------------------------------------------

    async def add(self, session: LegacySession) -> None:
        """Write the record of a new session."""
        self.start()
        await self.save(session)

    async def save(self, session: LegacySession) -> None:
        """Write the record if it differs from the one last read or written here."""
        if session.is_over or session.is_stateless:
            return
        try:
            record = encode(self._record(session))
        except EncodeError:
            log.exception("the state of a session has no JSON form and stays on this worker")
            return
        # Compared as bytes: most requests change nothing, and a write costs a round trip.
        before = self._seen.get(session.session_id)
        if before == record:
            return
        await self._sessions.put(session.session_id, record, idle_s=self._idle_s)
        self._seen[session.session_id] = record
        uris = _uris(session)
        if before is not None and decode(before)["uris"] != uris:
            # The worker that writes the GET stream may get no further request of this session.
            await self.publish("uris", session.session_id, uris)

    async def look_up(self, session_id: str, lifespan_state: Any, principal: Any) -> LegacySession | None:
        """Return a session in its current shared state, and keep it on this worker; ``None`` if there is none."""
        self.start()
        record = await self._sessions.get(session_id, idle_s=self._idle_s)
        if record is None:
            record = await self._recovered(session_id)
        session = self._find(session_id)
        if record is None:
            self._seen.pop(session_id, None)
            if session is not None:
                self._drop(session_id)
            return None
        if session is not None:
            if self._seen.get(session_id) != record:
                self._apply(session, decode(record))
                self._seen[session_id] = record
            return session
        session = self._rebuilt(session_id, decode(record), lifespan_state, principal)
        if session is not None:
            self._seen[session_id] = record
        return session

    async def end(self, session_id: str) -> None:
        """End a session on every worker after its client deleted it."""
        self._seen.pop(session_id, None)
        await self._sessions.delete(session_id)
        await self.publish("end", session_id)

    async def _recovered(self, session_id: str) -> bytes | None:
        """Return a record that was lost with the store's data; ``None`` if no data was lost or no worker has it."""
        if await self._is_emptied():
            await self._restore()
        # Also if this worker has no witness of its own yet. The request is repeated, because the other workers may not
        # have reconnected their channels yet.
        while self._options.clock() < self._recovers_until_s:
            await self.publish("lost", "")
            await anyio.sleep(_LOOK_EVERY_S)
            record = await self._sessions.get(session_id, idle_s=self._idle_s)
            if record is not None:
                return record
        return None

    async def _is_emptied(self) -> bool:
        """Return whether this worker's witness is missing, although it lasts for days: the store has lost its data."""
        return self._has_witness and await self._blobs.get(self._witness) is None

    async def _restore(self) -> None:
        """Write the sessions of this worker again. Their state may be older than the last one that was stored."""
        log.warning("the store has lost everything; the sessions known to this worker are written back")
        self._recovers_until_s = self._options.clock() + _RECOVERY_S
        await self._blobs.put(self._witness, b"1", ttl_s=_WITNESS_S)
        for session_id, record in list(self._seen.items()):
            await self._sessions.put(session_id, record, idle_s=self._idle_s)

    def forget(self, session_id: str) -> None:
        """Remove a session's cached record on this worker; other workers may keep theirs."""
        self._seen.pop(session_id, None)

    def _record(self, session: LegacySession) -> dict[str, Any]:
        connection = session.connection
        return {
            "version": connection.protocol_version,
            "client": to_builtins(connection.client_params),
            "ready": connection.is_ready,
            "log": connection.log_level,
            "uris": _uris(session),
            "principal": _plain(session.principal),
            "state": connection.state,
        }

    def _apply(self, session: LegacySession, record: dict[str, Any]) -> None:
        connection = session.connection
        connection.log_level = record["log"]
        if record["ready"]:
            connection.initialized.set()
            session.listen()
        if connection.listener is not None:
            connection.listener.set_uris(record["uris"])
        if connection.state != record["state"]:
            connection.state.clear()
            connection.state.update(record["state"])

    def _rebuilt(
        self, session_id: str, record: dict[str, Any], lifespan_state: Any, principal: Any
    ) -> LegacySession | None:
        version = record["version"]
        if not is_handshake_version(version) or record["principal"] != _plain(principal):
            return None
        try:
            client = convert(record["client"], InitializeParams)
        except ConvertError:
            return None
        session = LegacySession(session_id, self._server, self._options, lifespan_state, principal)
        self.mark(session)
        connection: Connection = session.connection
        connection.commit(Negotiation(client, version))
        self._apply(session, record)
        return session

    def mark(self, session: LegacySession) -> None:
        """Set ids for a session's streams and requests that no other worker uses."""
        session.share(self.worker_id, self)

    # --- messages ---------------------------------------------------------------------------------------------------

    async def publish(self, kind: str, session_id: str, content: Any = None) -> bool:
        """Send a message about a session to the other workers; return ``False`` if the store cannot be reached.

        Like all messages of a channel it may be lost all the same.
        """
        try:
            # With the id of the sender, because a channel delivers to its sender, too.
            await self._channel.send(encode([self.worker_id, "session", kind, session_id, content]))
        except OSError as error:
            log.warning("a message (%s) did not reach the other workers: %s", kind, error)
            return False
        return True

    def start(self) -> None:
        """Subscribe to the other workers' messages and start the heartbeat; once per event loop."""
        runtime = current_runtime()
        if self._runtime is runtime:
            return
        # First: a second call, also one of a task that is started here, must do nothing.
        self._runtime = runtime
        self._recovers_until_s = self._options.clock() + _YOUNG_S
        self._listener = runtime.spawn(lambda: self._channel.listen(self._take))
        self._heartbeat = runtime.spawn(self._write_heartbeat)

    def stop(self) -> None:
        """Stop the subscription and the heartbeat."""
        self._runtime = None
        for task in (self._listener, self._heartbeat):
            if task is not None:
                task.cancel()

    async def _write_heartbeat(self) -> None:
        is_away = False
        while True:
            try:
                await self._blobs.put(f"worker:{self.worker_id}", b"1", ttl_s=_HEARTBEAT_TTL_S)
                if await self._is_emptied():
                    await self._restore()
                else:
                    await self._blobs.put(self._witness, b"1", ttl_s=_WITNESS_S)
                    self._has_witness = True
            except OSError as error:
                if not is_away:
                    log.warning("the store cannot be reached: %s", error)
                is_away = True
            else:
                is_away = False
            await anyio.sleep(_RETRY_S if is_away else _HEARTBEAT_INTERVAL_S)

    async def _restore_quietly(self) -> None:
        try:
            if await self._is_emptied():
                await self._restore()
        except OSError as error:
            log.warning("the sessions cannot be written back yet: %s", error)

    def _take(self, message: bytes) -> None:
        try:
            sender, what, kind, session_id, content = cast("list[Any]", decode(message))
        except (DecodeError, ValueError, TypeError):
            return  # for another endpoint on the same channel
        if what != "session" or sender == self.worker_id:
            return
        if kind == "lost":
            current_runtime().spawn(self._restore_quietly)
            return
        session = self._find(session_id)
        if session is None:
            return
        if kind == "end":
            self._seen.pop(session_id, None)
            self._drop(session_id)
        elif kind == "answer":
            session.questions.answer(content)
        elif kind == "cancel":
            exchange = session.in_flight.get(content)
            if exchange is not None and exchange.method != "initialize":
                exchange.cancel()
        elif kind == "uris":
            if session.connection.listener is not None:
                session.connection.listener.follow_uris(content)
        elif kind == "progress":
            current_runtime().spawn(lambda: session.questions.progress(content))
        elif kind == "notice" and session.has_get_stream:
            current_runtime().spawn(lambda: session.notify(content[0], content[1]))
        elif kind == "get":
            # The client has a newer GET stream on another worker, and a message must not be sent on two streams.
            current_runtime().spawn(session.close_get_streams)

    # --- streams ----------------------------------------------------------------------------------------------------

    async def stream_started(self, session_id: str, stream_id: str, requests: list[RequestId]) -> None:
        """Record that this worker writes a stream, which will have the responses to these requests."""
        await self._note_stream(session_id, stream_id, encode([self.worker_id, requests]), _LIVE_STREAM_S)

    async def stream_ended(self, session_id: str, stream_id: str) -> None:
        """Record that a stream of this worker has ended."""
        await self._note_stream(session_id, stream_id, b"", 60)

    async def _note_stream(self, session_id: str, stream_id: str, fed: bytes, ttl_s: float) -> None:
        """Write a stream's record. If that fails, only a client that reconnects to another worker is affected."""
        try:
            await self._blobs.put(f"stream:{session_id}:{stream_id}", fed, ttl_s=ttl_s)
        except OSError as error:
            log.warning("a stream cannot be resumed on other workers: %s", error)

    async def end_of_stream(self, session_id: str, stream_id: str, watch: "StreamWatch") -> list[RequestId] | None:
        """Return ``None`` while a worker writes the stream, then the requests that were lost with a dead worker."""
        fed = await self._blobs.get(f"stream:{session_id}:{stream_id}")
        if not fed:
            return []
        worker, requests = cast("tuple[str, list[RequestId]]", decode(fed))
        return requests if watch.is_dead(await self._blobs.get(f"worker:{worker}") is None) else None

    async def wait_for_more(self) -> None:
        """Wait before the next check of a stream that another worker writes."""
        await anyio.sleep(_LOOK_EVERY_S)


def _uris(session: LegacySession) -> list[str]:
    """Return the URIs that a session has subscribed to, sorted."""
    listener = session.connection.listener
    return [] if listener is None else sorted(listener.filter.uris)


class StreamWatch:
    """Measures how long the heartbeat of the worker that writes a forwarded stream has been missing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silent_since: float | None = None

    def is_dead(self, is_silent: bool) -> bool:
        """Record one check of the heartbeat; return whether the worker counts as dead.

        Args:
            is_silent: whether the heartbeat was missing in this check.
        """
        if not is_silent:
            self._silent_since = None
            return False
        if self._silent_since is None:
            self._silent_since = self._clock()
        return self._clock() - self._silent_since >= _SILENT_S


def _plain(principal: Any) -> Any:
    """Return a principal's identity as JSON values that are equal on every worker."""
    if principal is None or isinstance(principal, str | int):
        return principal
    facts = cast("Mapping[str, Any] | None", principal if isinstance(principal, Mapping) else None)
    for name in ("id", "subject", "sub"):
        found = getattr(cast("Any", principal), name, None) if facts is None else facts.get(name)
        if found is not None:
            return str(found)
    return to_builtins(principal)
