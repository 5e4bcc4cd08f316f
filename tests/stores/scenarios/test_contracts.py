"""Each store of this package against the contract that it publishes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.cache import MemoryCacheStore
from ferrule.stores.channel import MemoryChannel
from ferrule.stores.events import MemoryEventStore
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.postgres.server import PostgresServer
from ferrule.stores.postgres.store import (
    PostgresBlobs,
    PostgresCache,
    PostgresChannel,
    PostgresEvents,
    PostgresMarks,
    PostgresRateLimits,
    PostgresSessions,
    PostgresTasks,
)
from ferrule.stores.rates import MemoryRateLimits
from ferrule.stores.redis.store import (
    RedisBlobs,
    RedisCache,
    RedisChannel,
    RedisEvents,
    RedisMarks,
    RedisRateLimits,
    RedisServer,
    RedisSessions,
    RedisTasks,
)
from ferrule.stores.sessions import MemorySessions
from ferrule.stores.sqlite.store import (
    SqliteBlobs,
    SqliteCache,
    SqliteChannel,
    SqliteEvents,
    SqliteFile,
    SqliteMarks,
    SqliteRateLimits,
    SqliteSessions,
    SqliteTasks,
)
from ferrule.stores.tasks import MemoryTasks
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
from tests.stores.turned_postgres import TurnedPostgres
from tests.stores.turned_redis import Clock, TurnedServer

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("any_backend")
class Turned(StoreContract):
    """Time is a number here. On asyncio and on trio."""

    time_s = 1_000_000.0

    def now(self) -> float:
        return self.time_s

    async def pass_time(self, seconds: float) -> None:
        self.time_s += seconds


class TestMemoryMarks(Turned, MarksContract):
    async def make(self) -> MemoryMarks:
        return MemoryMarks(clock=self.now)


class TestMemoryBlobs(Turned, BlobStoreContract):
    async def make(self) -> MemoryBlobs:
        return MemoryBlobs(clock=self.now)


class TestMemoryTasks(Turned, TaskStoreContract):
    async def make(self) -> MemoryTasks:
        return MemoryTasks(clock=self.now)


class InFile(Turned):
    """A new file for each test."""

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> object:
        self.file = SqliteFile(str(tmp_path / "store.db"), clock=self.now)
        yield
        self.file.close()


class TestSqliteMarks(InFile, MarksContract):
    async def make(self) -> SqliteMarks:
        return SqliteMarks(self.file)


class TestSqliteBlobs(InFile, BlobStoreContract):
    async def make(self) -> SqliteBlobs:
        return SqliteBlobs(self.file)


class TestSqliteTasks(InFile, TaskStoreContract):
    async def make(self) -> SqliteTasks:
        return SqliteTasks(self.file)


class TestSqliteSessions(InFile, SessionStoreContract):
    async def make(self) -> SqliteSessions:
        return SqliteSessions(self.file)


class BoundedEvents(EventStoreContract):
    async def test_the_streams_of_one_session_are_bounded(self) -> None:
        """Each GET that a client drops begins one; the ids of one that was dropped and goes on are new ones."""
        events = await self.make()
        await events.append("other", "1", b"kept")
        first = [await events.append("s", "0", b"x") for _ in range(200)]
        for number in range(1, 300):
            last = await events.append("s", str(number), b"")
        assert await events.replay("s", first[0]) is None
        assert await events.replay("s", first[-1]) is None
        assert await events.replay("s", last) is not None
        again = await events.append("s", "0", b"y")
        assert again not in first
        assert await events.replay("s", first[-1]) is None
        assert await events.replay("s", again) is not None


class TestSqliteEvents(InFile, BoundedEvents):
    async def make(self) -> SqliteEvents:
        return SqliteEvents(self.file)

    async def test_a_dropped_stream_leaves_no_row(self) -> None:
        """Nor do those of another session go with it."""
        events = SqliteEvents(self.file, max_session_streams=3)
        for session in ("a", "b"):
            for number in range(10):
                for _ in range(2):
                    await events.append(session, str(number), b"")
        rows = await self.file.run(
            lambda connection, now: connection.execute(
                "SELECT session_id, count(DISTINCT stream_id), count(*) FROM ferrule_events GROUP BY session_id"
            ).fetchall()
        )
        assert [tuple(row) for row in rows] == [("a", 3, 6), ("b", 3, 6)]


class TestSqliteCache(InFile, CacheStoreContract):
    async def make(self) -> SqliteCache:
        return SqliteCache(self.file)


class TestSqliteRateLimits(InFile, RateLimitStoreContract):
    async def make(self) -> SqliteRateLimits:
        return SqliteRateLimits(self.file)


class TestSqliteChannel(InFile, ChannelContract):
    async def make_two(self) -> tuple[SqliteChannel, SqliteChannel]:
        return SqliteChannel(self.file), SqliteChannel(SqliteFile(self.file.path, clock=self.now))


class TestMemoryCache(Turned, CacheStoreContract):
    async def make(self) -> MemoryCacheStore:
        return MemoryCacheStore(clock=self.now)


class TestMemoryRateLimits(Turned, RateLimitStoreContract):
    async def make(self) -> MemoryRateLimits:
        return MemoryRateLimits(clock=self.now)


@pytest.mark.usefixtures("any_backend")
class TestMemoryChannel(ChannelContract):
    async def make_two(self) -> tuple[MemoryChannel, MemoryChannel]:
        peers: list[object] = []
        return MemoryChannel(peers), MemoryChannel(peers)  # type: ignore[arg-type]


class OneSlot:
    """A client that lets a command with several keys pass only if a cluster would."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def eval(self, script: str, count: int, *arguments: Any) -> Any:
        self._check(arguments[:count])
        return self._client.eval(script, count, *arguments)

    def mget(self, keys: Any) -> Any:
        self._check(keys)
        return self._client.mget(keys)

    def delete(self, *keys: Any) -> Any:
        self._check(keys)
        return self._client.delete(*keys)

    def _check(self, keys: Any) -> None:
        from redis.crc import key_slot

        slots = {key_slot(key if isinstance(key, bytes) else key.encode()) for key in keys}
        assert len(slots) == 1, f"{keys} are in the slots {slots}"


class CheckedServer(TurnedServer):
    @property
    def client(self) -> Any:
        return OneSlot(super().client)


class InRedis(StoreContract):
    """A prefix of its own for each test. Keys that meet share a slot, and all that is left expires."""

    tick_s = 15.0  # longer than a test takes, and four of them are the longer lives of the contracts

    def now(self) -> float:
        return self.server.clock()

    async def pass_time(self, seconds: float) -> None:
        self.server.clock.now_s += seconds
        await self.server.pass_time(seconds)

    @pytest.fixture(autouse=True)
    async def _server(self, redis_url: str) -> AsyncGenerator[None]:
        self.server = CheckedServer(redis_url, prefix=f"test-{secrets.token_hex(6)}", timeout_s=60)
        self.server.clock = Clock()
        yield
        keys = [key async for key in self.server.client.scan_iter(f"{self.server.prefix}:*")]
        for key in keys:
            assert await self.server.client.pttl(key) > 0, f"{key} never expires"
            await self.server.client.delete(key)
        await self.server.aclose()


class TestRedisMarks(InRedis, MarksContract):
    async def make(self) -> RedisMarks:
        return RedisMarks(self.server)


class TestRedisBlobs(InRedis, BlobStoreContract):
    async def make(self) -> RedisBlobs:
        return RedisBlobs(self.server)


class TestRedisTasks(InRedis, TaskStoreContract):
    async def make(self) -> RedisTasks:
        return RedisTasks(self.server)


class TestRedisChannel(InRedis, ChannelContract):
    async def make_two(self) -> tuple[RedisChannel, RedisChannel]:
        return RedisChannel(self.server), RedisChannel(RedisServer(self.server.url, prefix=self.server.prefix))


class TestMemorySessions(Turned, SessionStoreContract):
    async def make(self) -> MemorySessions:
        return MemorySessions(clock=self.now)


class TestMemoryEvents(Turned, BoundedEvents):
    async def make(self) -> MemoryEventStore:
        return MemoryEventStore()


class TestRedisSessions(InRedis, SessionStoreContract):
    async def make(self) -> RedisSessions:
        return RedisSessions(self.server)


class TestRedisEvents(InRedis, BoundedEvents):
    async def make(self) -> RedisEvents:
        return RedisEvents(self.server)

    async def test_a_dropped_stream_leaves_no_key(self) -> None:
        """Three logs, and the two keys that count them."""
        events = RedisEvents(self.server, max_session_streams=3)
        for number in range(10):
            await events.append("s", str(number), b"")
        keys: list[bytes] = await self.server.run(lambda client: client.keys(f"{self.server.key('session:s', '')}*"))
        assert len(keys) == 5, keys


class TestRedisCache(InRedis, CacheStoreContract):
    async def make(self) -> RedisCache:
        return RedisCache(self.server)


class TestRedisRateLimits(InRedis, RateLimitStoreContract):
    async def make(self) -> RedisRateLimits:
        return RedisRateLimits(self.server)

    async def test_costs_below_a_microsecond_add_up(self) -> None:
        """A quota in bytes fills with many of them in a microsecond; each of these calls costs half of one."""
        rates = await self.make()
        assert await rates.spend("k", size=10**9, per_s=100, tokens=5 * 10**8) == 0
        for _ in range(100):
            assert await rates.spend("k", size=10**9, per_s=100, tokens=5) == 0
        assert 40e-6 < await rates.spend("k", size=10**9, per_s=100, tokens=5 * 10**8) < 60e-6


class InPostgres(StoreContract):
    """A schema of its own for each test. All that is left has an expiry, and is deleted after it."""

    tick_s = 15.0

    def now(self) -> float:
        return self.server.clock()

    async def pass_time(self, seconds: float) -> None:
        self.server.clock.now_s += seconds
        await self.server.pass_time(seconds)

    @pytest.fixture(autouse=True)
    async def _server(self, postgres_url: str) -> AsyncGenerator[None]:
        self.server = TurnedPostgres(postgres_url, Clock())
        await self.server.open()
        yield
        await self.pass_time(1e9)
        while await self.server.sweep():
            pass
        names = await self.server.rows("SELECT tablename FROM pg_tables WHERE schemaname = $1", self.server.schema)
        left = {name: await self.server.value(f"SELECT count(*) FROM {self.server.schema}.{name}") for (name,) in names}
        # The version, the number of all tasks, and the time of the test.
        assert {name: count for name, count in left.items() if count} == {"meta": 1, "task_counts": 1, "turned": 1}
        assert await self.server.value(self.server.sql("SELECT sum(tasks)::int FROM {schema}.task_counts")) == 0
        await self.server.drop()


class TestPostgresMarks(InPostgres, MarksContract):
    async def make(self) -> PostgresMarks:
        return PostgresMarks(self.server)


class TestPostgresBlobs(InPostgres, BlobStoreContract):
    async def make(self) -> PostgresBlobs:
        return PostgresBlobs(self.server)


class TestPostgresTasks(InPostgres, TaskStoreContract):
    async def make(self) -> PostgresTasks:
        return PostgresTasks(self.server)


class TestPostgresSessions(InPostgres, SessionStoreContract):
    async def make(self) -> PostgresSessions:
        return PostgresSessions(self.server)


class TestPostgresEvents(InPostgres, BoundedEvents):
    async def make(self) -> PostgresEvents:
        return PostgresEvents(self.server)

    async def test_a_dropped_stream_leaves_no_row(self) -> None:
        """Nor do those of another session go with it."""
        events = PostgresEvents(self.server, max_session_streams=3)
        for session in ("a", "b"):
            for number in range(10):
                for _ in range(2):
                    await events.append(session, str(number), b"")
        rows = await self.server.rows(
            self.server.sql("SELECT count(DISTINCT stream), count(*) FROM {schema}.events GROUP BY session")
        )
        assert [tuple(row) for row in rows] == [(3, 6), (3, 6)]


class TestPostgresCache(InPostgres, CacheStoreContract):
    async def make(self) -> PostgresCache:
        return PostgresCache(self.server)


class TestPostgresRateLimits(InPostgres, RateLimitStoreContract):
    async def make(self) -> PostgresRateLimits:
        return PostgresRateLimits(self.server)


class TestPostgresChannel(InPostgres, ChannelContract):
    async def make_two(self) -> tuple[PostgresChannel, PostgresChannel]:
        self.other = PostgresServer(self.server.url, schema=self.server.schema)
        return PostgresChannel(self.server), PostgresChannel(self.other)

    @pytest.fixture(autouse=True)
    async def _other(self) -> AsyncGenerator[None]:
        yield
        await self.other.aclose()
