"""Marks, small values, sessions, cached results and rates in the project's database."""

from __future__ import annotations

from typing import Any, Final

from ferrule.django.models import BlobRow, CacheRow, MarkRow, RateRow, SessionRow, StoreRow
from ferrule.django.store.database import Database, digest, upsert
from ferrule.stores.marks import Mark
from ferrule.stores.rates import next_full_at

__all__ = ["DjangoBlobs", "DjangoCache", "DjangoMarks", "DjangoRateLimits", "DjangoSessions"]

_MOST_ATTEMPTS: Final = 100


class DjangoMarks:
    """`ferrule.stores.marks.OneTimeMarks` in a database.

    A mark that is begun or finished while the transaction of the project is open is part of it: it commits, and is
    rolled back, with the project's own changes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim a key and return its state; see `OneTimeMarks.begin`."""
        name = digest(key)

        def work(now: float) -> Mark:
            values = {"key": name, "expires_at": now + ttl_s, "value": None}
            # On PostgreSQL this waits for a transaction that holds the same key, and is right after its rollback too.
            if upsert(self._database.using, MarkRow, ("key",), values, replaces=now):
                return Mark("mine")
            value = self._database.rows(MarkRow).filter(key=name).values_list("value", flat=True).first()
            # None: running, or deleted since the first statement.
            return Mark("running") if value is None else Mark("done", bytes(value))

        return await self._database.run(work)

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``; a later outcome replaces it; see `OneTimeMarks.finish`."""
        await _put(self._database, MarkRow, key, value, ttl_s)


class DjangoBlobs:
    """`ferrule.stores.blobs.BlobStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value, in place of an older one; see `BlobStore.put`."""
        if ttl_s <= 0:
            await _delete(self._database, BlobRow, key)
        else:
            await _put(self._database, BlobRow, key, value, ttl_s)

    async def get(self, key: str) -> bytes | None:
        """Return the value; see `BlobStore.get`."""
        name = digest(key)

        def work(now: float) -> bytes | None:
            found = self._database.rows(BlobRow).filter(key=name, expires_at__gt=now)
            return _bytes(found.values_list("value", flat=True).first())

        return await self._database.run(work)


class DjangoSessions:
    """`ferrule.stores.sessions.SessionStore` in a database.

    A session may exist for a tenth longer than its idle time, so that not every read of it must write.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Store a value and restart its idle time; see `SessionStore.put`."""
        await _put(self._database, SessionRow, session_id, value, idle_s * 1.1)

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return a value and restart its idle time of ``idle_s`` seconds; see `SessionStore.get`."""
        name = digest(session_id)

        def work(now: float) -> bytes | None:
            rows = self._database.rows(SessionRow).filter(key=name, expires_at__gt=now)
            found = rows.values_list("value", "expires_at").first()
            if found is None:
                return None
            # Written only when the tenth is used up, or when another idle time was configured meanwhile.
            if not now + idle_s <= found[1] <= now + idle_s * 1.1:
                rows.update(expires_at=now + idle_s * 1.1)
            return bytes(found[0])

        return await self._database.run(work)

    async def delete(self, session_id: str) -> None:
        """Delete a value; see `SessionStore.delete`."""
        await _delete(self._database, SessionRow, session_id)


class DjangoCache:
    """`ferrule.stores.cache.CacheStore` in a database; its size is an option of `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, group: str, key: str) -> bytes | None:
        """Return a value; see `CacheStore.get`."""

        def work(now: float) -> bytes | None:
            found = self._database.rows(CacheRow).filter(bundle=digest(group), key=digest(key), expires_at__gt=now)
            return _bytes(found.values_list("value", flat=True).first())

        return await self._database.run(work)

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value for at most ``ttl_s`` seconds; see `CacheStore.put`."""
        names = {"bundle": digest(group), "key": digest(key)}
        size = len(group) + len(key) + len(value)

        def work(now: float) -> None:
            if ttl_s <= 0 or size > self._database.max_cache_bytes:
                self._database.rows(CacheRow).filter(**names).delete()
                return
            values = {**names, "size": size, "expires_at": now + ttl_s, "value": value}
            upsert(self._database.using, CacheRow, ("bundle", "key"), values)

        await self._database.run(work)

    async def drop(self, group: str) -> None:
        """Delete all values of a group; see `CacheStore.drop`."""

        def work(now: float) -> None:
            self._database.rows(CacheRow).filter(bundle=digest(group)).delete()

        await self._database.run(work)


class DjangoRateLimits:
    """`ferrule.stores.rates.RateLimitStore` in a database; a row expires when its bucket is full."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one token from a bucket; see `RateLimitStore.take`."""
        return await self.spend(key, size=size, per_s=per_s, tokens=1)

    async def spend(self, key: str, *, size: int, per_s: float, tokens: int, anyway: bool = False) -> float:
        """Take several tokens from a bucket; see `SpendsTokens.spend`."""
        name = digest(key)

        def work(now: float) -> float:
            for _ in range(_MOST_ATTEMPTS):
                rows = self._database.rows(RateRow).filter(key=name)
                before = rows.values_list("expires_at", flat=True).first()
                full_at, wait = next_full_at(
                    now if before is None else before, now, size=size, per_s=per_s, tokens=tokens, anyway=anyway
                )
                # A refused request changes nothing, so that a flood of them does not write.
                if full_at == before or (before is None and wait):
                    return wait
                if before is None:
                    values = {"key": name, "expires_at": full_at}
                    changed = upsert(self._database.using, RateRow, ("key",), values, replaces=float("-inf"))
                else:
                    changed = rows.filter(expires_at=before).update(expires_at=full_at) == 1
                if changed:
                    return wait
            raise OSError("The rate limit is asked by too many processes at once")  # callers then count by themselves

        return await self._database.run(work)


async def _put(database: Database, kind: type[StoreRow], key: str, value: bytes, life_s: float) -> None:
    name = digest(key)

    def work(now: float) -> None:
        upsert(database.using, kind, ("key",), {"key": name, "expires_at": now + life_s, "value": value})

    await database.run(work)


async def _delete(database: Database, kind: type[StoreRow], key: str) -> None:
    name = digest(key)

    def work(now: float) -> None:
        database.rows(kind).filter(key=name).delete()

    await database.run(work)


def _bytes(value: Any) -> bytes | None:
    """Return a value of a binary column, which some drivers read as a view of memory."""
    return None if value is None else bytes(value)
