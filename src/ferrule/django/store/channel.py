"""Messages between the processes of a project, in a table that each of them reads at intervals.

The interval bounds the cost: one query on the primary key each time, in a connection of its own that stays open, with
no transaction. Not ``LISTEN``, which poolers of connections do not pass on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
import anyio.to_thread
from django.db import DatabaseError, connections

from ferrule.django.models import MessageRow
from ferrule.django.store.database import Database
from ferrule.django.store.errors import is_locked, translated
from ferrule.stores.channel import MemoryChannel, OnMessage

__all__ = ["DjangoChannel"]

logger = logging.getLogger(__name__)

_MESSAGE_LIFE_S: Final = 60.0
_RETRY_S: Final = 5.0
# Handled on the event loop, which must not be blocked for long.
_MOST_AT_ONCE: Final = 256
# On PostgreSQL numbers become visible in another order than they were given: one that is missing is asked for again.
_MOST_MISSING: Final = 64
_MISSING_POLLS: Final = 20


class DjangoChannel:
    """`ferrule.stores.channel.Channel` in a database.

    In the memory of this process where the database is (SQLite, as in tests): no other process has that one, and a
    connection that reads it meets locks of the others that no time-out waits for.

    Args:
        database: the database.
        poll_s: seconds between two queries: the maximum delay of a message.
    """

    def __init__(self, database: Database, *, poll_s: float = 0.25) -> None:
        self._database = database
        self._poll_s = poll_s
        self._memory = MemoryChannel()

    async def send(self, message: bytes) -> None:
        """Send a message to all other processes, and to the subscribers of this one; see `Channel.send`."""

        if _is_in_memory(self._database.using):
            await self._memory.send(message)
            return

        def work(now: float) -> None:
            self._database.rows(MessageRow).create(expires_at=now + _MESSAGE_LIFE_S, message=message)

        await self._database.run(work)

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message, until cancelled; see `Channel.listen`."""
        await self.listen_while(_always, on_message, on_ready)

    async def listen_while(
        self, is_wanted: Callable[[], bool], on_message: OnMessage, on_ready: Callable[[], None] | None = None
    ) -> None:
        """As `listen`, without a query while ``is_wanted()`` is false; see `PollingChannel`."""
        if _is_in_memory(self._database.using):
            await self._memory.listen(on_message, on_ready)
            return
        is_away = False
        reader = _Reader(self._database.using)
        while True:
            try:
                await _in_thread(reader.open)
                is_away = False
                if on_ready is not None:
                    on_ready()
                while True:
                    await anyio.sleep(self._poll_s)
                    if not is_wanted():  # as under WSGI, which has no streams
                        continue
                    for message in await _in_thread(reader.read_unlocked):
                        on_message(message)
            except (OSError, DatabaseError) as error:
                if not is_away:  # once, and not at each attempt
                    is_away = True
                    logger.warning("Messages of other processes cannot be read; trying again: %s", error)
            finally:
                with anyio.CancelScope(shield=True):
                    await _in_thread(reader.close)
            await anyio.sleep(_RETRY_S)


def _always() -> bool:
    return True


def _is_in_memory(using: str) -> bool:
    """Return whether a database is in the memory of this process; asks only for the name, which tests change."""
    if connections.settings[using]["ENGINE"] != "django.db.backends.sqlite3":
        return False
    name = str(connections[using].settings_dict["NAME"])
    return name == ":memory:" or "mode=memory" in name


async def _in_thread(function: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(function)


class _Reader:
    """Reads the messages that were sent since it was opened first, in a connection that is no thread's own.

    Args:
        using: the alias of the database.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._connection: Any = None
        self._seen: int | None = None
        self._missing: dict[int, int] = {}

    def open(self) -> None:
        """Open the connection; what is there already is not read, except what was sent since it was lost."""
        self._connection = connections.create_connection(self._using)
        self._connection.inc_thread_sharing()  # by one thread after the other
        quote = self._connection.ops.quote_name
        table, number = quote(MessageRow._meta.db_table), quote("number")
        self._last = f"SELECT MAX({number}) FROM {table}"
        self._next = (
            f"SELECT {number}, {quote('message')} FROM {table} WHERE {number} > %s{{}} "
            f"ORDER BY {number} LIMIT {_MOST_AT_ONCE}"
        )
        self._or_missing = f" OR {number} IN ({{}})"
        with self._cursor() as cursor:
            cursor.execute(self._last)
            last: int = cursor.fetchone()[0] or 0
        # Of a database that was made anew the numbers begin again.
        self._seen = last if self._seen is None else min(self._seen, last)

    def read_unlocked(self) -> list[bytes]:
        """Return what `read` returns; nothing while the database is locked, which is no reason to open it again."""
        try:
            return self.read()
        except ConnectionError as error:
            if error.__cause__ is None or not is_locked(error.__cause__):
                raise
            logger.debug("Messages of other processes wait: %s", error)
            return []

    def read(self) -> list[bytes]:
        """Return the messages since the last call, in the order in which they were sent."""
        missing, seen = list(self._missing), self._seen or 0
        extra = self._or_missing.format(", ".join(["%s"] * len(missing))) if missing else ""
        with self._cursor() as cursor:
            cursor.execute(self._next.format(extra), [seen, *missing])
            rows: list[Any] = cursor.fetchall()
        for number, _ in rows:
            self._missing.pop(number, None)
            for skipped in range(max(seen + 1, number - _MOST_MISSING), number):
                self._missing[skipped] = _MISSING_POLLS
            self._seen = seen = max(seen, number)
        self._forget_missing()
        return [bytes(message) for _, message in rows]

    def _forget_missing(self) -> None:
        """Forget numbers that did not come: their transactions were rolled back."""
        for number in list(self._missing):
            self._missing[number] -= 1
            if self._missing[number] <= 0 or len(self._missing) > _MOST_MISSING:
                del self._missing[number]

    @contextmanager
    def _cursor(self) -> Generator[Any]:
        with translated(self._using), self._connection.cursor() as cursor:
            yield cursor

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken
                connection.close()
