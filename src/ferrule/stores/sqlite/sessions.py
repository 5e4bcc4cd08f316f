"""Legacy sessions in the SQLite file, for the workers of one machine: records, events, and a channel.

A power failure ends all connections, so that none of this data needs to survive it: no call waits for the disk.

The channel is a table that each process polls. Whether anything was written is known after microseconds
(``PRAGMA data_version``); it is polled every 20 ms, which is the maximum delay of a message.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio

from ferrule.stores.channel import OnMessage
from ferrule.stores.events import Replay, StoredEvent
from ferrule.stores.sqlite.file import SqliteFile, transaction

__all__ = ["SqliteChannel", "SqliteEvents", "SqliteSessions"]

# Longer than any process may be busy without polling.
_MESSAGE_LIFE_S: Final = 60.0
_RETRY_S: Final = 0.2
# The rows are handled on the event loop, which must not be blocked for long.
_MOST_AT_ONCE: Final = 256


class SqliteSessions:
    """`ferrule.stores.sessions.SessionStore` in a file.

    A session may exist for a tenth longer than its idle time: so not every read must write a new expiry.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Store a value and restart its idle time; see `SessionStore.put`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO ferrule_sessions (session_id, expires_at, value) VALUES (?, ?, ?)",
                (session_id, now + idle_s * 1.1, value),
            )

        await self._file.run(work, durable=False)

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return a value and restart its idle time of ``idle_s`` seconds; see `SessionStore.get`."""

        def work(connection: sqlite3.Connection, now: float) -> bytes | None:
            found: Any = connection.execute(
                "SELECT value, expires_at FROM ferrule_sessions WHERE session_id = ? AND expires_at > ?",
                (session_id, now),
            ).fetchone()
            if found is None:
                return None
            # Written only when the tenth is used up, or when another idle time was configured meanwhile.
            if not now + idle_s <= found[1] <= now + idle_s * 1.1:
                connection.execute(
                    "UPDATE ferrule_sessions SET expires_at = ? WHERE session_id = ?", (now + idle_s * 1.1, session_id)
                )
            return bytes(found[0])

        return await self._file.run(work, durable=False)

    async def delete(self, session_id: str) -> None:
        """Delete a value; see `SessionStore.delete`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute("DELETE FROM ferrule_sessions WHERE session_id = ?", (session_id,))

        await self._file.run(work, durable=False)


class SqliteEvents:
    """`ferrule.stores.events.EventStore` in a file.

    The first number of a stream is the current time, or above the numbers of the session's other streams. So a stream
    that was deleted and continues gets new ids: an old id then finds nothing, instead of the wrong event.

    Args:
        file: the file.
        max_stream_events: maximum number of events of a stream; the oldest are deleted first.
        max_session_streams: maximum number of streams of a session; the least recently written are deleted first.
        ttl_s: seconds that an event is kept.
    """

    def __init__(
        self, file: SqliteFile, *, max_stream_events: int = 256, max_session_streams: int = 256, ttl_s: float = 1800.0
    ) -> None:
        self._file = file
        self._most = max_stream_events
        self._most_streams = max_session_streams
        self._ttl_s = ttl_s

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id; see `EventStore.append`."""

        def work(connection: sqlite3.Connection, now: float) -> int:
            with transaction(connection):
                last: Any = connection.execute(
                    "SELECT max(number) FROM ferrule_events WHERE session_id = ? AND stream_id = ?",
                    (session_id, stream_id),
                ).fetchone()[0]
                if last is None:
                    others: Any = connection.execute(
                        "SELECT max(number) FROM ferrule_events WHERE session_id = ?", (session_id,)
                    ).fetchone()[0]
                    number = max(int(now * 1000), (others or 0) + 1)
                else:
                    number = last + 1
                connection.execute(
                    "INSERT INTO ferrule_events (session_id, stream_id, number, expires_at, data) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (session_id, stream_id, number, now + self._ttl_s, data),
                )
                connection.execute(
                    "DELETE FROM ferrule_events WHERE session_id = ? AND stream_id = ? AND number <= ?",
                    (session_id, stream_id, number - self._most),
                )
                if last is None:
                    connection.execute(
                        "DELETE FROM ferrule_events WHERE session_id = :session AND stream_id IN (SELECT stream_id "
                        "FROM ferrule_events WHERE session_id = :session AND stream_id != :stream GROUP BY stream_id "
                        "ORDER BY max(expires_at) DESC, max(rowid) DESC LIMIT -1 OFFSET :most)",
                        {"session": session_id, "stream": stream_id, "most": self._most_streams - 1},
                    )
            return number

        return f"{stream_id}-{await self._file.run(work, durable=False)}"

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """Return the events after ``last_event_id`` on its stream; see `EventStore.replay`."""
        stream_id, _, text = last_event_id.rpartition("-")
        if not stream_id or not (text.isascii() and text.isdigit()) or len(text) > 15:
            return None
        seen = int(text)

        def work(connection: sqlite3.Connection, now: float) -> list[Any]:
            # Also the seen event itself: if neither it nor the next one exists, there is a gap.
            return connection.execute(
                "SELECT number, data FROM ferrule_events WHERE session_id = ? AND stream_id = ? AND number >= ? "
                "AND expires_at > ? ORDER BY number",
                (session_id, stream_id, seen, now),
            ).fetchall()

        rows = await self._file.run(work, durable=False)
        if not rows or rows[0][0] > seen + 1:
            return None
        events = [StoredEvent(f"{stream_id}-{number}", bytes(data)) for number, data in rows if number > seen]
        return Replay(stream_id, events)

    async def forget(self, session_id: str) -> None:
        """Delete all events of a session that has ended; see `EventStore.forget`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute("DELETE FROM ferrule_events WHERE session_id = ?", (session_id,))

        await self._file.run(work, durable=False)


class SqliteChannel:
    """`ferrule.stores.channel.Channel` in a file.

    Args:
        file: the file.
        poll_s: seconds between two polls: the maximum delay of a message.
    """

    def __init__(self, file: SqliteFile, *, poll_s: float = 0.02) -> None:
        self._file = file
        self._poll_s = poll_s

    async def send(self, message: bytes) -> None:
        """Send a message to all other processes, and to the subscribers of this one; see `Channel.send`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute(
                "INSERT INTO ferrule_messages (expires_at, message) VALUES (?, ?)", (now + _MESSAGE_LIFE_S, message)
            )

        await self._file.run(work, durable=False)

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message, until cancelled; see `Channel.listen`."""
        while True:
            with suppress(OSError, sqlite3.DatabaseError):
                # No waiting for locks, which would block the event loop: the next poll finds the table unlocked.
                async with self._file.connected(timeout_s=0) as connection:
                    await self._follow(connection, on_message, on_ready)
            await anyio.sleep(_RETRY_S)

    async def _follow(
        self, connection: sqlite3.Connection, on_message: OnMessage, on_ready: Callable[[], None] | None
    ) -> None:
        version: Any = _version(connection)
        seen: int = connection.execute("SELECT coalesce(max(number), 0) FROM ferrule_messages").fetchone()[0]
        if on_ready is not None:
            on_ready()
        while True:
            await anyio.sleep(self._poll_s)
            try:
                now = _version(connection)
                if now == version:
                    continue
                rows: list[Any] = connection.execute(
                    "SELECT number, message FROM ferrule_messages WHERE number > ? ORDER BY number LIMIT ?",
                    (seen, _MOST_AT_ONCE),
                ).fetchall()
            except sqlite3.OperationalError:  # locked by a writer: poll again
                continue
            # Otherwise more rows are waiting, and the version must still look changed at the next poll.
            if len(rows) < _MOST_AT_ONCE:
                version = now
            for number, message in rows:
                seen = number
                on_message(bytes(message))


def _version(connection: sqlite3.Connection) -> int:
    """Return a number that changes whenever another connection, of any process, has written."""
    found: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return found
