"""Tokens of users in a store: sealed, each user's apart, and refreshed by one process at a time."""

from __future__ import annotations

import anyio
import pytest

from ferrule.auth import MemoryStorage
from ferrule.client.gateway.credentials.storage import StoreStorage, UserStorage
from ferrule.stores.store import open_store

pytestmark = pytest.mark.anyio
KEY = "a key of the gateway"


async def test_values_are_sealed_and_belong_to_their_key() -> None:
    """Nothing of a token is in the store, another key opens nothing, and a moved value is not opened."""
    store = open_store("memory:")
    storage = StoreStorage(store, KEY)
    await storage.set("token-1", "very-secret")
    assert await storage.get("token-1") == "very-secret"
    sealed = await store.blobs.get("gateway-auth/token-1")
    assert sealed is not None
    assert b"very-secret" not in sealed
    await store.blobs.put("gateway-auth/token-2", sealed, ttl_s=60)
    assert await storage.get("token-2") is None
    assert await StoreStorage(store, KEY + "!").get("token-1") is None
    await storage.delete("token-1")
    assert await storage.get("token-1") is None
    with pytest.raises(ValueError, match="16 characters"):
        StoreStorage(store, "short")


async def test_one_holds_the_lock_of_a_key() -> None:
    """Also among storages of several processes, which share the store only."""
    store = open_store("memory:")
    one, two = StoreStorage(store, KEY), StoreStorage(store, KEY)
    held, order = anyio.Event(), list[str]()

    async def first() -> None:
        async with one.lock("k"):
            held.set()
            await anyio.wait_all_tasks_blocked()
            order.append("first")

    async def second() -> None:
        await held.wait()
        async with two.lock("k"):
            order.append("second")

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        group.start_soon(second)
    assert order == ["first", "second"]
    async with two.lock("k"), one.lock("other"):
        pass


async def test_no_user_reaches_a_key_of_another() -> None:
    """Nor of another server; names that run into each other are told apart."""
    shared = MemoryStorage()
    ada = UserStorage(shared, "ada", "files")
    await ada.set("token", "of ada")
    assert await ada.get("token") == "of ada"
    for user, server in (("bob", "files"), ("ada", "mail"), ("ada f", "iles"), ("", "ada files")):
        other = UserStorage(shared, user, server)
        assert await other.get("token") is None
        await other.delete("token")
    assert await ada.get("token") == "of ada"
