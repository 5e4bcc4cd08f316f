"""What listing, claiming and adding cost as the number of tasks grows: counted, never timed."""

from __future__ import annotations

import secrets
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from ferrule.stores.redis.server import RedisServer
from ferrule.stores.redis.tasks import RedisTasks
from ferrule.stores.sqlite.file import SqliteFile
from ferrule.stores.sqlite.tasks import SqliteTasks
from ferrule.stores.tasks import MemoryTasks, StoredTask, TaskStore
from tests.stores.own_redis import OwnRedis

pytestmark = pytest.mark.anyio

T = TypeVar("T")

FEW, MANY = 100, 3000


def new(task_id: str, *, life_s: float = 1000, owner: str = "ann") -> StoredTask:
    now = time.time()
    return StoredTask(
        task_id=task_id, owner=owner, created_at=now, expires_at=now + life_s, is_open=True, body=task_id.encode()
    )


async def put(store: TaskStore, task: StoredTask, lease_s: float = 500) -> StoredTask:
    return await store.add(task, lease_s=lease_s, max_tasks=10**6, max_per_owner=10**6)


async def operations(store: TaskStore, middle: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    """What a server does all the time, on a store that is full; ``middle`` is a record in the midst of a list."""
    stored = await put(store, new("changed"))
    return {
        "first page": lambda: store.page("ann", None, 10),
        "page in the middle": lambda: store.page("ann", middle, 10),
        "nothing to claim": lambda: store.claim(lease_s=500, limit=16),
        "renew": lambda: store.replace(stored, lease_s=500),
        "add": lambda: put(store, new("added"), lease_s=-1),
        "claim one": lambda: store.claim(lease_s=500, limit=16),
    }


# -- in memory --------------------------------------------------------------------------------------------------------


class CountedId(str):
    """A name that counts with how many others it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return str.__eq__(self, other)

    def __lt__(self, other: str) -> bool:
        CountedId.compared += 1
        return str.__lt__(self, other)

    __hash__ = str.__hash__


async def steps_of(call: Callable[[], Awaitable[T]]) -> tuple[T, int]:
    """What a call gives, and the lines of Python that it ran with the comparisons of names that it made."""
    lines = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    CountedId.compared = 0
    sys.settrace(trace)
    try:
        result = await call()
    finally:
        sys.settrace(None)
    return result, lines + CountedId.compared


async def test_in_memory_no_operation_looks_at_more_records_than_it_gives() -> None:
    """A list of an owner with many tasks, and the look for lost leases, cost what they give."""
    counts: list[dict[str, int]] = []
    for number in (FEW, MANY):
        store = MemoryTasks()
        for index in range(number):
            await put(store, new(CountedId(f"t{index:06}")))
        found = await operations(store, CountedId(f"t{number // 2:06}"))
        counts.append({name: (await steps_of(call))[1] for name, call in found.items()})
    few, many = counts
    assert min(few.values()) > 3, "the counter does not count"
    assert {name: steps for name, steps in many.items() if steps > few[name] + 16} == {}


async def test_in_memory_a_task_has_one_entry_for_its_end_however_often_it_changes() -> None:
    """And at most two and a few for its lease, which is renewed many times in its life."""
    store = MemoryTasks()
    for index in range(100):
        stored = await put(store, new(f"t{index}"))
        for _ in range(50):
            changed = await store.replace(replace(stored, body=b"x"), lease_s=500)
            assert changed is not None
            stored = changed
    assert len(store._expiry) == 100
    assert len(store._leases) <= 2 * 100 + 64


async def test_in_memory_lists_stay_whole_when_tasks_leave_from_anywhere() -> None:
    """The first, the last and those between expire in any order, and the owner with the last."""
    now = 1000.0
    store = MemoryTasks(clock=lambda: now)
    lives = {"a": 50.0, "b": 10.0, "c": 40.0, "d": 20.0, "e": 30.0}
    for task_id, life_s in lives.items():
        await put(store, replace(new(task_id), created_at=now, expires_at=now + life_s))
    for _ in range(5):
        left = [task_id for task_id, life_s in lives.items() if 1000 + life_s > now]
        assert [task.task_id for task in await store.page("ann", None, 10)] == left[::-1]
        for place, task_id in enumerate(left):
            assert [task.task_id for task in await store.page("ann", task_id, 10)] == left[:place][::-1]
        now += 10
    assert await store.page("ann", None, 10) == []
    assert not store._owned
    assert not store._tasks
    assert not store._leases


# -- in SQLite --------------------------------------------------------------------------------------------------------


async def test_in_sqlite_no_operation_takes_more_steps_among_more_records(tmp_path: Path) -> None:
    """Counted in instructions of SQLite's virtual machine: every query must use an index, and none may count rows."""
    counts: list[dict[str, int]] = []
    for number in (FEW, MANY):
        file = SqliteFile(str(tmp_path / f"{number}.db"))
        store = SqliteTasks(file)
        steps = 0

        def prepare(connection: sqlite3.Connection, now: float, number: int = number) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO ferrule_tasks (task_id, owner, version, created_at, expires_at, leased_until, body) "
                "VALUES (?, 'ann', 1, ?, ?, ?, x'00')",
                [(f"t{index:06}", now, now + 1000 + index, now + 500 + index) for index in range(number)],
            )
            connection.execute("COMMIT")
            connection.set_progress_handler(note, 1)

        def note() -> int:
            nonlocal steps
            steps += 1
            return 0

        await file.run(prepare)
        of_each: dict[str, int] = {}
        for name, call in (await operations(store, f"t{number // 2:06}")).items():
            steps = 0
            await call()
            of_each[name] = steps
        counts.append(of_each)
        await file.aclose()
    few, many = counts
    assert min(few.values()) > 10, "the counter does not count"
    assert {name: taken for name, taken in many.items() if taken > few[name] + 16} == {}


async def test_in_sqlite_the_tasks_of_an_older_release_are_counted(tmp_path: Path) -> None:
    """Such a file has no counts; they are made when it is opened, and updated by every process."""
    path = str(tmp_path / "old.db")
    file = SqliteFile(path)
    for index in range(3):
        await put(SqliteTasks(file), new(f"t{index}", owner="ann" if index else ""))

    def as_old(connection: sqlite3.Connection, now: float) -> None:
        for kind, name in (("TRIGGER", "tasks_added"), ("TRIGGER", "tasks_deleted"), ("TABLE", "task_counts")):
            connection.execute(f"DROP {kind} ferrule_{name}")

    await file.run(as_old)
    await file.aclose()
    file = SqliteFile(path)

    def counts(connection: sqlite3.Connection, now: float) -> dict[str, int]:
        return dict(connection.execute("SELECT owner, tasks FROM ferrule_task_counts").fetchall())

    assert await file.run(counts) == {"": 3, "ann": 2}
    await put(SqliteTasks(file), new("t3", owner="bob"))
    await file.aclose()
    assert await file.run(counts) == {"": 4, "ann": 2, "bob": 1}

    def forget(connection: sqlite3.Connection, now: float) -> None:
        connection.execute("DELETE FROM ferrule_tasks WHERE owner <> 'bob'")

    await file.run(forget)
    assert await file.run(counts) == {"": 1, "bob": 1}
    await file.aclose()


# -- in Redis ---------------------------------------------------------------------------------------------------------


class CountingServer(RedisServer):
    """One that counts how often it is asked."""

    trips = 0

    async def run(self, call: Callable[[Any], Awaitable[T]]) -> T:
        self.trips += 1
        return await super().run(call)


async def commands(server: RedisServer) -> int:
    """How many commands Redis has run, those of scripts included."""
    stats: dict[str, dict[str, Any]] = await server.client.info("commandstats")
    return sum(int(each["calls"]) for name, each in stats.items() if name not in ("cmdstat_info", "cmdstat_ping"))


async def commands_of_each(redis_url: str, number: int) -> dict[str, tuple[int, int]]:
    """Return the round trips and the commands of each operation among so many records."""
    server = CountingServer(redis_url, prefix=f"test-{secrets.token_hex(6)}")
    store = RedisTasks(server)
    for index in range(number):
        await put(store, new(f"t{index:06}", life_s=60))
    of_each: dict[str, tuple[int, int]] = {}
    for name, call in (await operations(store, f"t{number // 2:06}")).items():
        server.trips, before = 0, await commands(server)
        await call()
        of_each[name] = (server.trips, await commands(server) - before)
    await server.aclose()
    return of_each


@pytest.fixture
def quiet_redis(tmp_path: Path) -> Generator[str]:
    """A server that no other test uses: Redis counts the commands of all its clients together."""
    redis = OwnRedis(tmp_path)
    yield redis.url
    redis.close()


async def test_in_redis_no_operation_takes_more_commands_among_more_records(quiet_redis: str) -> None:
    """Nor more than two round trips: one finds the records of a page or a claim, one reads them all."""
    few = await commands_of_each(quiet_redis, FEW)
    many = await commands_of_each(quiet_redis, MANY)
    assert many == few
    assert all(0 < trips <= 2 and 0 < commands <= 40 for trips, commands in many.values())


async def test_in_redis_the_tasks_of_an_older_release_are_listed_and_counted(redis_url: str) -> None:
    """It did not write down when the tasks of an owner end; the first list, or the next task, makes up for it."""
    server = RedisServer(redis_url, prefix=f"test-{secrets.token_hex(6)}")
    store = RedisTasks(server)
    for index in range(3):
        await put(store, new(f"t{index}", life_s=60))
    (lives,) = [key async for key in server.client.scan_iter(f"{server.prefix}:*lives*")]
    await server.client.delete(lives)
    assert [task.task_id for task in await store.page("ann", None, 10)] == ["t2", "t1", "t0"]
    assert 0 < await server.client.pttl(lives) <= 60_000
    await server.client.delete(lives)
    await put(store, new("t3", life_s=60))
    assert await server.client.zcard(lives) == 4
    await server.aclose()
