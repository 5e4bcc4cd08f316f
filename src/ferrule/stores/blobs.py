"""Small opaque values under keys, with an expiry: states that are too large to travel with a client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["BlobStore", "MemoryBlobs"]


class BlobStore(Protocol):
    """Bytes under text keys; every key expires."""

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Keep ``value`` under ``key`` for ``ttl_s`` seconds; replaces what was there."""
        ...

    async def get(self, key: str) -> bytes | None:
        """The value, ``None`` when there is none or it expired."""
        ...


class MemoryBlobs:
    """Blobs of one process, bounded in number and total size.

    Args:
        max_bytes: total size; the oldest go first.
        clock: seconds, for tests.
    """

    def __init__(self, *, max_bytes: int = 64 * 1024 * 1024, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._size = 0
        self._blobs: dict[str, tuple[float, bytes]] = {}

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `BlobStore`."""
        self._drop(key)
        while self._blobs and self._size + len(value) > self._max_bytes:
            self._drop(next(iter(self._blobs)))
        self._blobs[key] = (self._clock() + ttl_s, value)
        self._size += len(value)

    async def get(self, key: str) -> bytes | None:
        """See `BlobStore`."""
        found = self._blobs.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            self._drop(key)
            return None
        return found[1]

    def _drop(self, key: str) -> None:
        found = self._blobs.pop(key, None)
        if found is not None:
            self._size -= len(found[1])
