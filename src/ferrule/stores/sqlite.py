"""One-time marks, blobs and task records in one SQLite file, shared by all processes of a machine.

The file is in WAL mode, so that readers and the one writer do not wait for each other, and every commit reaches the
disk before its call returns (``synchronous=FULL``): a mark that a power cut could take back would let an effect happen
twice. A claim is one statement, so no other process can come between looking and taking. Every row has an expiry;
expired ones are taken away in passing.

Calls run in worker threads, one at a time per process. The file is opened on first use, and again in a process that
was forked: a connection must not cross a fork. Not for network file systems, whose locks SQLite cannot trust.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import anyio.to_thread

from ferrule.stores.marks import Mark
from ferrule.stores.sqlite_tasks import TASK_TABLES, SqliteTasks
from ferrule.stores.store import Store, StoreUrlError

__all__ = ["SqliteBlobs", "SqliteFile", "SqliteMarks", "open_sqlite"]

T = TypeVar("T")

_BUSY_TIMEOUT_S: Final = 30.0
_SWEEP_EVERY_S: Final = 60.0

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS ferrule_marks (key TEXT PRIMARY KEY, expires_at REAL NOT NULL, value BLOB) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ferrule_marks_expiry ON ferrule_marks (expires_at);
CREATE TABLE IF NOT EXISTS ferrule_blobs (key TEXT PRIMARY KEY, expires_at REAL NOT NULL, value BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS ferrule_blobs_expiry ON ferrule_blobs (expires_at);
"""


class SqliteFile:
    """One file, opened on first use; what `SqliteMarks` and `SqliteBlobs` share.

    Args:
        path: of the file; its folder must exist.
        clock: seconds since the epoch, the same for all processes; for tests.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._swept_at = 0.0

    async def run(self, work: Callable[[sqlite3.Connection, float], T]) -> T:
        """``work(connection, now)`` in a thread, alone in this process.

        Raises:
            sqlite3.Error: the file cannot be used.
        """
        return await anyio.to_thread.run_sync(self._run, work)

    def close(self) -> None:
        """Close the file; it is opened again when used again."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection, float], T]) -> T:
        with self._lock:
            connection = self._open()
            now = self.clock()
            if now - self._swept_at >= _SWEEP_EVERY_S:
                self._swept_at = now
                connection.execute("DELETE FROM ferrule_marks WHERE expires_at <= ?", (now,))
                connection.execute("DELETE FROM ferrule_blobs WHERE expires_at <= ?", (now,))
                connection.execute("DELETE FROM ferrule_tasks WHERE expires_at <= ?", (now,))
            return work(connection, now)

    def _open(self) -> sqlite3.Connection:
        pid = os.getpid()
        if self._connection is None or self._pid != pid:
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.executescript(_TABLES + TASK_TABLES)
            except BaseException:
                connection.close()
                raise
            self._connection, self._pid = connection, pid
        return self._connection


class SqliteMarks:
    """`ferrule.stores.marks.OneTimeMarks` in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """See `OneTimeMarks`."""

        def work(connection: sqlite3.Connection, now: float) -> Mark:
            claimed = connection.execute(
                "INSERT INTO ferrule_marks (key, expires_at, value) VALUES (?, ?, NULL) ON CONFLICT (key) DO UPDATE "
                "SET expires_at = excluded.expires_at, value = NULL WHERE ferrule_marks.expires_at <= ?",
                (key, now + ttl_s, now),
            )
            if claimed.rowcount == 1:
                return Mark("mine")
            row: Any = connection.execute("SELECT value FROM ferrule_marks WHERE key = ?", (key,)).fetchone()
            if row is None or row[0] is None:  # gone between the two: swept by another process, and nobody's effect
                return Mark("running")
            return Mark("done", bytes(row[0]))

        return await self._file.run(work)

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `OneTimeMarks`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO ferrule_marks (key, expires_at, value) VALUES (?, ?, ?)",
                (key, now + ttl_s, value),
            )

        await self._file.run(work)


class SqliteBlobs:
    """`ferrule.stores.blobs.BlobStore` in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `BlobStore`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO ferrule_blobs (key, expires_at, value) VALUES (?, ?, ?)",
                (key, now + ttl_s, value),
            )

        await self._file.run(work)

    async def get(self, key: str) -> bytes | None:
        """See `BlobStore`."""

        def work(connection: sqlite3.Connection, now: float) -> bytes | None:
            row: Any = connection.execute(
                "SELECT value FROM ferrule_blobs WHERE key = ? AND expires_at > ?", (key, now)
            ).fetchone()
            return None if row is None else bytes(row[0])

        return await self._file.run(work)


def open_sqlite(url: str) -> Store:
    """The store in a file: ``sqlite:///relative/path`` or ``sqlite:////absolute/path``.

    Raises:
        StoreUrlError: it names no file, a host, or options, of which there are none.
    """
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if not path or parts.netloc or parts.query or parts.fragment:
        raise StoreUrlError(f"{url!r} is not sqlite:///path")
    file = SqliteFile(path)
    return Store(SqliteMarks(file), SqliteBlobs(file), is_shared=True, tasks=SqliteTasks(file))
