"""Redis away, paused or killed, under a task that an engine brought to a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integrations.test_task_engines import MODERN, Site
from tests.stores.own_redis import OwnRedis

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def site(engine: str, redis: OwnRedis, tmp_path: Path) -> AsyncGenerator[Site]:
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
