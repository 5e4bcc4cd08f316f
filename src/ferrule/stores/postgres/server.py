"""The connections to one PostgreSQL, and the handling of its failures.

Connections are kept in a pool of asyncpg, which belongs to one event loop of one process: it is made on first use, and
again on another loop or after a fork. The exceptions of asyncpg become `ConnectionError` or `TimeoutError`.

Each call has ``timeout_s`` seconds in all. A broken connection is opened again within ``patience_s`` seconds, so that a
restart of PostgreSQL is not noticed. If that fails, or there is no reply, further calls try once, for a second at most,
until one succeeds: not each of many requests must wait for a server that is known to be unreachable. Statements must
therefore give the same result if they run twice: the reply to the first run may be lost.

Each statement is its own transaction, and what takes several of them is a function in the database (see
`ferrule.stores.postgres.schema`): one round trip, no lock that is held while a process waits for the network, and no
state of the session, so that a pooler such as PgBouncer may give each transaction another connection.

Once a minute one of all processes deletes expired rows, beside its calls.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

from ferrule.stores.blobs import most_entries
from ferrule.stores.errors import StoreNotWritable
from ferrule.stores.postgres.schema import prepare

__all__ = ["DEFAULT_SCHEMA", "PostgresServer", "digest", "utf8"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_SCHEMA: Final = "ferrule"
_RETRY_S: Final = 0.05
_PROBE_S: Final = 1.0
_CLOSE_S: Final = 1.0
# For each process: PostgreSQL accepts 100 connections by default, and each is a process there.
_MAX_CONNECTIONS: Final = 8
# Closed before firewalls do that without notice, which a call would learn from its time-out only.
_IDLE_S: Final = 60.0
_SWEEP_EVERY_S: Final = 60.0
_SWEEP_AGAIN_S: Final = 0.2
_SWEEP_BATCH: Final = 2000

# SQLSTATE: classes and codes after which a later call may succeed. Connection exceptions; shut down, crashed, starting;
# too many connections; deadlock, serialization failure, lock not available.
_AWAY: Final = ("08", "57P", "53300", "40P01", "40001", "55P03")
# Disk full, out of memory, limit of the configuration; wrong password; no such database; no privilege.
_REFUSED: Final = ("531", "532", "534", "28", "3D000", "42501")
_READ_ONLY: Final = "25006"
_CANCELED: Final = "57014"
# No such table, schema, function, column: somebody has dropped them.
_MISSING: Final = ("42P01", "3F000", "42883", "42703")


def digest(*texts: str) -> bytes:
    """Return 16 bytes that stand for texts in a key."""
    # The length of each: ("ab", "c") is another key than ("a", "bc").
    parts = [utf8(text) for text in texts]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).digest()[:16]


def utf8(text: str) -> bytes:
    """Return the bytes of a text that may contain what a column of text refuses: NUL and lone surrogates."""
    return text.encode(errors="surrogatepass")


class _Refuses(StoreNotWritable, ConnectionError):
    """PostgreSQL refuses; also a `ConnectionError`, as with a Redis that refuses."""


class _ReadOnly(_Refuses):
    """The server is a standby, and read-only until it, or another one, is the primary."""


class _Missing(ConnectionError):
    """The tables are gone; the next attempt makes them again."""


class PostgresServer:
    """One address, and the connections to it.

    Args:
        url: the URL as asyncpg reads it, without options of Ferrule.
        schema: the schema of all tables.
        connections: maximum number of connections of this process for calls; each listener has one more.
        timeout_s: maximum duration of one call in seconds.
        patience_s: seconds, within ``timeout_s``, in which a broken connection is opened again.
        max_cache_bytes: maximum size of cached results. Values that expire first are deleted first, within a minute; a
            larger value is not kept. The maximum number of values is a 256th of it, at least 64.
        statement_cache_size: prepared statements kept for each connection; 0 for a pooler that does not know them.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        connections: int = _MAX_CONNECTIONS,
        timeout_s: float = 5.0,
        patience_s: float = 2.0,
        max_cache_bytes: int = 256 << 20,
        statement_cache_size: int = 100,
    ) -> None:
        self.url = url
        self.schema = schema
        self.max_cache_bytes = max_cache_bytes
        self.timeout_s = timeout_s
        self._connections = connections
        self._patience_s = patience_s
        self._statement_cache_size = statement_cache_size
        self._is_away = False
        self._is_ready = False
        self._pool: Any = None
        self._preparing = asyncio.Lock()
        self._owner: tuple[int, Any] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._sweep_at = 0.0

    def sql(self, statement: str) -> str:
        """Return a statement with the names of this schema, and its clock: ``{schema}`` and ``{now}``."""
        return statement.replace("{now}", "{schema}.now_s()").replace("{schema}", self.schema)

    async def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a statement; see `run`."""
        found: list[Any] = await self.run(lambda connection: connection.fetch(statement, *values))
        return found

    async def row(self, statement: str, *values: Any) -> Any:
        """Return the first row of a statement, or ``None``; see `run`."""
        return await self.run(lambda connection: connection.fetchrow(statement, *values))

    async def value(self, statement: str, *values: Any) -> Any:
        """Return the first column of the first row of a statement, or ``None``; see `run`."""
        return await self.run(lambda connection: connection.fetchval(statement, *values))

    async def run(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return the result of ``await call(connection)`` within the time limits; retry after a broken connection.

        Raises:
            ConnectionError, TimeoutError: PostgreSQL cannot be reached.
            StoreNotWritable: PostgreSQL has no space left, stays a standby, or refuses this user.
        """
        clock = asyncio.get_running_loop().time
        self._current()  # imports asyncpg at the first call, whose time must not count
        # One attempt only while PostgreSQL is known to be unreachable: see the module.
        retry_until = clock() if self._is_away else clock() + self._patience_s
        timeout_s = min(self.timeout_s, _PROBE_S) if self._is_away else self.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                result = await self._until(retry_until, call)
        except ConnectionError as error:
            self._is_away = not isinstance(error, _Refuses) or isinstance(error, _ReadOnly)
            raise
        except TimeoutError as error:
            self._is_away = True
            raise TimeoutError(f"PostgreSQL does not answer within {timeout_s:g} s") from error
        self._is_away = False
        self._sweep_soon()
        return result

    async def _until(self, retry_until: float, call: Callable[[Any], Awaitable[T]]) -> T:
        clock = asyncio.get_running_loop().time
        while True:
            try:
                return await self.translated(call)
            except ConnectionError as error:
                is_answer = isinstance(error, _Refuses) and not isinstance(error, _ReadOnly)
                if is_answer or clock() >= retry_until:
                    raise
            await asyncio.sleep(_RETRY_S)

    async def translated(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return the result of ``await call(connection)``, without retries and time limit; convert asyncpg's errors.

        Raises:
            ConnectionError, TimeoutError: PostgreSQL cannot be reached.
            StoreNotWritable: PostgreSQL refuses.
        """
        with self.errors():
            pool = await self._current()
            connection = await pool.acquire()
            try:
                if not self._is_ready:
                    await self._prepare(connection)
                return await call(connection)
            except BaseException as error:
                # What was begun on it may still run. Not so after an error that PostgreSQL itself has reported.
                if getattr(error, "sqlstate", None) is None:
                    connection.terminate()
                raise
            finally:
                await pool.release(connection)

    async def connect(self) -> Any:
        """Return a connection outside of the pool, which the caller closes.

        Raises:
            ConnectionError, TimeoutError: PostgreSQL cannot be reached.
            StoreNotWritable: PostgreSQL refuses.
        """
        connect = import_module("asyncpg").connect
        with self.errors():
            return await connect(self.url, timeout=self.timeout_s, statement_cache_size=self._statement_cache_size)

    async def _prepare(self, connection: Any) -> None:
        """Make the tables if they are missing, in one task at a time."""
        async with self._preparing:
            if not self._is_ready:
                await prepare(connection, self.schema)
                self._is_ready = True

    @contextmanager
    def errors(self) -> Generator[None]:
        """Convert the errors of connections and of asyncpg; others are faults of a statement."""
        try:
            yield
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionError(f"PostgreSQL cannot be reached: {error}") from error
        except RuntimeError as error:
            # uvloop says so when a connection is closed while it is written to; asyncio raises an OSError.
            if type(error) is not RuntimeError or "closed" not in str(error):
                raise
            raise ConnectionError(f"PostgreSQL cannot be reached: {error}") from error
        except Exception as error:
            found = self._of_asyncpg(error)
            if found is None:
                raise
            raise found from error

    def _of_asyncpg(self, error: Any) -> Exception | None:
        """Return what callers know of an error of asyncpg; ``None`` if it is a fault of a statement."""
        asyncpg: Any = import_module("asyncpg")
        if not isinstance(error, asyncpg.PostgresError):
            # Encoding a value failed: a fault of ours, although asyncpg derives it from errors of the connection.
            is_lost = isinstance(error, asyncpg.InterfaceError) and not isinstance(error, asyncpg.DataError)
            # A connection that was lost between two messages of one statement is in no state to go on.
            is_lost = is_lost or isinstance(error, asyncpg.InternalClientError)
            return ConnectionError(f"PostgreSQL cannot be reached: {error}") if is_lost else None
        state: str = error.sqlstate or ""
        if state.startswith(_MISSING):
            self._is_ready = False
            return _Missing(f"The tables of the store are missing in the schema {self.schema}: {error}")
        if state == _READ_ONLY:
            self._drop_pool()  # a standby now: a new connection may reach the new primary
            return _ReadOnly(f"PostgreSQL cannot be written to: {error}")
        if state == _CANCELED:
            return TimeoutError(f"PostgreSQL has cancelled a statement: {error}")
        if state.startswith(_REFUSED):
            return _Refuses(f"PostgreSQL cannot be used: {error}")
        return ConnectionError(f"PostgreSQL cannot be reached: {error}") if state.startswith(_AWAY) else None

    def _current(self) -> Any:
        # A socket must not be used by two processes, nor by two event loops.
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._pool is None or self._owner != owner:
            self._owner = owner
            self._preparing = asyncio.Lock()
            self._sweeping = None
            # At different times in processes that start together.
            self._sweep_at = asyncio.get_running_loop().time() + random.random() * _SWEEP_EVERY_S
            self._pool = self._new_pool()
        return self._pool

    def _new_pool(self) -> Any:
        return import_module("asyncpg").create_pool(
            self.url,
            min_size=0,
            max_size=self._connections,
            max_inactive_connection_lifetime=_IDLE_S,
            reset=_nothing_to_reset,
            timeout=self.timeout_s,
            statement_cache_size=self._statement_cache_size,
        )

    def _sweep_soon(self) -> None:
        """Delete expired rows beside the calls, if it is time."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._sweep_at or self._sweeping is not None:
            return
        self._sweep_at = loop.time() + _SWEEP_EVERY_S
        self._sweeping = loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        try:
            every_s = _SWEEP_EVERY_S / 2
            while await self.sweep(every_s=every_s):
                every_s = 0.0
                await asyncio.sleep(_SWEEP_AGAIN_S)
        except OSError as error:  # the calls report it
            logger.debug("Expired rows cannot be deleted now: %s", error)
        finally:
            self._sweeping = None

    async def sweep(self, *, every_s: float = 0.0, batch: int = _SWEEP_BATCH) -> bool:
        """Delete expired rows, of each table one batch at most, and cached results beyond their bound.

        Args:
            every_s: nothing is deleted if another process did so in the last seconds.
            batch: maximum number of rows of a table.

        Returns:
            Whether there may be more.

        Raises:
            OSError: PostgreSQL cannot be reached or written to.
        """
        statement = self.sql("SELECT {schema}.sweep($1, $2, $3, $4)")
        most_rows = most_entries(self.max_cache_bytes)
        found: bool = await self.value(statement, every_s, batch, self.max_cache_bytes, most_rows)
        return found

    def _drop_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        if self._pool is None or self._owner != (os.getpid(), asyncio.get_running_loop()):
            return
        # Taken first: a call that arrives while this closes must open new connections.
        pool, self._pool, self._owner = self._pool, None, None
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await (await pool).close()
        except Exception:
            pool.terminate()  # PostgreSQL does not answer, or the connections are broken


async def _nothing_to_reset(connection: Any) -> None:
    """Prepare a connection for its next use: no statement of ours changes its state."""
