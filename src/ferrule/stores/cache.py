"""Cached results: bytes under a group and a key, each with an expiry.

A group (such as all results of ``tools/list``) can be dropped at once, at a cost that does not depend on its size. A
cache may drop values at any time.

The principal that may see a value must be part of its key: the store compares keys and does not know principals.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from ferrule.stores.blobs import most_entries

__all__ = ["DEFAULT_MAX_CACHE_BYTES", "CacheStore", "MemoryCacheStore"]

# A cache is never needed for correctness, so that it may be small.
DEFAULT_MAX_CACHE_BYTES: Final = 32 << 20


class CacheStore(Protocol):
    """Values that may be dropped at any time; several processes may share them."""

    async def get(self, group: str, key: str) -> bytes | None:
        """Return a value; ``None`` if there is none, it has expired, or its group was dropped."""
        ...

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value for at most ``ttl_s`` seconds. The old value is deleted, even if the new one is not kept.

        Raises:
            OSError: the store cannot be reached or written to.
        """
        ...

    async def drop(self, group: str) -> None:
        """Delete all values of a group."""
        ...


class MemoryCacheStore:
    """A `CacheStore` in the memory of one process; the least recently used values are deleted first.

    Args:
        max_bytes: maximum size of all keys and values together; a larger value is not kept, and deletes no other. The
            maximum number of values is a 256th of it, at least 64.
        clock: returns seconds; for tests.
    """

    def __init__(
        self, *, max_bytes: int = DEFAULT_MAX_CACHE_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._max_entries = most_entries(max_bytes)
        self._clock = clock
        self._size_bytes = 0
        self._entries: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, group: str, key: str) -> bytes | None:
        """Return a value; see `CacheStore.get`."""
        found = self._entries.get((group, key))
        if found is None:
            return None
        if found[0] <= self._clock():
            self._forget((group, key))
            return None
        self._entries.move_to_end((group, key))
        return found[1]

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value for at most ``ttl_s`` seconds; see `CacheStore.put`."""
        self._forget((group, key))
        # A value that does not fit must not push all others out.
        size = _size(group, key, value)
        if size > self._max_bytes or ttl_s <= 0:
            return
        self._entries[group, key] = (self._clock() + ttl_s, value)
        self._size_bytes += size
        while self._size_bytes > self._max_bytes or len(self._entries) > self._max_entries:
            self._forget(next(iter(self._entries)))

    async def drop(self, group: str) -> None:
        """Delete all values of a group; see `CacheStore.drop`."""
        for name in [name for name in self._entries if name[0] == group]:
            self._forget(name)

    def _forget(self, name: tuple[str, str]) -> None:
        found = self._entries.pop(name, None)
        if found is not None:
            self._size_bytes -= _size(*name, found[1])


def _size(group: str, key: str, value: bytes) -> int:
    return len(group) + len(key) + len(value)
