"""Results that a server allows to be kept: for how long, and for whom (2026-07-28, "Caching").

Kept are bytes, so whoever gets a cached result gets values of their own. A key is method and params; a ``private``
result also belongs to one authorization context, a ``public`` one to whoever shares the store. A change notification
drops what it is about, and a result that was asked for before the change is not kept after it.

The rule that a newcomer would break: a result of a request that carried answers or a state is never kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ferrule.wire.codec import decode, encode

__all__ = ["CacheStore", "MemoryCacheStore", "ResultCache"]

DEFAULT_MAX_BYTES: Final = 32 << 20


class CacheStore(Protocol):
    """Where results are kept; several clients may share one."""

    async def get(self, key: str) -> tuple[bytes, float] | None:
        """The value under a key, and when it expires (seconds since the epoch); ``None`` if there is none."""
        ...

    async def put(self, key: str, value: bytes, expires_at: float) -> None:
        """Keep a value."""
        ...

    async def drop(self, prefix: str) -> None:
        """Forget every key that begins like this."""
        ...


class MemoryCacheStore:
    """Keeps results in this process; the longest unused go first beyond ``max_bytes``."""

    def __init__(self, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    async def get(self, key: str) -> tuple[bytes, float] | None:
        """See `CacheStore`."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    async def put(self, key: str, value: bytes, expires_at: float) -> None:
        """See `CacheStore`."""
        self._forget(key)
        self._entries[key] = (value, expires_at)
        self._bytes += len(value)
        while self._bytes > self._max_bytes and self._entries:
            self._forget(next(iter(self._entries)))

    async def drop(self, prefix: str) -> None:
        """See `CacheStore`."""
        for key in [key for key in self._entries if key.startswith(prefix)]:
            self._forget(key)

    def _forget(self, key: str) -> None:
        value, _ = self._entries.pop(key, (b"", 0.0))
        self._bytes -= len(value)


class ResultCache:
    """The cache of one client.

    Args:
        store: where to keep results.
        server: identifies the server among those that share the store.
        partition: identifies the authorization context; private results are kept under it.
        clock: seconds since the epoch.
    """

    def __init__(
        self, store: CacheStore, *, server: str, partition: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._server = server
        self.partition = partition
        self._clock = clock
        self._changes: dict[str, int] = {}

    async def get(self, method: str, params: Mapping[str, Any] | None) -> Any:
        """A fresh result as JSON of the caller's own; ``None`` if none is kept."""
        suffix = self._suffix(method, params)
        for owner in (self.partition, ""):
            found = await self._store.get(f"{self._server}\n{method}\n{owner}\n{suffix}")
            if found is not None and self._clock() < found[1]:
                return decode(found[0])
        return None

    def before(self, method: str) -> int:
        """A mark to take before asking, for `put`."""
        return self._changes.get(method, 0)

    async def put(self, method: str, params: Mapping[str, Any] | None, result: Mapping[str, Any], mark: int) -> None:
        """Keep a complete result for as long, and for whom, it says."""
        ttl_ms = result.get("ttlMs")
        if not isinstance(ttl_ms, int | float) or ttl_ms <= 0 or self._changes.get(method, 0) != mark:
            return
        if params is not None and ("inputResponses" in params or "requestState" in params):
            return
        owner = "" if result.get("cacheScope") == "public" else self.partition
        key = f"{self._server}\n{method}\n{owner}\n{self._suffix(method, params)}"
        await self._store.put(key, encode(result), self._clock() + ttl_ms / 1000)

    async def invalidate(self, *methods: str) -> None:
        """Something changed: forget what these methods gave, and what is under way."""
        for method in methods:
            self._changes[method] = self._changes.get(method, 0) + 1
            await self._store.drop(f"{self._server}\n{method}\n")

    @staticmethod
    def _suffix(method: str, params: Mapping[str, Any] | None) -> str:
        own = {key: value for key, value in (params or {}).items() if key != "_meta"}
        return encode(dict(sorted(own.items()))).decode()
