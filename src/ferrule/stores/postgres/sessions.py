"""Legacy sessions in PostgreSQL, for all workers: records, and the events of their streams."""

from __future__ import annotations

from typing import Final

from ferrule.stores.events import Replay, StoredEvent
from ferrule.stores.postgres.schema import advisory_key
from ferrule.stores.postgres.server import PostgresServer, digest

__all__ = ["PostgresEvents", "PostgresSessions"]

# Evaluated while a row is returned, before the statement's transaction ends, which then does not wait for the disk.
_NOT_DURABLE: Final = "set_config('synchronous_commit', 'off', true)"


class PostgresSessions:
    """`ferrule.stores.sessions.SessionStore` in PostgreSQL.

    A session may exist for a tenth longer than its idle time: so not every read must write a new expiry. A value is on
    the disk before its call returns: after a crash an older one would look like the newest. A new expiry is not.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._put = server.sql(
            "INSERT INTO {schema}.sessions VALUES ($1, {now} + $3 * 1.1, $2) ON CONFLICT (key) "
            "DO UPDATE SET expires_at = excluded.expires_at, value = excluded.value"
        )
        self._get = server.sql(
            "SELECT value, expires_at BETWEEN {now} + $2 AND {now} + $2 * 1.1 FROM {schema}.sessions "
            "WHERE key = $1 AND expires_at > {now}"
        )
        self._touch = server.sql(
            f"UPDATE {{schema}}.sessions SET expires_at = {{now}} + $2 * 1.1 WHERE key = $1 RETURNING {_NOT_DURABLE}"
        )
        self._delete = server.sql("DELETE FROM {schema}.sessions WHERE key = $1")

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Store a value and restart its idle time; see `SessionStore.put`."""
        await self._server.row(self._put, digest(session_id), value, float(idle_s))

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return a value and restart its idle time of ``idle_s`` seconds; see `SessionStore.get`."""
        key = digest(session_id)
        found = await self._server.row(self._get, key, float(idle_s))
        if found is None:
            return None
        value: bytes
        value, is_fresh = found
        # Written only when the tenth is used up, or when another idle time was configured meanwhile.
        if not is_fresh:
            await self._server.row(self._touch, key, float(idle_s))
        return value

    async def delete(self, session_id: str) -> None:
        """Delete a value; see `SessionStore.delete`."""
        await self._server.row(self._delete, digest(session_id))


class PostgresEvents:
    """`ferrule.stores.events.EventStore` in PostgreSQL.

    An event is on the disk before its call returns: if a crash could undo it, its id would be given to another one.

    Args:
        server: the PostgreSQL server.
        max_stream_events: maximum number of events of a stream; the oldest are deleted first.
        max_session_streams: maximum number of streams of a session; the least recently written are deleted first.
        ttl_s: seconds that an event is kept.
    """

    def __init__(
        self,
        server: PostgresServer,
        *,
        max_stream_events: int = 256,
        max_session_streams: int = 256,
        ttl_s: float = 1800.0,
    ) -> None:
        self._server = server
        self._most = max_stream_events
        self._most_streams = max_session_streams
        self._ttl_s = ttl_s
        self._append = server.sql("SELECT {schema}.append_event($1, $2, $3, $4, $5, $6, $7)")
        # Also the seen event itself: if neither it nor the next one exists, there is a gap.
        self._replay = server.sql(
            "SELECT number, data FROM {schema}.events WHERE session = $1 AND stream = $2 AND number >= $3 "
            "AND expires_at > {now} ORDER BY number"
        )
        self._forget = server.sql("DELETE FROM {schema}.events WHERE session = $1")

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id; see `EventStore.append`."""
        session, schema = digest(session_id), self._server.schema.encode()
        number: int = await self._server.value(
            self._append,
            session,
            digest(stream_id),
            data,
            self._ttl_s,
            self._most,
            self._most_streams,
            advisory_key(schema, session),
        )
        return f"{stream_id}-{number}"

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """Return the events after ``last_event_id`` on its stream; see `EventStore.replay`."""
        stream_id, _, text = last_event_id.rpartition("-")
        # Untrusted: more digits than a column of numbers holds must not be an error of the statement.
        if not stream_id or not (text.isascii() and text.isdigit()) or len(text) > 15:
            return None
        seen = int(text)
        rows = await self._server.rows(self._replay, digest(session_id), digest(stream_id), seen)
        if not rows or rows[0][0] > seen + 1:
            return None
        events = [StoredEvent(f"{stream_id}-{number}", data) for number, data in rows if number > seen]
        return Replay(stream_id, events)

    async def forget(self, session_id: str) -> None:
        """Delete all events of a session that has ended; see `EventStore.forget`."""
        await self._server.row(self._forget, digest(session_id))
