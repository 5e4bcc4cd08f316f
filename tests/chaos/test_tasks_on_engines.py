"""Redis away, paused or killed, under a task that an engine brought to a worker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.support import SEED, repeated_effects
from tests.integrations.scenarios.test_task_engines import MODERN, Site
from tests.stores.own_redis import KEEP, OwnRedis

pytestmark = pytest.mark.anyio


ENGINES = ("docket", "dramatiq")


@asynccontextmanager
async def site(engine: str, redis_url: str, folder: Path) -> AsyncGenerator[Site]:
    """A web process and two workers; started in a thread, because both engines are tried side by side."""
    folder.mkdir()
    made = Site(engine, redis_url, folder)
    try:
        made.url = f"http://127.0.0.1:{await asyncio.to_thread(made.start, 'web')}/mcp"
        for _ in range(2):
            assert await asyncio.to_thread(made.start, "worker") == "ready"
        yield made
    finally:
        await asyncio.to_thread(made.close)


async def on_each_engine(trial: Callable[[str], Awaitable[None]]) -> None:
    """Side by side: what takes time is waiting for leases."""
    for engine in ENGINES:
        pytest.importorskip(engine)
    await asyncio.gather(*(trial(engine) for engine in ENGINES))


async def test_a_task_outlasts_its_redis(tmp_path: Path) -> None:
    """Redis is paused, then killed: the body continues, its steps are stored when Redis is back, and none happens
    twice."""

    async def trial(engine: str) -> None:
        folder = tmp_path / f"redis-{engine}"
        folder.mkdir()
        redis = await asyncio.to_thread(OwnRedis, folder, *KEEP)
        try:
            async with site(engine, f"{redis.url}/0", tmp_path / engine) as made, made.client(MODERN) as client:
                for how in ("paused", "killed"):
                    handle = await client.start_tool("work", {"rounds": 4})
                    async for state in handle.events():
                        if (state.message or "").startswith("1 "):
                            break
                    if how == "paused":
                        redis.pause()
                        await asyncio.sleep(3)  # two leases
                        redis.go_on()
                    else:
                        redis.kill()
                        await asyncio.sleep(2)
                        await asyncio.to_thread(redis.start)
                    assert (await handle.result()).text == "0 1 2 3", (engine, how)
                assert made.effects() == ["0", "1", "2", "3"] * 2, engine
                assert (await (await client.start_tool("work", {"rounds": 1})).result()).text == "0", engine
        finally:
            redis.close()

    await on_each_engine(trial)


async def test_random_kills_of_workers_lose_no_task_and_repeat_no_kept_step(redis_url: str, tmp_path: Path) -> None:
    """A worker is killed every now and then and another takes its place, under many tasks at once."""

    async def trial(engine: str) -> None:
        rng = random.Random(f"{SEED} {engine}")
        async with site(engine, redis_url, tmp_path / engine) as made, made.client(MODERN) as client:
            web = next(iter(made.processes))

            async def task(number: int) -> str:
                await asyncio.sleep(rng.uniform(0, 4))
                return (await (await client.start_tool("named", {"name": f"t{number}"})).result()).text

            async def kills() -> None:
                for _ in range(5):
                    await asyncio.sleep(rng.uniform(0.3, 1.2))
                    made.kill(rng.choice([pid for pid in made.processes if pid != web and pid not in made.dead]))
                    await asyncio.to_thread(made.start, "worker")

            *done, _ = await asyncio.gather(*(task(number) for number in range(12)), kills())
        said = f"{engine}, seed {SEED}"
        assert done == [f"t{number}" for number in range(12)], said
        notes = [(word, name) for word, _, name in (line.partition(":") for line in made.effects())]
        assert repeated_effects(notes) == [], said
        assert {name for word, name in notes if word == "kept"} == {f"t{i}/{j}" for i in range(12) for j in range(3)}, (
            said
        )

    await on_each_engine(trial)
