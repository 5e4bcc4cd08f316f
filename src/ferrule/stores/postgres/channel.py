"""Messages between processes, in PostgreSQL: a row for each, and ``NOTIFY`` with its number.

Only numbers are in the notifications, because every user of the database can listen to them, and because they hold
8,000 bytes at most. A listener has a connection of its own, reads the rows that it is notified of, and costs nothing
while there are none. A forged notification makes it read a row, and nothing else.

After a lost connection it reads what was sent meanwhile. If PostgreSQL was started again, it does not: the rows may be
gone, and their numbers begin again.

A pooler that gives each transaction another connection (PgBouncer with ``pool_mode = transaction``) does not pass
notifications on. A listener therefore first sends one to itself; if that does not arrive, it warns once and looks for
new rows at intervals.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from ferrule.stores.channel import OnMessage
from ferrule.stores.postgres.server import PostgresServer

__all__ = ["PostgresChannel"]

logger = logging.getLogger(__name__)

_MESSAGE_LIFE_S: Final = 60.0
_RETRY_S: Final = 0.2
# A connection without notifications is checked after this time: a lost one is not noticed otherwise.
_QUIET_S: Final = 30.0
_POLL_S: Final = 0.25
# The rows are handled on the event loop, which must not be blocked for long.
_MOST_AT_ONCE: Final = 256
_MOST_WAITING: Final = 10_000
# Numbers become visible in another order than they were given: so many are asked for again.
_OVERLAP: Final = 1000

_ECHO: Final = ""
"""The payload with which a listener tests whether notifications arrive."""


class PostgresChannel:
    """`ferrule.stores.channel.Channel` over ``LISTEN`` and ``NOTIFY``."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = f"{server.schema}_messages"
        self._send = server.sql(
            "WITH sent AS (INSERT INTO {schema}.messages (expires_at, message) VALUES ({now} + $1, $2) "
            "RETURNING number) SELECT pg_notify($3, number::text) FROM sent"
        )
        self._by_number = server.sql("SELECT number, message FROM {schema}.messages WHERE number = ANY($1::bigint[])")
        self._after = server.sql(
            "SELECT number, message FROM {schema}.messages WHERE number > $1 ORDER BY number LIMIT $2"
        )
        self._last = server.sql("SELECT coalesce(max(number), 0), pg_postmaster_start_time() FROM {schema}.messages")

    async def send(self, message: bytes) -> None:
        """Send a message to all other processes, and to the subscribers of this one; see `Channel.send`."""
        await self._server.row(self._send, _MESSAGE_LIFE_S, message, self._name)

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message, until cancelled; see `Channel.listen`."""
        reader = _Reader(on_message)
        is_away = False
        while True:
            try:
                # Also makes the tables, if this process has not used the store yet.
                await self._server.run(_nothing)
                connection = await self._server.connect()
                is_away = False
                try:
                    with self._server.errors():
                        await self._follow(connection, reader, on_ready)
                finally:
                    connection.terminate()
            except OSError as error:
                if not is_away:  # once, and not at each attempt
                    logger.debug("Messages of other processes cannot be read; trying again: %s", error)
                is_away = True
            await asyncio.sleep(_RETRY_S)

    async def _follow(self, connection: Any, reader: _Reader, on_ready: Callable[[], None] | None) -> None:
        notified = _Notified()
        connection.add_termination_listener(notified.on_end)
        async with asyncio.timeout(self._server.timeout_s):
            await self._subscribe(connection, notified.on_notify)
            last, started_at = await connection.fetchrow(self._last)
        is_known = reader.begin(last, started_at)
        if on_ready is not None:
            on_ready()
        hears = await self._hears_itself(notified)
        if is_known or not hears:
            await self._read_after(connection, reader)
        while not notified.has_ended:
            is_woken = await notified.wait(_QUIET_S if hears else _POLL_S)
            if notified.has_overflowed:
                raise ConnectionError("Too many notifications at once")
            if numbers := notified.take(_MOST_AT_ONCE):
                await self._read(connection, reader, numbers)
            elif not hears:
                await self._read_after(connection, reader)
            elif not is_woken:
                await self._fetch(connection, "SELECT 1")

    async def _subscribe(self, connection: Any, on_notify: Callable[..., None]) -> None:
        await connection.add_listener(self._name, on_notify)

    async def _hears_itself(self, notified: _Notified) -> bool:
        """Return whether a notification of another connection arrives."""
        await self._server.row("SELECT pg_notify($1, $2)", self._name, _ECHO)
        if await notified.has_echo(self._server.timeout_s):
            return True
        logger.warning(
            "Notifications of PostgreSQL do not arrive, as behind PgBouncer with pool_mode = transaction: messages "
            "of other processes are looked for every %g s. Connect to PostgreSQL itself, or to a pool of sessions",
            _POLL_S,
        )
        return False

    async def _read(self, connection: Any, reader: _Reader, numbers: list[int]) -> None:
        rows = dict(await self._fetch(connection, self._by_number, numbers))
        # In the order of the notifications, which is that of the commits.
        for number in numbers:
            if number in rows:
                reader.take(number, rows[number])

    async def _read_after(self, connection: Any, reader: _Reader) -> None:
        after = reader.after
        while True:
            rows = await self._fetch(connection, self._after, after, _MOST_AT_ONCE)
            for number, message in rows:
                after = number
                reader.take(number, message)
            if len(rows) < _MOST_AT_ONCE:
                return

    async def _fetch(self, connection: Any, statement: str, *values: Any) -> list[Any]:
        async with asyncio.timeout(self._server.timeout_s):
            found: list[Any] = await connection.fetch(statement, *values)
        return found


async def _nothing(connection: Any) -> None:
    """Use a connection for nothing."""


class _Notified:
    """What the callbacks of a connection have noted: numbers of rows, the echo, and the end."""

    def __init__(self) -> None:
        self.has_ended = False
        self.has_overflowed = False
        self._numbers: deque[int] = deque()
        self._woken = asyncio.Event()
        self._echo = asyncio.Event()

    def on_notify(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        """Note the number of a row; other payloads are forged."""
        if payload == _ECHO:
            self._echo.set()
        elif payload.isascii() and payload.isdigit() and len(payload) < 19:
            self.has_overflowed = self.has_overflowed or len(self._numbers) >= _MOST_WAITING
            if not self.has_overflowed:
                self._numbers.append(int(payload))
            self._woken.set()

    def on_end(self, connection: Any) -> None:
        """Note the end of the connection."""
        self.has_ended = True
        self._woken.set()
        self._echo.set()

    async def has_echo(self, timeout_s: float) -> bool:
        """Wait until the echo arrives, for at most ``timeout_s`` seconds, and return whether it has."""
        return await _is_set(self._echo, timeout_s)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until there is something, for at most ``timeout_s`` seconds, and return whether there is."""
        return bool(self._numbers) or await _is_set(self._woken, timeout_s)

    def take(self, limit: int) -> list[int]:
        """Return the oldest numbers, at most ``limit``, and forget them."""
        self._woken.clear()
        return [self._numbers.popleft() for _ in range(min(limit, len(self._numbers)))]


async def _is_set(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    except TimeoutError:
        return False


class _Reader:
    """Passes each message on once, over all connections of a listener.

    Args:
        on_message: called with each message.
    """

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self._taken: OrderedDict[int, None] = OrderedDict()
        self._first = 0
        self._last = 0
        self._started_at: Any = None

    def begin(self, last: int, started_at: Any) -> bool:
        """Note that a connection was opened; return whether its server has the rows since the last connection.

        Args:
            last: the number of the newest row.
            started_at: when the server was started.
        """
        if started_at == self._started_at and last >= self._last:
            return True
        self._taken.clear()
        self._first = self._last = last
        self._started_at = started_at
        return False

    @property
    def after(self) -> int:
        """The number after which there may be messages that were not passed on."""
        return max(self._first, self._last - _OVERLAP)

    def take(self, number: int, message: bytes) -> None:
        """Pass a message on, unless it was passed on before."""
        if number in self._taken:
            return
        self._taken[number] = None
        if len(self._taken) > 2 * _OVERLAP:
            self._taken.popitem(last=False)
        self._last = max(self._last, number)
        self._on_message(message)
