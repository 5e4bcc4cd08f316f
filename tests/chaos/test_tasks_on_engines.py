"""Redis away, paused or killed, under a task that an engine brought to a worker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.support import SEED, repeated_effects
from tests.integrations.test_task_engines import MODERN, Site
from tests.stores.own_redis import OwnRedis

pytestmark = pytest.mark.anyio


class OneRedis:
    """One that nobody pauses."""

    def __init__(self, url: str) -> None:
        self.url = url.rpartition("/")[0]


@asynccontextmanager
async def site(engine: str, redis: OwnRedis | OneRedis, tmp_path: Path) -> AsyncGenerator[Site]:
    made = Site(engine, f"{redis.url}/0", tmp_path)
    try:
        made.url = f"http://127.0.0.1:{made.start('web')}/mcp"
        for _ in range(2):
            assert made.start("worker") == "ready"
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("engine", ["docket", "dramatiq"])
@pytest.mark.parametrize("how", ["paused", "killed"])
async def test_a_task_outlasts_its_redis(engine: str, how: str, tmp_path: Path) -> None:
    """The body goes on, what it takes is kept once Redis is back, nothing happens twice, and the next task runs."""
    pytest.importorskip(engine)
    redis = OwnRedis(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    try:
        async with site(engine, redis, tmp_path) as made, made.client(MODERN) as client:
            handle = await client.start_tool("work", {"rounds": 6})
            async for state in handle.events():
                if (state.message or "").startswith("1 "):
                    break
            if how == "paused":
                redis.pause()
                await asyncio.sleep(5)
                redis.go_on()
            else:
                redis.kill()
                await asyncio.sleep(2)
                redis.start()
            assert (await handle.result()).text == "0 1 2 3 4 5"
            assert made.effects() == ["0", "1", "2", "3", "4", "5"]
            assert (await (await client.start_tool("work", {"rounds": 1})).result()).text == "0"
    finally:
        redis.close()


@pytest.mark.parametrize("engine", ["docket", "dramatiq"])
async def test_random_kills_of_workers_lose_no_task_and_repeat_no_kept_step(
    engine: str, redis_url: str, tmp_path: Path
) -> None:
    """A worker is killed every now and then and another takes its place, under many tasks at once."""
    pytest.importorskip(engine)
    rng = random.Random(SEED)
    async with site(engine, OneRedis(redis_url), tmp_path) as made, made.client(MODERN) as client:
        web = next(iter(made.processes))

        async def task(number: int) -> str:
            await asyncio.sleep(rng.uniform(0, 4))
            return (await (await client.start_tool("named", {"name": f"t{number}"})).result()).text

        async def kills() -> None:
            for _ in range(5):
                await asyncio.sleep(rng.uniform(0.3, 1.2))
                made.kill(rng.choice([pid for pid in made.processes if pid != web and pid not in made.dead]))
                await asyncio.to_thread(made.start, "worker")

        killing = asyncio.ensure_future(kills())
        done = await asyncio.gather(*(task(number) for number in range(12)))
        await killing
    assert done == [f"t{number}" for number in range(12)], SEED
    notes = [(word, name) for word, _, name in (line.partition(":") for line in made.effects())]
    assert repeated_effects(notes) == [], SEED
    assert {name for word, name in notes if word == "kept"} == {f"t{i}/{j}" for i in range(12) for j in range(3)}, SEED
