"""Every contract on a Redis Cluster of three nodes: keys that meet share a slot, others are spread over all nodes."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from ferrule.stores.channel import Channel
from ferrule.stores.redis.store import RedisServer, open_redis
from ferrule.stores.store import Store
from ferrule.testing.contracts import (
    BlobStoreContract,
    CacheStoreContract,
    ChannelContract,
    EventStoreContract,
    MarksContract,
    RateLimitStoreContract,
    SessionStoreContract,
    StoreContract,
    TaskStoreContract,
)
from tests.processes import free_port
from tests.stores.own_redis import OwnRedis

pytestmark = pytest.mark.anyio

SLOTS = 16384
NODES = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[OwnRedis]]:
    """Nodes that know each other and share all slots."""
    from redis import Redis

    nodes: list[OwnRedis] = []
    try:
        for number in range(NODES):
            folder = tmp_path_factory.mktemp(f"node{number}")
            options = ("--cluster-enabled", "yes", "--save", "", "--cluster-node-timeout", "2000")
            nodes.append(OwnRedis(folder, *options, port=free_port(and_above=10_000)))
        clients = [Redis(port=node.port) for node in nodes]
        for number, client in enumerate(clients):
            share = range(SLOTS * number // NODES, SLOTS * (number + 1) // NODES)
            client.execute_command("CLUSTER", "ADDSLOTS", *share)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        deadline = time.monotonic() + 30
        while not all(is_ready(client) for client in clients):
            assert time.monotonic() < deadline, [client.execute_command("CLUSTER INFO") for client in clients]
            time.sleep(0.05)
        for client in clients:
            client.close()
        yield nodes
    finally:
        for node in nodes:
            node.close()


def is_ready(client: Any) -> bool:
    """Whether a node knows all others and all slots."""
    facts = client.cluster("info")
    return facts["cluster_state"] == "ok" and facts["cluster_known_nodes"] == str(NODES)


class InCluster(StoreContract):
    """A prefix of its own for each test; afterwards every key has an expiry."""

    store: Store

    @pytest.fixture(autouse=True)
    async def _store(self, cluster: list[OwnRedis]) -> AsyncGenerator[None]:
        self.prefix = f"test-{secrets.token_hex(6)}"
        self.nodes = cluster
        self.servers: list[RedisServer] = []
        self.store = self.open(0)
        yield
        client = self.servers[0].client
        async for key in client.scan_iter(f"{self.prefix}:*"):
            assert await client.pttl(key) > 0, f"{key} never expires"
        for server in self.servers:
            await server.aclose()

    def open(self, node: int) -> Store:
        """The store, found through one of the nodes."""
        store = open_redis(f"redis+cluster://127.0.0.1:{self.nodes[node].port}?prefix={self.prefix}")
        self.servers.append(store.blobs._server)  # type: ignore[attr-defined]
        return store


class TestMarks(InCluster, MarksContract):
    async def make(self) -> Any:
        return self.store.marks


class TestBlobs(InCluster, BlobStoreContract):
    async def make(self) -> Any:
        return self.store.blobs

    async def test_keys_are_spread_over_the_nodes(self) -> None:
        """Only what must be together is."""
        from redis import Redis

        for number in range(100):
            await self.store.blobs.put(str(number), b"x", ttl_s=60)
        for node in self.nodes:
            with Redis(port=node.port) as client:
                assert list(client.scan_iter(f"{self.prefix}:*", count=10_000))


class TestSessions(InCluster, SessionStoreContract):
    async def make(self) -> Any:
        return self.store.sessions


class TestEvents(InCluster, EventStoreContract):
    async def make(self) -> Any:
        return self.store.events


class TestTasks(InCluster, TaskStoreContract):
    async def make(self) -> Any:
        return self.store.tasks


class TestCache(InCluster, CacheStoreContract):
    async def make(self) -> Any:
        return self.store.cache


class TestRateLimits(InCluster, RateLimitStoreContract):
    async def make(self) -> Any:
        return self.store.rates


class TestChannel(InCluster, ChannelContract):
    async def make_two(self) -> tuple[Channel, Channel]:
        one, other = self.store.channel, self.open(2).channel
        assert one is not None
        assert other is not None
        return one, other
