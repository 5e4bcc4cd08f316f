"""Bounds of caches; what every cache must do is in the contract."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ferrule.stores.cache import MemoryCacheStore
from ferrule.stores.sqlite.store import SqliteCache, SqliteFile

pytestmark = pytest.mark.anyio


async def test_memory_is_bounded_by_size_and_the_longest_unused_go_first():
    """Keys count, too: many small values must not fill the memory either."""
    cache = MemoryCacheStore(max_bytes=100, clock=lambda: 0)
    for key in ("a", "b", "c"):
        await cache.put("g", key, b"x" * 30, ttl_s=9)
    assert await cache.get("g", "a") is not None
    await cache.put("g", "d", b"x" * 30, ttl_s=9)
    assert [await cache.get("g", key) is not None for key in "abcd"] == [True, False, True, True]
    await cache.put("g", "k" * 90, b"", ttl_s=9)
    assert len(cache) == 1
    await cache.put("g", "large", b"x" * 200, ttl_s=9)
    assert len(cache) == 1  # it costs no other its place
    await cache.put("g", "k" * 90, b"x" * 200, ttl_s=9)
    assert len(cache) == 0  # but what was there is no longer true
    many = MemoryCacheStore(max_bytes=25_600)
    for number in range(1000):
        await many.put("g", str(number), b"", ttl_s=9)
    assert len(many) == 100
    nothing = MemoryCacheStore(max_bytes=0)
    await nothing.put("g", "k", b"x", ttl_s=9)
    assert await nothing.get("g", "k") is None


async def test_a_replaced_or_dropped_value_frees_its_memory():
    cache = MemoryCacheStore(max_bytes=100, clock=lambda: 0)
    for _ in range(50):
        await cache.put("g", "k", b"x" * 60, ttl_s=9)
        await cache.drop("g")
        await cache.put("h", "k", b"x" * 60, ttl_s=9)
        await cache.drop("h")
    await cache.put("g", "a", b"x" * 45, ttl_s=9)
    await cache.put("g", "b", b"x" * 45, ttl_s=9)
    assert len(cache) == 2


async def test_a_file_is_bounded_by_size_and_swept_of_what_expired(tmp_path: Path):
    """Once a minute; what expires first goes first."""
    now = [0.0]
    file = SqliteFile(str(tmp_path / "s.db"), clock=lambda: now[0], max_cache_bytes=250)
    cache = SqliteCache(file)
    for number in range(5):
        await cache.put("g", str(number), b"x" * 100, ttl_s=1000 + number)
    await cache.put("g", "short", b"x", ttl_s=10)
    await cache.put("g", "large", b"x" * 300, ttl_s=2000)
    now[0] = 61

    def rows(connection: sqlite3.Connection, now: float) -> list[str]:
        return [row[0] for row in connection.execute("SELECT key FROM ferrule_cache ORDER BY key")]

    assert await file.run(rows) == ["3", "4"]
    await cache.put("g", "4", b"x" * 300, ttl_s=2000)  # not kept, and the one before is no longer true
    assert await file.run(rows) == ["3"]
    file.max_cache_bytes = 25_600
    for number in range(200):
        await cache.put("g", f"n{number:03}", b"", ttl_s=3000 + number)
    now[0] = 122
    assert await file.run(rows) == [f"n{number:03}" for number in range(100, 200)]
    file.close()


async def test_many_values_beyond_the_bound_leave_a_file_in_one_transaction(tmp_path: Path):
    """With one for each, a call that must be on the disk waits for the disk thousands of times."""
    now = [0.0]
    file = SqliteFile(str(tmp_path / "s.db"), clock=lambda: now[0], max_cache_bytes=25_600)
    cache = SqliteCache(file)
    for number in range(300):
        await cache.put("g", str(number), b"", ttl_s=1000)
    said: list[str] = []
    await file.run(lambda connection, now: connection.set_trace_callback(said.append), durable=False)
    now[0] = 61
    left = await file.run(
        lambda connection, now: connection.execute("SELECT count(*) FROM ferrule_cache").fetchone()[0]
    )
    assert left == 100
    assert sum("DELETE FROM ferrule_cache" in statement for statement in said) == 2  # what has expired, and the rest
    file.close()
