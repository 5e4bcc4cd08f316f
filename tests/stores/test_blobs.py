"""Blobs: the same promises from every implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule.stores.blobs import BlobStore, MemoryBlobs
from ferrule.stores.sqlite import SqliteBlobs, SqliteFile

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Make = Callable[[Callable[[], float]], BlobStore]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return lambda clock: MemoryBlobs(clock=clock)
    return lambda clock: SqliteBlobs(SqliteFile(str(tmp_path / "s.db"), clock=clock))


async def test_bytes_come_back_as_they_were(make):
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
