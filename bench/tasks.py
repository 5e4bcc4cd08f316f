"""Many tasks, created, polled and expired: what is left of them in memory and in the store.

    python bench/tasks.py                                    10,000 tasks in memory
    python bench/tasks.py --store redis://localhost:6379/0   … in Redis, or a PostgreSQL
    python bench/tasks.py --store sqlite:////tmp/tasks.db    … in SQLite

Counts, not clocks, decide; the times are for the reader.
``tests/extensions/tasks/scenarios/test_many.py`` runs it small.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import secrets
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from ferrule import Client, MCPServer
from ferrule.errors import RemoteError
from ferrule.extensions.tasks import Tasks
from ferrule.extensions.tasks.record import TaskRecord
from ferrule.extensions.tasks.run import TaskRun
from ferrule.stores.postgres.store import PostgresTasks
from ferrule.stores.tasks import MemoryTasks, StoredTask
from ferrule.wire.faults import FerruleError

AT_ONCE = 50
MOST_LOOKS = 600
"""How often, every 0.1 s, is looked whether all have expired, before what is left counts."""


@dataclass(frozen=True)
class Left:
    """What is left when all tasks have expired.

    Attributes:
        objects: records, runs and stored tasks that still exist in this process, by class.
        listeners: on the server's bus, beside the server's own.
        stored: records in the store; in Redis keys of any kind.
        bytes_per_task: growth of the Python heap.
        created_s, polled_s: how long it took.
    """

    objects: dict[str, int]
    listeners: int
    stored: int
    bytes_per_task: float
    created_s: float
    polled_s: float


def _counts() -> dict[str, int]:
    gc.collect()
    kinds = (TaskRecord, TaskRun, StoredTask)
    found = Counter(type(thing).__name__ for thing in gc.get_objects() if issubclass(type(thing), kinds))
    return dict(found)


async def _stored(app: MCPServer[Any], tasks: Tasks, prefix: str) -> int:
    store = tasks.repository.store
    if isinstance(store, MemoryTasks):
        return len(store)
    if prefix.startswith("postgres"):
        server = cast("PostgresTasks", store)._server
        while await server.sweep():
            pass
        stored: int = await server.value(server.sql("SELECT count(*) FROM {schema}.tasks"))
        return stored
    if prefix:
        from redis.asyncio import Redis

        async with Redis.from_url(prefix.partition("?")[0]) as redis:
            pattern = prefix.partition("prefix=")[2] + ":*"
            return len([key async for key in redis.scan_iter(pattern, count=10_000)])
    return len(await store.claim(lease_s=1, limit=1_000_000))


@asynccontextmanager
async def expiry_is_an_end() -> AsyncGenerator[None]:
    """On a machine with much else to do a task may have expired before it is polled."""
    try:
        yield
    except RemoteError as error:
        if "it may have expired" not in str(error):
            raise


async def run(count: int, store: str = "memory:") -> Left:
    """Create, poll and let expire ``count`` tasks, half of them to be cancelled.

    Args:
        store: as of `MCPServer`.
    """
    names = {"redis": "?prefix=bench-", "postgres": "?schema=bench_"}
    prefix = next((store + name + secrets.token_hex(6) for kind, name in names.items() if store.startswith(kind)), "")
    ttl_s = max(3.0, count / 100)
    tasks = Tasks(ttl_s=ttl_s, max_tasks=count + 2 * AT_ONCE, poll_interval_ms=20)
    app = MCPServer("many", store=prefix or store, extensions=[tasks])

    @app.tool(task="optional")
    async def work(number: int) -> int:
        if number % 2:
            await asyncio.Event().wait()  # no sleep: the loop would keep its timer, and the timer its context
        return number

    async with Client(app, mode="2026-07-28") as client:
        ids: dict[int, str] = {}
        gate = asyncio.Semaphore(AT_ONCE)

        async def create(number: int) -> None:
            async with gate:
                handle = await client.start_tool("work", {"number": number})
                ids[number] = handle.task_id or ""

        async def poll(number: int) -> None:
            async with gate, expiry_is_an_end():
                handle = client.task(ids[number], tool="work")
                if number % 2:
                    await handle.cancel()
                    assert (await handle.status()).status == "cancelled"
                else:
                    while not (await handle.status()).is_over:
                        await asyncio.sleep(0.01)

        warm = range(count, count + 2 * AT_ONCE)  # what is made once, connections too, is made
        await asyncio.gather(*(create(number) for number in warm))
        await asyncio.gather(*(poll(number) for number in warm))
        _counts()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        began = time.perf_counter()
        await asyncio.gather(*(create(number) for number in range(count)))
        created = time.perf_counter()
        await asyncio.gather(*(poll(number) for number in range(count)))
        polled = time.perf_counter()
        last = ids[count - 1]
        ids.clear()
        while True:
            try:
                await client.task(last).status()
            except FerruleError:
                break
            await asyncio.sleep(0.1)
        # The last to be asked for need not be the last to have been made, and each ends by its own clock.
        looks = 0
        while True:
            stored, objects, looks = await _stored(app, tasks, prefix), _counts(), looks + 1
            if not (stored or objects) or looks == MOST_LOOKS:
                break
            await asyncio.sleep(0.1)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        listeners = len(app.lowlevel.bus) - 1
    if prefix:
        server = cast("Any", tasks.repository.store)._server
        if prefix.startswith("postgres"):
            await server.value(server.sql("DROP SCHEMA {schema} CASCADE"))
        await server.aclose()
    return Left(objects, listeners, stored, grown / count, created - began, polled - created)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--store", default="memory:")
    options = parser.parse_args()
    left = asyncio.run(run(options.tasks, options.store))
    print(f"{options.tasks} tasks created in {left.created_s:.1f} s and polled or cancelled in {left.polled_s:.1f} s")
    print(f"left: {left.objects or 'no object'}, {left.stored} in the store, {left.listeners} listeners, ", end="")
    print(f"{left.bytes_per_task:.1f} bytes of heap per task")


if __name__ == "__main__":
    main()
