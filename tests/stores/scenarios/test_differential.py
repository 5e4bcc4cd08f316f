"""The same random operations on memory, SQLite, Redis and PostgreSQL give the same answers: they have one contract.

Time is a number that the test turns, for the servers as well (see `tests.stores.turned_redis`,
`tests.stores.turned_postgres`). Lives end half-way between
two steps of time, so that the moments which the test itself takes decide nothing.

``FERRULE_DIFFERENTIAL_EXAMPLES`` is the number of sequences for each kind of store (20 if it is not set).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.cache import MemoryCacheStore
from ferrule.stores.events import MemoryEventStore
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.postgres.server import PostgresServer
from ferrule.stores.postgres.store import (
    PostgresBlobs,
    PostgresCache,
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
    SqliteEvents,
    SqliteFile,
    SqliteMarks,
    SqliteRateLimits,
    SqliteSessions,
    SqliteTasks,
)
from ferrule.stores.tasks import MemoryTasks, StoredTask, TooManyTasks
from tests.stores.turned_postgres import TurnedPostgres
from tests.stores.turned_redis import Clock, TurnedServer

STEP_S = 1000.0
_IN_MEMORY = "/dev/shm"
EVENTS = 4

sequences = settings(
    phases=[phase for phase in Phase if phase is not Phase.explain],
    max_examples=int(os.environ.get("FERRULE_DIFFERENTIAL_EXAMPLES", "20")),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
    ],
)

lives = st.integers(0, 3).map(lambda steps: (steps + 0.5) * STEP_S)
keys = st.sampled_from(["", "{a}\u00e9 "])
values = st.sampled_from([b"", b"\x00\xff", b"r"])


def operations(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Long sequences, because what differs needs several operations on one key; short ones to show it with."""
    kind = st.one_of(*kinds)
    return st.one_of(st.lists(kind, max_size=10), st.lists(kind, min_size=40, max_size=60))


@dataclass
class Urls:
    """Of the servers; ``None`` where there is none."""

    redis: str | None
    postgres: str | None


@dataclass
class Places:
    """Where stores can be made, with one clock."""

    clock: Clock
    file: SqliteFile
    server: TurnedServer | None
    database: TurnedPostgres | None

    async def pass_time(self, steps: int) -> None:
        self.clock.now_s += steps * STEP_S
        if self.server is not None:
            await self.server.pass_time(steps * STEP_S)
        if self.database is not None:
            await self.database.pass_time(steps * STEP_S)


@asynccontextmanager
async def opened(urls: Urls) -> AsyncGenerator[Places]:
    clock = Clock()
    server = None
    if urls.redis is not None:
        server = TurnedServer(urls.redis, prefix=f"test-{secrets.token_hex(6)}", timeout_s=60)
        server.clock = clock
    database = None
    if urls.postgres is not None:
        database = TurnedPostgres(urls.postgres, clock)
        await database.open()
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if Path(_IN_MEMORY).is_dir() else None) as folder:
        file = SqliteFile(str(Path(folder) / "store.db"), clock=clock)
        try:
            yield Places(clock, file, server, database)
        finally:
            file.close()
            if server is not None:
                await server.pass_time(1e9)
                await server.aclose()
            if database is not None:
                await database.drop()


def stores(
    places: Places,
    memory: Any,
    sqlite: Any,
    redis: Callable[[RedisServer], Any],
    postgres: Callable[[PostgresServer], Any],
) -> dict[str, Any]:
    found = {"memory": memory, "sqlite": sqlite}
    if places.server is not None:
        found["redis"] = redis(places.server)
    if places.database is not None:
        found["postgres"] = postgres(places.database)
    return found


async def answer(call: Awaitable[Any]) -> Any:
    """What a call gives or raises."""
    try:
        return await call
    except TooManyTasks as error:
        return ("TooManyTasks", error.owner)
    except (KeyError, ValueError) as error:
        return type(error).__name__


Seen = Callable[[str, Any], Any]


async def same(
    stores: dict[str, Any], call: Callable[[Any], Awaitable[Any]], seen: Seen = lambda name, found: found
) -> Any:
    """The one answer of all."""
    found = {name: seen(name, await answer(call(store))) for name, store in stores.items()}
    assert all(other == found["memory"] for other in found.values()), found
    return found["memory"]


def run(urls: Urls, scenario: Callable[[Places], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with opened(urls) as places:
            await scenario(places)

    asyncio.run(inside())


@pytest.fixture
def urls() -> Urls:
    """Redis and PostgreSQL take part where there is one."""
    return Urls(os.environ.get("FERRULE_TEST_REDIS_URL"), os.environ.get("FERRULE_TEST_POSTGRES_URL"))


time_passes = st.tuples(st.just("time"), st.integers(1, 3))


@sequences
@given(
    operations(
        time_passes,
        st.tuples(st.just("begin"), keys, lives),
        st.tuples(st.just("finish"), keys, values, lives),
    )
)
def test_marks(urls: Urls, steps: list[Any]) -> None:
    async def scenario(places: Places) -> None:
        marks = stores(places, MemoryMarks(clock=places.clock), SqliteMarks(places.file), RedisMarks, PostgresMarks)
        for name, *details in steps:
            if name == "time":
                await places.pass_time(*details)
            elif name == "begin":
                key, ttl_s = details
                await same(marks, lambda store, key=key, ttl_s=ttl_s: store.begin(key, ttl_s=ttl_s))
            else:
                key, value, ttl_s = details
                await same(marks, lambda store, k=key, v=value, t=ttl_s: store.finish(k, v, ttl_s=t))

    run(urls, scenario)


@sequences
@given(
    operations(
        time_passes,
        st.tuples(st.just("put"), keys, values, st.one_of(lives, st.just(0), st.just(-5))),
        st.tuples(st.just("get"), keys),
    )
)
def test_blobs(urls: Urls, steps: list[Any]) -> None:
    async def scenario(places: Places) -> None:
        blobs = stores(places, MemoryBlobs(clock=places.clock), SqliteBlobs(places.file), RedisBlobs, PostgresBlobs)
        for name, *details in steps:
            if name == "time":
                await places.pass_time(*details)
            elif name == "put":
                key, value, ttl_s = details
                await same(blobs, lambda store, k=key, v=value, t=ttl_s: store.put(k, v, ttl_s=t))
            else:
                await same(blobs, lambda store, key=details[0]: store.get(key))

    run(urls, scenario)


@sequences
@given(
    operations(
        time_passes,
        st.tuples(st.just("put"), keys, keys, values, st.one_of(lives, st.just(0))),
        st.tuples(st.just("get"), keys, keys),
        st.tuples(st.just("drop"), keys),
    )
)
def test_cache(urls: Urls, steps: list[Any]) -> None:
    async def scenario(places: Places) -> None:
        caches = stores(
            places, MemoryCacheStore(clock=places.clock), SqliteCache(places.file), RedisCache, PostgresCache
        )
        for name, *details in steps:
            if name == "time":
                await places.pass_time(*details)
            elif name == "put":
                group, key, value, ttl_s = details
                await same(caches, lambda store, g=group, k=key, v=value, t=ttl_s: store.put(g, k, v, ttl_s=t))
            elif name == "get":
                await same(caches, lambda store, details=details: store.get(*details))
            else:
                await same(caches, lambda store, group=details[0]: store.drop(group))

    run(urls, scenario)


@sequences
@given(
    operations(
        time_passes,
        st.tuples(st.just("put"), keys, values, lives),
        st.tuples(st.just("get"), keys, lives),
        st.tuples(st.just("delete"), keys),
    )
)
def test_sessions(urls: Urls, steps: list[Any]) -> None:
    async def scenario(places: Places) -> None:
        sessions = stores(
            places, MemorySessions(clock=places.clock), SqliteSessions(places.file), RedisSessions, PostgresSessions
        )
        for name, *details in steps:
            if name == "time":
                await places.pass_time(*details)
            elif name == "put":
                key, value, idle_s = details
                await same(sessions, lambda store, k=key, v=value, i=idle_s: store.put(k, v, idle_s=i))
            elif name == "get":
                key, idle_s = details
                await same(sessions, lambda store, key=key, idle_s=idle_s: store.get(key, idle_s=idle_s))
            else:
                await same(sessions, lambda store, key=details[0]: store.delete(key))

    run(urls, scenario)


@sequences
@given(
    operations(
        time_passes,
        st.tuples(st.just("take"), keys, st.integers(1, 4), st.sampled_from([370.0, 1110.0, 2590.0])),
    )
)
def test_rates(urls: Urls, steps: list[Any]) -> None:
    """A wait is the same to two seconds: those that a bucket in Redis may be forgotten too early here."""

    async def scenario(places: Places) -> None:
        rates = stores(
            places,
            MemoryRateLimits(clock=places.clock),
            SqliteRateLimits(places.file),
            RedisRateLimits,
            PostgresRateLimits,
        )
        for name, *details in steps:
            if name == "time":
                await places.pass_time(*details)
                continue
            key, size, per_s = details
            waits = [await store.take(key, size=size, per_s=per_s) for store in rates.values()]
            assert max(waits) - min(waits) < 2, waits
            assert all(waits) or not any(waits), waits

    run(urls, scenario)


@dataclass
class Ids:
    """The ids that each store gave, by the order of the appending."""

    given: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    sessions: list[str] = field(default_factory=list[str])

    def note(self, name: str, found: Any) -> None:
        self.given.setdefault(name, []).append(found)

    def replayed(self, name: str, session: str, found: Any) -> Any:
        """Which events those are, by the order of the appending; an id is unique within its session only."""
        if found is None:
            return None
        given = enumerate(zip(self.given[name], self.sessions, strict=True))
        places = {event_id: place for place, (event_id, of) in given if of == session}
        return found.stream_id, [(places.get(event.id), event.data) for event in found.events]


@sequences
@given(
    operations(
        st.tuples(st.just("append"), st.sampled_from("st"), st.sampled_from(["1", "2", "x-1"]), values),
        st.tuples(st.just("replay"), st.sampled_from("st"), st.integers(0, 30)),
        st.tuples(st.just("forget"), st.sampled_from("st")),
    )
)
def test_events(urls: Urls, steps: list[Any]) -> None:
    """Of streams that are kept; how long they are is each store's own."""

    async def scenario(places: Places) -> None:
        events = stores(
            places,
            MemoryEventStore(max_stream_events=EVENTS),
            SqliteEvents(places.file, max_stream_events=EVENTS, ttl_s=1e8),
            lambda server: RedisEvents(server, max_stream_events=EVENTS, ttl_s=1e8),
            lambda server: PostgresEvents(server, max_stream_events=EVENTS, ttl_s=1e8),
        )
        ids = Ids()
        for name, session, *details in steps:
            if name == "append":
                ids.sessions.append(session)
                await same(events, lambda store, s=session, details=details: store.append(s, *details), ids.note)
            elif name == "replay":
                if details[0] < len(ids.sessions) and ids.sessions[details[0]] != session:
                    continue  # an id of an ended session may find all that came after; of another, one of the same name
                asked = {place: found[details[0]] for place, found in ids.given.items() if details[0] < len(found)}
                found = {
                    place: ids.replayed(place, session, await store.replay(session, asked.get(place, "1-99999")))
                    for place, store in events.items()
                }
                assert all(other == found["memory"] for other in found.values()), found
            else:
                await same(events, lambda store, session=session: store.forget(session))
                ids.sessions = ["ended" if of == session else of for of in ids.sessions]
                await places.pass_time(1)

    run(urls, scenario)


task_ids = st.sampled_from(["t0", "t1", "t2", "t10"])
owners = st.sampled_from(["", "ann", "bob"])
leases = st.one_of(lives, st.just(0.0))


@sequences
@given(
    operations(
        time_passes,
        st.tuples(
            st.just("add"), task_ids, owners, lives, leases, st.sampled_from([b"", b"x"]), st.integers(-7200, 7200)
        ),
        st.tuples(st.just("again"), task_ids),
        st.tuples(st.just("get"), task_ids),
        st.tuples(
            st.just("replace"), task_ids, st.booleans(), st.booleans(), values, owners, st.one_of(st.none(), leases)
        ),
        st.tuples(st.just("page"), owners, st.one_of(st.none(), task_ids), st.integers(0, 3)),
        st.tuples(st.just("claim"), leases, st.integers(0, 3)),
    )
)
def test_tasks(urls: Urls, steps: list[Any]) -> None:
    def seen(name: str, found: Any) -> Any:
        """A record without what differs by the moments that a test takes."""
        if isinstance(found, list):
            return [seen(name, each) for each in found]
        if isinstance(found, StoredTask):
            ends = round((found.expires_at - Clock.EPOCH_S) / STEP_S, 2)
            return found.task_id, found.owner, found.version, found.created_at, ends, found.is_open, found.body
        return found

    async def scenario(places: Places) -> None:
        tasks = stores(places, MemoryTasks(clock=places.clock), SqliteTasks(places.file), RedisTasks, PostgresTasks)
        added: dict[str, StoredTask] = {}
        bounds = {"max_tasks": 3, "max_per_owner": 2}
        for name, *details in steps:
            if name == "time":
                await places.pass_time(*details)
            elif name in ("add", "again"):
                if name == "add":
                    task_id, owner, life_s, lease_s, body, shift_s = details
                    if task_id in added and added[task_id].owner != owner:
                        continue  # ids are random: none is ever given to a task of somebody else
                    now = places.clock() + shift_s
                    task = StoredTask(
                        task_id=task_id, owner=owner, created_at=now, expires_at=now + life_s, is_open=True, body=body
                    )
                    added[task_id] = task
                elif (found := added.get(details[0])) is None:
                    continue
                else:
                    task, lease_s = found, 500.0
                await same(tasks, lambda store, t=task, s=lease_s: store.add(t, lease_s=s, **bounds), seen)
            elif name == "get":
                await same(tasks, lambda store, details=details: store.get(*details), seen)
            elif name == "replace":
                await same(tasks, lambda store, details=details: changed(store, *details), seen)
            elif name == "page":
                await same(tasks, lambda store, details=details: store.page(*details), seen)
            else:
                lease_s, limit = details
                await same(tasks, lambda store, s=lease_s or 500.0, n=limit: store.claim(lease_s=s, limit=n), seen)

    async def changed(
        store: Any, task_id: str, is_stale: bool, is_open: bool, body: bytes, owner: str, lease_s: float | None
    ) -> Any:
        found = await store.get(task_id)
        version = 1 if found is None else found.version - is_stale
        task = StoredTask(
            task_id=task_id, owner=owner, version=version, created_at=1, expires_at=2, is_open=is_open, body=body
        )
        return await store.replace(task, lease_s=lease_s)

    run(urls, scenario)
