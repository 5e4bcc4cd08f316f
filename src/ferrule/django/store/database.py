"""The database of a store: in which thread its calls run, its clock, and the deletion of what has expired.

A call runs in the thread that waits for the request if that is free (under WSGI), or in the thread of the synchronous
function that waits for the call: in its connection, and in its transaction if one is open. Otherwise it runs in one of
a few worker threads, where connections are checked and closed as at both ends of a request. No call leaves a
transaction open.

Times are those of the database, which all processes share. Its clock is read once a minute; in between the time since
the machine was started is added. A process whose own clock is wrong ends nothing of others.

What must be atomic is one statement, a change that names the value that was read (compare-and-swap), or in
`Database.atomic`.

SQLite has one lock for writing. Its driver waits for it as long as ``OPTIONS["timeout"]`` says, and not at all in some
places; a call outside a transaction of the project is then repeated for a while. In a transaction of the project it
cannot be: what the project has read there would be of another time than what it writes.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Final, TypeVar, cast

from django.db import connections, transaction, utils
from django.db.models import QuerySet, Sum

from ferrule.app.execution.threads import WorkerThreads
from ferrule.django.models import KINDS, CacheRow, StoreRow
from ferrule.django.store.errors import is_locked, translated
from ferrule.django.threads import close_connections, in_request_thread
from ferrule.stores.blobs import most_entries
from ferrule.stores.clock import uptime_s

__all__ = ["Database", "digest", "upsert"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
RowT = TypeVar("RowT", bound=StoreRow)

VENDORS: Final = ("postgresql", "sqlite")
"""Databases whose statements the store uses."""

_MAX_THREADS: Final = 4  # each has a connection
_CLOCK_S: Final = 60.0
_SWEEP_S: Final = 60.0
_SWEEP_AGAIN_S: Final = 1.0
_BATCH: Final = 500  # SQLite accepts 999 values in one statement
# Less than the 30 seconds after which gunicorn ends a worker that does not answer.
_LOCKED_S: Final = 20.0
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.5

_CLOCKS: Final = {
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
}


class Database:
    """One database of the project, for several stores.

    Args:
        using: its alias in ``DATABASES``.
        clock: returns seconds since the epoch; for tests. ``None``: the clock of the database.
        max_cache_bytes: maximum size of cached results; values that expire first are deleted first, within a minute.
            A larger value is not kept. The maximum number of values is a 256th of it, at least 64.
    """

    def __init__(
        self, using: str = "default", *, clock: Callable[[], float] | None = None, max_cache_bytes: int = 256 << 20
    ) -> None:
        self.using = using
        self.max_cache_bytes = max_cache_bytes
        self._given_clock = clock
        # A pool of its own: sync functions keep their threads while they wait for the store.
        self._threads = WorkerThreads(_MAX_THREADS)
        self._threads.host, self._threads.on_thread_end = in_request_thread, close_connections
        self._shift_s = 0.0
        self._read_clock_at = float("-inf")
        # At different times in processes that start together.
        self._sweep_at = uptime_s() + random.random() * _SWEEP_S

    async def run(self, work: Callable[[float], T]) -> T:
        """Call ``work(now)`` in a thread that may use the database, and return its result.

        Args:
            work: ``now`` is the time of the store in seconds since the epoch. It is called again if the connection was
                lost, or the database is locked; so what it writes last must be what makes it done.

        Raises:
            StoreNotMigrated: the tables are missing.
            StoreNotWritable: the database cannot be written to.
            OSError: the database cannot be reached, or was locked for 20 seconds.
        """
        result: T = await self._threads.run(_StoreCall(self), {"work": work})
        return result

    def call(self, work: Callable[[float], T]) -> T:
        """Call ``work(now)`` in this thread; see `run`."""
        with translated(self.using):
            connection = connections[self.using]
            if connection.in_atomic_block:
                # A savepoint: after an error the transaction of the project goes on.
                with transaction.atomic(self.using):
                    return work(self.now())
            try:
                return self._call_unlocked(work)
            except (utils.OperationalError, utils.InterfaceError):
                # The server may have closed the connection since its last use.
                if connection.connection is None or connection.is_usable():
                    raise
                connection.close()
                return self._call(work)

    def _call_unlocked(self, work: Callable[[float], T]) -> T:
        """Call ``work(now)``, again and again while SQLite is locked; the pauses differ between processes."""
        until, pause = uptime_s() + _LOCKED_S, _FIRST_PAUSE_S
        while True:
            try:
                return self._call(work)
            except utils.OperationalError as error:
                if not is_locked(error) or uptime_s() >= until:
                    raise
                logger.debug("The database %r is locked; trying again", self.using)
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _call(self, work: Callable[[float], T]) -> T:
        now = self.now()
        if uptime_s() >= self._sweep_at:
            self._sweep_at = uptime_s() + _SWEEP_S
            with suppress(utils.DatabaseError):  # on a full disk nothing can be deleted: continue without
                if self.sweep(now):
                    self._sweep_at = uptime_s() + _SWEEP_AGAIN_S
        return work(now)

    def now(self) -> float:
        """Return the time of the store, in seconds since the epoch."""
        if self._given_clock is not None:
            return self._given_clock()
        before = uptime_s()
        if before - self._read_clock_at >= _CLOCK_S:
            connection = connections[self.using]
            with connection.cursor() as cursor:
                cursor.execute(_CLOCKS[connection.vendor])
                read: Any = cursor.fetchone()[0]
            after = uptime_s()
            self._shift_s = read - (before + after) / 2
            self._read_clock_at = before = after
        return before + self._shift_s

    def rows(self, kind: type[RowT]) -> QuerySet[RowT]:
        """Return all rows of a table of this database."""
        manager: Any = kind._default_manager
        return cast("QuerySet[RowT]", manager.using(self.using))

    @property
    def locks_rows(self) -> bool:
        """Whether a transaction can lock rows; SQLite locks the whole database."""
        return connections[self.using].vendor == "postgresql"

    @contextmanager
    def atomic(self) -> Generator[None]:
        """Return a transaction; on SQLite it takes the lock for writing at its beginning.

        One that reads first and writes later fails when another process has written in between.
        """
        connection = connections[self.using]
        with ExitStack() as stack:
            with connection.execute_wrapper(_begin_immediately):
                stack.enter_context(transaction.atomic(self.using))
            yield

    def sweep(self, now: float, *, batch: int = _BATCH) -> int:
        """Delete expired rows, of each table one batch at most, and cached results beyond their bound.

        Args:
            now: the time of the store.
            batch: maximum number of rows of a table.

        Returns:
            The number of deleted rows of the table with most of them if that is a full batch, so that there may be
            more; otherwise 0.
        """
        most = max(self._delete(kind, now, batch) for kind in KINDS)
        self._trim_cache(batch)
        return most if most >= batch else 0

    def _delete(self, kind: type[StoreRow], now: float, batch: int) -> int:
        # On SQLite no transaction: it would hold the lock, most often for nothing.
        with self.atomic() if self.locks_rows else nullcontext():
            expired = self.rows(kind).filter(expires_at__lte=now).order_by("expires_at")
            # Several processes sweep at once: each takes other rows, and none waits for the transaction of a request.
            locked = expired.select_for_update(skip_locked=True) if self.locks_rows else expired
            keys = list(locked.values_list("pk", flat=True)[:batch])
            # Again with the time: without a lock a row may have got a new life meanwhile.
            return self.rows(kind).filter(pk__in=keys, expires_at__lte=now).delete()[0] if keys else 0

    def _trim_cache(self, batch: int) -> None:
        found = self.rows(CacheRow).aggregate(total=Sum("size"))["total"] or 0
        extra = self.rows(CacheRow).count() - most_entries(self.max_cache_bytes)
        if found <= self.max_cache_bytes and extra <= 0:
            return
        keys: list[int] = []
        for row in self.rows(CacheRow).order_by("expires_at").only("pk", "size")[:batch]:
            if found <= self.max_cache_bytes and len(keys) >= extra:
                break
            keys.append(row.pk)
            found -= row.size
        self.rows(CacheRow).filter(pk__in=keys).delete()


def _begin_immediately(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    """Execute a statement; a transaction of SQLite, which Django begins by this text, waits for its lock."""
    return execute("BEGIN IMMEDIATE" if sql == "BEGIN" else sql, params, many, context)


class _StoreCall:
    """A call of a store, for `WorkerThreads.run`."""

    # No transaction of ``ATOMIC_REQUESTS`` around it; see `ferrule.django.threads`.
    has_transactions = True

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, work: Callable[[float], Any]) -> Any:
        return self._database.call(work)


def digest(*texts: str) -> str:
    """Return the digest that stands for texts in a key."""
    # The length of each: ("ab", "c") is another key than ("a", "bc"). "surrogatepass": names may have lone surrogates.
    parts = [text.encode(errors="surrogatepass") for text in texts]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).hexdigest()


def upsert(
    using: str, kind: type[StoreRow], unique: tuple[str, ...], values: dict[str, Any], *, replaces: float | None = None
) -> bool:
    """Insert a row, or change the one with the same unique fields, in one statement.

    Args:
        using: the alias of the database.
        kind: the table.
        unique: names of the unique fields.
        values: all fields and their values.
        replaces: only a row that has expired at this time is changed; ``None``: any row. ``-inf`` changes none.

    Returns:
        Whether the row was written.
    """
    connection = connections[using]
    name = connection.ops.quote_name
    table = name(kind._meta.db_table)
    columns = {field: name(field) for field in values}
    changed = ", ".join(f"{column} = excluded.{column}" for field, column in columns.items() if field not in unique)
    condition, condition_values = "", list[Any]()
    if replaces is not None:
        condition, condition_values = f" WHERE {table}.{columns['expires_at']} <= %s", [replaces]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns.values())}) VALUES ({', '.join(['%s'] * len(columns))}) "
            f"ON CONFLICT ({', '.join(columns[field] for field in unique)}) DO UPDATE SET {changed}{condition}",
            [*values.values(), *condition_values],
        )
        return bool(cursor.rowcount == 1)
