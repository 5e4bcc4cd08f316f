"""ferrule.client.calls.cache: what a server says about keeping is a number that a stranger chose."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client
from ferrule.client.calls.cache import MAX_TTL_MS, ResultCache
from ferrule.stores.cache import MemoryCacheStore
from ferrule.transports.http.backend import TlsOptions

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
    """Nor what is not a number."""
    store = Careful()
    cache = ResultCache(store, server="s", partition="p")
    await cache.put("tools/list", None, {"tools": [], "ttlMs": ttl_ms}, cache.before("tools/list"))
    assert store.ttls_s == []


class OpaqueAuth:
    """Credentials without a cache key."""

    async def headers(self, request: Any) -> dict[str, str]:
        """See `HttpAuth`."""
        return {}

    async def challenged(self, request: Any, status: int, headers: Any) -> bool:
        """See `HttpAuth`."""
        return False


class NamedAuth(OpaqueAuth):
    """Credentials with a cache key."""

    def __init__(self, cache_key: str) -> None:
        self.cache_key = cache_key


URL = "http://127.0.0.1:9/mcp"
CALLERS: dict[str, dict[str, Any]] = {
    "nobody": {"target": URL},
    "key of alice": {"target": f"{URL}?api_key=ALICE"},
    "key of bob": {"target": f"{URL}?api_key=BOB"},
    "user alice": {"target": "http://alice:pw@127.0.0.1:9/mcp"},
    "user bob": {"target": "http://bob:pw@127.0.0.1:9/mcp"},
    "password of bob": {"target": "http://bob:other@127.0.0.1:9/mcp"},
    "token of alice": {"target": URL, "auth": "ALICE"},
    "token of bob": {"target": URL, "auth": "BOB"},
    "header of alice": {"target": URL, "headers": {"X-Api-Key": "ALICE"}},
    "header of bob": {"target": URL, "headers": {"x-api-key": "BOB"}},
    "configured header": {"target": {"url": URL, "headers": {"x-tenant": "ALICE"}}},
    "cookie of alice": {"target": URL, "headers": {"cookie": "session=ALICE"}},
    "named alice": {"target": URL, "auth": NamedAuth("ALICE's")},
    "named bob": {"target": URL, "auth": NamedAuth("BOB's")},
    "opaque": {"target": URL, "auth": OpaqueAuth()},
    "another opaque": {"target": URL, "auth": OpaqueAuth()},
    "own http": {"target": URL, "http": object()},
    "certificate": {"target": URL, "tls": TlsOptions(client_cert_file="alice.pem")},
}


class Written(MemoryCacheStore):
    """Notes under what anything is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `CacheStore`."""
        self.names.append(f"{group} {key}")
        await super().put(group, key, value, ttl_s=ttl_s)


async def test_a_private_result_is_never_shown_to_another_caller() -> None:
    """Everything by which a server may identify its caller is part of the key, hashed."""
    store = Written()
    for name, options in CALLERS.items():
        cache = Client(**options, cache=store).cache
        for other in CALLERS:
            found = await cache.get("resources/read", {"uri": f"data://{other}"})
            assert found is None, (name, other)
        for other in CALLERS:
            params = {"uri": f"data://{other}"}
            await cache.put("resources/read", params, {"ttlMs": 60_000, "whose": name}, cache.before("resources/read"))
    for secret in ("ALICE", "BOB", "alice", "bob", "pw", "other@"):
        assert not any(secret in name.replace("data://", "").partition("uri")[0] for name in store.names)


async def test_a_private_result_is_shared_by_equal_callers() -> None:
    """Also in another process: the key has no part of this one, unless the caller cannot be identified."""
    store = MemoryCacheStore()
    unshared = {"opaque", "another opaque", "own http", "certificate"}
    for name, options in CALLERS.items():
        for_all = {"ttlMs": 60_000, "whose": name}
        cache = Client(**options, cache=store).cache
        await cache.put("tools/list", None, for_all, cache.before("tools/list"))
        found = await Client(**options, cache=store).cache.get("tools/list", None)
        assert found == (None if name in unshared else for_all)


async def test_what_is_forgotten_is_not_found_by_a_newcomer_at_its_address() -> None:
    """Python gives the id of an object that is gone to a new one; a key must not."""
    store = MemoryCacheStore()
    for _ in range(50):
        cache = Client(URL, auth=OpaqueAuth(), cache=store).cache
        assert await cache.get("tools/list", None) is None
        await cache.put("tools/list", None, {"ttlMs": 60_000}, cache.before("tools/list"))
        del cache


async def test_a_public_result_is_of_one_url() -> None:
    """A query may choose another server, another tenant; users and credentials share it."""
    store = MemoryCacheStore()
    cache = Client(f"{URL}?tenant=a", cache=store).cache
    await cache.put("tools/list", None, {"ttlMs": 60_000, "cacheScope": "public"}, cache.before("tools/list"))
    assert await Client(f"{URL}?tenant=a", auth="BOB", cache=store).cache.get("tools/list", None) is not None
    assert await Client(f"{URL}?tenant=b", cache=store).cache.get("tools/list", None) is None
