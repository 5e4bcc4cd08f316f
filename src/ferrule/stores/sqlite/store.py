"""The store in one SQLite file, for the processes of one machine: ``sqlite:///path``.

Marks, blobs and task records are on the disk before their call returns: if a power failure could undo a mark, an effect
could happen twice. Sessions, events, messages, cached results and rates do not wait for the disk. A claim is one
statement or one immediate transaction, so that no other process can write between its read and its write. Every row has
an expiry; expired rows are deleted at intervals.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any
from urllib.parse import unquote

from ferrule.stores.marks import Mark
from ferrule.stores.rates import next_full_at
from ferrule.stores.sqlite.file import SqliteFile, transaction
from ferrule.stores.sqlite.sessions import SqliteChannel, SqliteEvents, SqliteSessions
from ferrule.stores.sqlite.tasks import SqliteTasks
from ferrule.stores.store import Store, StoreUrlError
from ferrule.stores.urls import split_url, without_password

__all__ = [
    "SqliteBlobs",
    "SqliteCache",
    "SqliteChannel",
    "SqliteEvents",
    "SqliteFile",
    "SqliteMarks",
    "SqliteRateLimits",
    "SqliteSessions",
    "SqliteTasks",
    "open_sqlite",
]


class SqliteMarks:
    """`ferrule.stores.marks.OneTimeMarks` in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim a key and return its state; see `OneTimeMarks.begin`."""

        def work(connection: sqlite3.Connection, now: float) -> Mark:
            claimed = connection.execute(
                "INSERT INTO ferrule_marks (key, expires_at, value) VALUES (?, ?, NULL) ON CONFLICT (key) DO UPDATE "
                "SET expires_at = excluded.expires_at, value = NULL WHERE ferrule_marks.expires_at <= ?",
                (key, now + ttl_s, now),
            )
            if claimed.rowcount == 1:
                return Mark("mine")
            # In a second statement: the first one claims atomically, and only its loser needs the value.
            row: Any = connection.execute("SELECT value FROM ferrule_marks WHERE key = ?", (key,)).fetchone()
            if row is None or row[0] is None:  # None: another process deleted the expired row after the INSERT
                return Mark("running")
            return Mark("done", bytes(row[0]))

        return await self._file.run(work)

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``; a later outcome replaces it; see `OneTimeMarks.finish`."""

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
        """Store a value, in place of an older one; see `BlobStore.put`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            if ttl_s <= 0:
                connection.execute("DELETE FROM ferrule_blobs WHERE key = ?", (key,))
                return
            connection.execute(
                "INSERT OR REPLACE INTO ferrule_blobs (key, expires_at, value) VALUES (?, ?, ?)",
                (key, now + ttl_s, value),
            )

        await self._file.run(work)

    async def get(self, key: str) -> bytes | None:
        """Return the value; see `BlobStore.get`."""

        def work(connection: sqlite3.Connection, now: float) -> bytes | None:
            row: Any = connection.execute(
                "SELECT value FROM ferrule_blobs WHERE key = ? AND expires_at > ?", (key, now)
            ).fetchone()
            return None if row is None else bytes(row[0])

        return await self._file.run(work)


class SqliteCache:
    """`ferrule.stores.cache.CacheStore` in a file; its size is an option of `SqliteFile`."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def get(self, group: str, key: str) -> bytes | None:
        """Return a value; see `CacheStore.get`."""

        def work(connection: sqlite3.Connection, now: float) -> bytes | None:
            row: Any = connection.execute(
                "SELECT value FROM ferrule_cache WHERE bundle = ? AND key = ? AND expires_at > ?", (group, key, now)
            ).fetchone()
            return None if row is None else bytes(row[0])

        return await self._file.run(work, durable=False)

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value for at most ``ttl_s`` seconds; see `CacheStore.put`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            if ttl_s <= 0 or len(group) + len(key) + len(value) > self._file.max_cache_bytes:
                connection.execute("DELETE FROM ferrule_cache WHERE bundle = ? AND key = ?", (group, key))
                return
            connection.execute(
                "INSERT OR REPLACE INTO ferrule_cache (bundle, key, expires_at, value) VALUES (?, ?, ?, ?)",
                (group, key, now + ttl_s, value),
            )

        await self._file.run(work, durable=False)

    async def drop(self, group: str) -> None:
        """Delete all values of a group; see `CacheStore.drop`."""

        def work(connection: sqlite3.Connection, now: float) -> None:
            connection.execute("DELETE FROM ferrule_cache WHERE bundle = ?", (group,))

        await self._file.run(work, durable=False)


class SqliteRateLimits:
    """`ferrule.stores.rates.RateLimitStore` in a file; a row expires when its bucket is full."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one token from a bucket; see `RateLimitStore.take`."""
        return await self.spend(key, size=size, per_s=per_s, tokens=1)

    async def spend(self, key: str, *, size: int, per_s: float, tokens: int, anyway: bool = False) -> float:
        """Take several tokens from a bucket; see `SpendsTokens.spend`."""

        def work(connection: sqlite3.Connection, now: float) -> float:
            with transaction(connection):
                row: Any = connection.execute("SELECT expires_at FROM ferrule_rates WHERE key = ?", (key,)).fetchone()
                before = now if row is None else row[0]
                full_at, wait = next_full_at(before, now, size=size, per_s=per_s, tokens=tokens, anyway=anyway)
                # A refused request changes nothing, so that a flood of them does not write.
                if full_at != before:
                    connection.execute(
                        "INSERT OR REPLACE INTO ferrule_rates (key, expires_at) VALUES (?, ?)", (key, full_at)
                    )
            return wait

        return await self._file.run(work, durable=False)


def open_sqlite(url: str) -> Store:
    """Return the store in a file: ``sqlite:///relative/path`` or ``sqlite:////absolute/path``.

    Raises:
        StoreUrlError: the URL has no path or an invalid one, or it has a host, a query or a fragment.
    """
    parts = split_url(url)
    path = "" if parts is None else unquote(parts.path.removeprefix("/"))
    # `sqlite://jobs.db` (two slashes) has a host and no path: a frequent mistake.
    if parts is None or not path or "\0" in path or parts.netloc or parts.query or parts.fragment:
        raise StoreUrlError(f"{without_password(url)!r} is not sqlite:///path")
    file = SqliteFile(path)

    def check() -> None:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise StoreUrlError(f"{url!r}: the folder {folder} does not exist, so that no store can be kept in it")
        if os.path.isdir(path):
            raise StoreUrlError(f"{url!r}: {path} is a folder, and not a file")
        exists = os.path.exists(path)
        # A new file needs a folder in which files can be created.
        if not os.access(path, os.R_OK | os.W_OK) if exists else not os.access(folder, os.W_OK | os.X_OK):
            raise StoreUrlError(f"{url!r}: this user may not write to {path if exists else folder}")

    return Store(
        SqliteMarks(file),
        SqliteBlobs(file),
        is_shared=True,
        tasks=SqliteTasks(file),
        channel=SqliteChannel(file),
        sessions=SqliteSessions(file),
        events=SqliteEvents(file),
        cache=SqliteCache(file),
        rates=SqliteRateLimits(file),
        aclose=file.aclose,
        check=check,
    )
