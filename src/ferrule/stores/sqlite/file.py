"""One SQLite file for all processes of a machine, opened on first use, in WAL mode.

Every 60 seconds a call also deletes the expired rows.

In WAL mode readers and the one writer do not wait for each other. A *durable* change is on the disk before its call
returns (``synchronous=FULL``, a few milliseconds). Any other change survives ``kill -9`` of all processes but not a
power failure in the next seconds (``synchronous=NORMAL``, fifty microseconds). The file is consistent in both cases. A
new file can be read by its owner only; an existing one keeps its permissions.

The file has its own time. All processes measure the time since the machine was started, and the file stores the
calendar time of that start. The first process after a start of the machine sets it; the clocks of all others are
ignored, so that no process deletes data of another because its clock is wrong or was set.

Calls run in worker threads, one at a time in each process. A forked process opens the file again: a connection must not
be used across a fork. Network file systems are not supported, because their locks are not reliable enough for SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import anyio.to_thread
from anyio.lowlevel import RunVar

from ferrule.stores.blobs import most_entries
from ferrule.stores.clock import boot_id, uptime_s
from ferrule.stores.errors import StoreNotWritable

__all__ = ["SqliteFile", "transaction"]

T = TypeVar("T")

# Another process may be deleting many expired rows; requests wait rather than fail.
_BUSY_TIMEOUT_S: Final = 30.0
_SWEEP_EVERY_S: Final = 60.0

# Two clocks that are read one after the other differ a little; a restart or a wrong clock differs by more.
_CLOCK_TOLERANCE_S: Final = 2.0

_NOT_WRITABLE: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_READONLY_DBMOVED,
        sqlite3.SQLITE_READONLY_DIRECTORY,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS ferrule_marks (key TEXT PRIMARY KEY, expires_at REAL NOT NULL, value BLOB) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ferrule_marks_expiry ON ferrule_marks (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_blobs (key TEXT PRIMARY KEY, expires_at REAL NOT NULL, value BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS ferrule_blobs_expiry ON ferrule_blobs (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
    version INTEGER NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL, leased_until REAL, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS ferrule_tasks_owner ON ferrule_tasks (owner, number);
CREATE INDEX IF NOT EXISTS ferrule_tasks_expiry ON ferrule_tasks (expires_at);
CREATE INDEX IF NOT EXISTS ferrule_tasks_lease ON ferrule_tasks (leased_until) WHERE leased_until IS NOT NULL;
CREATE TABLE IF NOT EXISTS ferrule_task_counts (owner TEXT PRIMARY KEY, tasks INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO ferrule_task_counts
    SELECT '', count(*) FROM ferrule_tasks WHERE NOT EXISTS (SELECT 1 FROM ferrule_task_counts) HAVING count(*) > 0
    UNION ALL
    SELECT owner, count(*) FROM ferrule_tasks
    WHERE owner <> '' AND NOT EXISTS (SELECT 1 FROM ferrule_task_counts) GROUP BY owner;
CREATE TRIGGER IF NOT EXISTS ferrule_tasks_added AFTER INSERT ON ferrule_tasks BEGIN
    INSERT INTO ferrule_task_counts VALUES ('', 1) ON CONFLICT (owner) DO UPDATE SET tasks = tasks + 1;
    INSERT INTO ferrule_task_counts SELECT NEW.owner, 1 WHERE NEW.owner <> ''
        ON CONFLICT (owner) DO UPDATE SET tasks = tasks + 1;
END;
CREATE TRIGGER IF NOT EXISTS ferrule_tasks_deleted AFTER DELETE ON ferrule_tasks BEGIN
    UPDATE ferrule_task_counts SET tasks = tasks - 1 WHERE owner = '' OR owner = OLD.owner;
    DELETE FROM ferrule_task_counts WHERE (owner = '' OR owner = OLD.owner) AND tasks <= 0;
END;
CREATE TABLE IF NOT EXISTS ferrule_sessions (
    session_id TEXT PRIMARY KEY, expires_at REAL NOT NULL, value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS ferrule_sessions_expiry ON ferrule_sessions (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_events (
    session_id TEXT NOT NULL, stream_id TEXT NOT NULL, number INTEGER NOT NULL, expires_at REAL NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (session_id, stream_id, number)
);
CREATE INDEX IF NOT EXISTS ferrule_events_expiry ON ferrule_events (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, expires_at REAL NOT NULL, message BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS ferrule_messages_expiry ON ferrule_messages (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_cache (
    bundle TEXT NOT NULL, key TEXT NOT NULL, expires_at REAL NOT NULL, value BLOB NOT NULL, PRIMARY KEY (bundle, key)
);
CREATE INDEX IF NOT EXISTS ferrule_cache_expiry ON ferrule_cache (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_rates (key TEXT PRIMARY KEY, expires_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ferrule_rates_expiry ON ferrule_rates (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1), boot_id TEXT NOT NULL, started_at REAL NOT NULL, seen_at REAL NOT NULL
);
"""
"""Every row has an expiry. An open task is one with a lease, even if that has run out.

Triggers count the tasks, in all (without a name) and of each owner, because any process may add and delete them, also
one of release 0.1.

The one row of the clock has the time when the machine was started, and the time when expired rows were last deleted,
both in seconds since the epoch.
"""

_KINDS: Final = ("marks", "blobs", "tasks", "sessions", "events", "messages", "cache", "rates")

_SWEEPS: Final = tuple(f"DELETE FROM ferrule_{kind} WHERE expires_at <= ?" for kind in _KINDS)

_LENGTH: Final = "length(bundle) + length(key) + length(value)"

_CACHE_SIZE: Final = f"SELECT count(*), coalesce(sum({_LENGTH}), 0) FROM ferrule_cache"

# One statement, and so one transaction: a durable one for each row would wait for the disk each time.
_EVICT: Final = f"""
DELETE FROM ferrule_cache WHERE rowid IN (
    SELECT place FROM (
        SELECT rowid AS place, row_number() OVER ages AS nth, sum({_LENGTH}) OVER ages AS size_bytes FROM ferrule_cache
        WINDOW ages AS (ORDER BY expires_at DESC, rowid)
    ) WHERE nth > ? OR size_bytes > ?
)
"""


class _ProcessConnection:
    """A connection, and the id of the process that may use it."""

    __slots__ = ("connection", "pid")

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.pid = 0

    def set(self, connection: sqlite3.Connection) -> None:
        self.connection, self.pid = connection, os.getpid()

    def close(self) -> None:
        if self.connection is not None and self.pid == os.getpid():
            self.connection.close()
        self.connection = None


class SqliteFile:
    """One file, opened on first use, that several stores share.

    Args:
        path: the path of the file; its folder must exist.
        clock: returns seconds since the epoch; for tests. If it differs from the time of the file by more than two
            seconds when the file is opened, only its differences are used. ``None``: see the module.
        max_cache_bytes: maximum size of cached results with their keys. Values that expire first are deleted first,
            within a minute; a larger value is not kept. The maximum number of values is a 256th of it, at least 64.
    """

    def __init__(
        self, path: str, *, clock: Callable[[], float] | None = None, max_cache_bytes: int = 256 << 20
    ) -> None:
        self.path = path
        self._clock = uptime_s if clock is None else clock
        self._has_own_clock = clock is not None
        self._shift_s = 0.0
        self.max_cache_bytes = max_cache_bytes
        # In addition to the limiter, which does not count calls of other event loops and of `close`.
        self._lock = threading.Lock()
        # A limiter belongs to one event loop, and one file may be used by several; `id` keeps the names of two files
        # apart.
        self._turn: RunVar[anyio.CapacityLimiter] = RunVar(f"ferrule.sqlite.{id(self)}")
        self._held = _ProcessConnection()
        self._is_durable = True
        self._swept_at = 0.0
        # Most programs do not close a store, and since Python 3.13 a connection that is collected while open warns.
        # `__del__` would be too late: in a cycle of objects the connection may be finalized first.
        weakref.finalize(self, self._held.close).atexit = False

    async def run(self, work: Callable[[sqlite3.Connection, float], T], *, durable: bool = True) -> T:
        """Call ``work(connection, now)`` in a thread, with no other call in this process, and return its result.

        Args:
            work: must commit its changes; ``now`` is the time of the file in seconds since the epoch.
            durable: changes are on the disk when this returns.

        Raises:
            StoreNotWritable: the disk is full, or the file may only be read.
            OSError: the file cannot be used, or another process locked it for more than 30 seconds.
        """
        try:
            turn = self._turn.get()
        except LookupError:
            turn = anyio.CapacityLimiter(1)  # further calls wait on the event loop, not in a thread
            self._turn.set(turn)
        return await anyio.to_thread.run_sync(self._run, work, durable, limiter=turn)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._held.close()

    async def aclose(self) -> None:
        """Close the file, in a thread, because `close` waits for the thread that uses the file."""
        await anyio.to_thread.run_sync(self.close)

    @asynccontextmanager
    async def connected(self, *, timeout_s: float = _BUSY_TIMEOUT_S) -> AsyncGenerator[sqlite3.Connection]:
        """Yield a separate connection, which is opened in a thread and closed at the end.

        Args:
            timeout_s: seconds to wait for other processes.

        Raises:
            OSError: the file cannot be used.
        """
        held, lock, is_wanted = _ProcessConnection(), threading.Lock(), True

        def connect() -> None:
            with self._errors():
                connection = self._new(timeout_s)
            with lock:
                held.set(connection)
                if not is_wanted:
                    held.close()

        try:
            await anyio.to_thread.run_sync(connect)
            assert held.connection is not None
            yield held.connection
        finally:
            with lock:  # a cancelled caller does not wait for the thread, which then closes its connection itself
                is_wanted = False
                held.close()

    def _run(self, work: Callable[[sqlite3.Connection, float], T], durable: bool) -> T:
        with self._lock, self._errors():
            connection = self._open()
            if durable is not self._is_durable:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._is_durable = durable
            now = self._clock() + self._shift_s
            if now - self._swept_at >= _SWEEP_EVERY_S:
                self._swept_at = now
                with suppress(sqlite3.OperationalError):  # deleting needs space too: on a full disk, continue without
                    self._sweep(connection, now)
            return work(connection, now)

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Convert SQLite's errors about the file to `OSError` and `StoreNotWritable`."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)):
                raise  # a bug in Ferrule
            if getattr(error, "sqlite_errorcode", 0) in _NOT_WRITABLE:  # errors of the module itself have no code
                raise StoreNotWritable(f"The store {self.path} cannot be written to: {error}") from error
            raise OSError(f"The store {self.path} cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        connection = self._held.connection
        # After a fork: the parent's connection is left open, since closing it would drop the locks of the parent.
        if connection is None or self._held.pid != os.getpid():
            connection = self._new(_BUSY_TIMEOUT_S)
            try:
                self._shift_s = self._agreed_shift_s(connection)
            except BaseException:
                connection.close()
                raise
            self._held.set(connection)
            self._is_durable = True
        return connection

    def _agreed_shift_s(self, connection: sqlite3.Connection) -> float:
        """Return the seconds to add to the clock to get the time of the file; set that time if it is not set."""
        boot, uptime, clock = boot_id(), uptime_s(), self._clock()
        # In a transaction, so that two processes that open a new file at the same time agree on one time.
        own = clock if self._has_own_clock else time.time()
        with transaction(connection):
            row: Any = connection.execute("SELECT boot_id, started_at, seen_at FROM ferrule_clock").fetchone()
            if row is not None and row[0] == boot and row[1] + uptime >= row[2] - _CLOCK_TOLERANCE_S:
                started_at: float = row[1]
            else:
                # After a restart of the machine the clock may be behind: if time went back, expired rows would be valid
                # again.
                now = own if row is None else max(own, row[2])
                started_at = now - uptime
                connection.execute("INSERT OR REPLACE INTO ferrule_clock VALUES (1, ?, ?, ?)", (boot, started_at, now))
        shift_s = started_at + uptime - clock
        return 0.0 if self._has_own_clock and abs(shift_s) <= _CLOCK_TOLERANCE_S else shift_s

    def _new(self, timeout_s: float) -> sqlite3.Connection:
        if not self.path.startswith(":"):
            # Only the owner may read a new file: it contains session ids and arguments. SQLite gives its permissions to
            # the WAL files. An existing file must not be opened: POSIX drops all locks of a process on a file when the
            # process closes any descriptor of it.
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # `isolation_level=None`: transactions are explicit here. Threads: any of the pool may run a call, one at a
        # time.
        connection = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            self._begin_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")
            # Immediate: a transaction that begins with a read cannot wait for another writer and would fail as locked.
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            connection.execute(f"PRAGMA busy_timeout={round(timeout_s * 1000)}")
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _begin_wal(connection: sqlite3.Connection) -> None:
        """Switch to WAL mode; SQLite does not wait for another process that does the same, so wait here."""
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        for statement in _SWEEPS:
            connection.execute(statement, (now,))
        if not self._has_own_clock:
            connection.execute("UPDATE ferrule_clock SET seen_at = max(seen_at, ?)", (now,))
        count, size_bytes = connection.execute(_CACHE_SIZE).fetchone()
        most = most_entries(self.max_cache_bytes)
        if count > most or size_bytes > self.max_cache_bytes:
            connection.execute(_EVICT, (most, self.max_cache_bytes))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run a block in an immediate transaction: no other process writes meanwhile. An exception rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite may have rolled back already
            connection.execute("ROLLBACK")
        raise
