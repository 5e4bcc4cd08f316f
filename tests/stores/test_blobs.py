"""Blobs: the same promises from every implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule.stores.blobs import BlobStore, MemoryBlobs, ValueTooLarge
from ferrule.stores.sqlite.store import SqliteBlobs, SqliteFile

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Make = Callable[[Callable[[], float]], BlobStore]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return lambda clock: MemoryBlobs(clock=clock)
    return lambda clock: SqliteBlobs(SqliteFile(str(tmp_path / "s.db"), clock=clock))


async def test_stored_bytes_are_returned_unchanged(make):
    blobs = make(lambda: 0)
    assert await blobs.get("k") is None
    await blobs.put("k", bytes(range(256)), ttl_s=9)
    assert await blobs.get("k") == bytes(range(256))
    await blobs.put("k", b"", ttl_s=9)
    assert await blobs.get("k") == b""


async def test_every_key_expires(make):
    now = [0.0]
    blobs = make(lambda: now[0])
    await blobs.put("k", b"x", ttl_s=10)
    now[0] = 10
    assert await blobs.get("k") is None
    await blobs.put("k", b"y", ttl_s=10)
    assert await blobs.get("k") == b"y"


async def test_memory_is_bounded_by_size():
    blobs = MemoryBlobs(max_bytes=10, clock=lambda: 0)
    for number in range(5):
        await blobs.put(str(number), b"xxxx", ttl_s=9)
    assert [await blobs.get(str(number)) for number in range(5)] == [None, None, None, b"xxxx", b"xxxx"]


async def test_memory_is_bounded_in_number_by_what_an_entry_costs():
    """Empty values under short keys take a few hundred bytes each."""
    blobs = MemoryBlobs(max_bytes=25_600, clock=lambda: 0)
    for number in range(1000):
        await blobs.put(str(number), b"", ttl_s=9)
    assert len(blobs) == 100
    assert [await blobs.get(key) for key in ("899", "900", "999")] == [None, b"", b""]


async def test_a_value_that_memory_cannot_keep_is_refused_and_others_stay():
    """The caller learns of it at once, and not when the value is asked for."""
    blobs = MemoryBlobs(max_bytes=1000, clock=lambda: 0)
    await blobs.put("k", b"x" * 400, ttl_s=9)
    await blobs.put("other", b"x" * 400, ttl_s=9)
    for value in (b"y" * 1000, b"y" * 10_000):
        with pytest.raises(ValueTooLarge, match=rf"{len(value)} bytes is more than the 1000"):
            await blobs.put("k", value, ttl_s=9)
    assert await blobs.get("k") == await blobs.get("other") == b"x" * 400


async def test_expired_values_are_deleted_before_others():
    now = [0.0]
    blobs = MemoryBlobs(max_bytes=10, clock=lambda: now[0])
    await blobs.put("a", b"xxxx", ttl_s=100)
    await blobs.put("b", b"xxxx", ttl_s=10)
    now[0] = 10
    await blobs.put("c", b"xxxx", ttl_s=100)
    assert [await blobs.get(key) for key in "abc"] == [b"xxxx", None, b"xxxx"]


async def test_values_that_are_replaced_leave_nothing_behind():
    blobs = MemoryBlobs(clock=lambda: 0)
    for number in range(10_000):
        await blobs.put("k", b"x", ttl_s=number)
    assert len(blobs._expiry) < 200
