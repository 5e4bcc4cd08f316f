"""ferrule.client.cache: what a server says about keeping is a number that a stranger chose."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.cache import MAX_TTL_MS, ResultCache
from ferrule.stores.cache import MemoryCacheStore

pytestmark = pytest.mark.anyio


class Careful(MemoryCacheStore):
    """Keeps for times that a store with 64 bits of milliseconds can count."""

    def __init__(self) -> None:
        super().__init__()
        self.ttls_s: list[float] = []

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `CacheStore`."""
        assert ttl_s * 1000 < 2**62
        self.ttls_s.append(ttl_s)
        await super().put(group, key, value, ttl_s=ttl_s)


@pytest.mark.parametrize("ttl_ms", [1e308, 10**400, 2**63, MAX_TTL_MS + 1, float("inf")])
async def test_no_time_to_live_is_too_long(ttl_ms: Any) -> None:
    """A store that cannot count it would fail the call that is to be kept."""
    store = Careful()
    cache = ResultCache(store, server="s", partition="p")
    await cache.put("tools/list", None, {"tools": [], "ttlMs": ttl_ms}, cache.before("tools/list"))
    assert await cache.get("tools/list", None) == {"tools": [], "ttlMs": ttl_ms if ttl_ms != float("inf") else None}
    assert store.ttls_s == [MAX_TTL_MS / 1000]


@pytest.mark.parametrize("ttl_ms", [0, -1, -1e308, float("nan"), "5", None, True])
async def test_no_time_keeps_nothing(ttl_ms: Any) -> None:
    """Nor what is no number."""
    store = Careful()
    cache = ResultCache(store, server="s", partition="p")
    await cache.put("tools/list", None, {"tools": [], "ttlMs": ttl_ms}, cache.before("tools/list"))
    assert store.ttls_s == []
