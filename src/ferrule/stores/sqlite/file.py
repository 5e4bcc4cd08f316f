"""One SQLite file for all processes of a machine: opened when used, in WAL mode, swept in passing.

In WAL mode readers and the one writer do not wait for each other. A change is either *durable*, then it is on the disk
before its call returns (``synchronous=FULL``, a few milliseconds), or it is not, then it survives ``kill -9`` of every
process but not a power cut in the next seconds (``synchronous=NORMAL``, fifty microseconds). The file is whole in both
cases. A new file can be read by its owner only; one that is there keeps its permissions.

Time is the file's own: what all processes count with is the time since the machine was started, and the file holds
where that stands in the calendar. The first process after a start of the machine says so; the clocks of all others
count for nothing. So no process ends what another keeps because its clock is wrong, or because it was set.

Calls run in worker threads, one at a time per process. The file is opened again in a process that was forked: a
connection must not cross a fork. Not for network file systems, whose locks SQLite cannot trust.
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

_BUSY_TIMEOUT_S: Final = 30.0
_SWEEP_EVERY_S: Final = 60.0

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
"""Every row has an expiry. An open task is one that has a lease, run out or not.

How many tasks there are, in all (under no name) and of each owner, is counted as they come and go, by triggers: any
process may add and delete them, one of release 0.1 too.

The clock's one row says when the machine was started, in seconds since the epoch, and what time it was when somebody
last looked.
"""

_KINDS: Final = ("marks", "blobs", "tasks", "sessions", "events", "messages", "cache", "rates")

_SWEEPS: Final = tuple(f"DELETE FROM ferrule_{kind} WHERE expires_at <= ?" for kind in _KINDS)


class _Held:
    """A connection, and the process that may use it."""

    __slots__ = ("connection", "pid")

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.pid = 0

    def hold(self, connection: sqlite3.Connection) -> None:
        self.connection, self.pid = connection, os.getpid()

    def close(self) -> None:
        if self.connection is not None and self.pid == os.getpid():
            self.connection.close()
        self.connection = None


class SqliteFile:
    """One file, opened on first use; what the stores in it share.

    Args:
        path: of the file; its folder must exist.
        clock: seconds since the epoch; for tests. Of one that differs from the time of the file by more than two
            seconds when the file is opened, only the differences count. ``None``: see the module.
        max_cache_bytes: of the results kept for use again, with their keys; what expires first goes first, within a
            minute, and a larger one is not kept. There may be one for each 256 of these bytes, or 64.
    """

    def __init__(
        self, path: str, *, clock: Callable[[], float] | None = None, max_cache_bytes: int = 256 << 20
    ) -> None:
        self.path = path
        self._clock = uptime_s if clock is None else clock
        self._tells_the_time = clock is not None
        self._shift_s = 0.0
        self.max_cache_bytes = max_cache_bytes
        self._lock = threading.Lock()
        self._turn: RunVar[anyio.CapacityLimiter] = RunVar(f"ferrule.sqlite.{id(self)}")
        self._held = _Held()
        self._is_durable = True
        self._swept_at = 0.0
        # A store lives as long as its server and mostly nobody closes it; since Python 3.13 an open connection warns. A
        # `__del__` would come too late in a cycle: the connection may be finalized before it.
        weakref.finalize(self, self._held.close).atexit = False

    async def run(self, work: Callable[[sqlite3.Connection, float], T], *, durable: bool = True) -> T:
        """``work(connection, now)`` in a thread, alone in this process.

        Args:
            work: commits what it changed.
            durable: a change is on the disk when this returns.

        Raises:
            StoreNotWritable: the disk is full, or the file may only be read.
            OSError: the file cannot be used, or another process held it for too long.
        """
        try:
            turn = self._turn.get()
        except LookupError:
            turn = anyio.CapacityLimiter(1)  # waiting takes no thread
            self._turn.set(turn)
        return await anyio.to_thread.run_sync(self._run, work, durable, limiter=turn)

    def close(self) -> None:
        """Close the file; it is opened again when used again."""
        with self._lock:
            self._held.close()

    async def aclose(self) -> None:
        """`close`, which waits for the thread that uses the file, in a thread."""
        await anyio.to_thread.run_sync(self.close)

    @asynccontextmanager
    async def connected(self, *, timeout_s: float = _BUSY_TIMEOUT_S) -> AsyncGenerator[sqlite3.Connection]:
        """A connection of its own, opened in a thread and closed at the end.

        Args:
            timeout_s: seconds to wait for other processes.

        Raises:
            OSError: the file cannot be used.
        """
        held, lock, is_wanted = _Held(), threading.Lock(), True

        def connect() -> None:
            with self._errors():
                connection = self._new(timeout_s)
            with lock:
                held.hold(connection)
                if not is_wanted:
                    held.close()

        try:
            await anyio.to_thread.run_sync(connect)
            assert held.connection is not None
            yield held.connection
        finally:
            with lock:  # whoever is cancelled does not wait for the thread, which then closes what it opens
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
                with suppress(sqlite3.OperationalError):  # no room to write down what is deleted: work goes on
                    self._sweep(connection, now)
            return work(connection, now)

    @contextmanager
    def _errors(self) -> Generator[None]:
        """What SQLite says of the file, under the name that callers of a store know."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)):
                raise  # a mistake of ours
            if getattr(error, "sqlite_errorcode", 0) in _NOT_WRITABLE:  # errors of the module itself have no code
                raise StoreNotWritable(f"The store {self.path} cannot be written to: {error}") from error
            raise OSError(f"The store {self.path} cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        connection = self._held.connection
        if connection is None or self._held.pid != os.getpid():
            connection = self._new(_BUSY_TIMEOUT_S)
            try:
                self._shift_s = self._agreed_shift_s(connection)
            except BaseException:
                connection.close()
                raise
            self._held.hold(connection)
            self._is_durable = True
        return connection

    def _agreed_shift_s(self, connection: sqlite3.Connection) -> float:
        """Return what to add to the clock, so that it tells the time of the file; sets that time if nobody has."""
        boot, uptime, clock = boot_id(), uptime_s(), self._clock()
        own = clock if self._tells_the_time else time.time()
        with transaction(connection):
            row: Any = connection.execute("SELECT boot_id, started_at, seen_at FROM ferrule_clock").fetchone()
            if row is not None and row[0] == boot and row[1] + uptime >= row[2] - _CLOCK_TOLERANCE_S:
                started_at: float = row[1]
            else:
                now = own if row is None else max(own, row[2])
                started_at = now - uptime
                connection.execute("INSERT OR REPLACE INTO ferrule_clock VALUES (1, ?, ?, ?)", (boot, started_at, now))
        shift_s = started_at + uptime - clock
        return 0.0 if self._tells_the_time and abs(shift_s) <= _CLOCK_TOLERANCE_S else shift_s

    def _new(self, timeout_s: float) -> sqlite3.Connection:
        if not self.path.startswith(":"):
            # A new file is its owner's alone: session ids and arguments are in it. Those beside it get its permissions.
            # Never one that is there: closing it would drop every lock that this process has on it.
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            self._begin_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            connection.execute(f"PRAGMA busy_timeout={round(timeout_s * 1000)}")
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _begin_wal(connection: sqlite3.Connection) -> None:
        """The change to WAL does not wait for other processes that are about the same: wait here."""
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
        if not self._tells_the_time:
            connection.execute("UPDATE ferrule_clock SET seen_at = max(seen_at, ?)", (now,))
        rows: Any = connection.execute(
            "SELECT bundle, key, length(bundle) + length(key) + length(value) FROM ferrule_cache "
            "ORDER BY expires_at DESC"
        ).fetchall()
        size_bytes, most = 0, most_entries(self.max_cache_bytes)
        for number, (bundle, key, length) in enumerate(rows):
            size_bytes += length
            if size_bytes > self.max_cache_bytes or number >= most:
                connection.execute("DELETE FROM ferrule_cache WHERE bundle = ? AND key = ?", (bundle, key))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Nobody else writes from here to the end; an exception undoes everything."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have undone everything already
            connection.execute("ROLLBACK")
        raise
