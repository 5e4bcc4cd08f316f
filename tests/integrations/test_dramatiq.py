"""The messages of `DramatiqExecutor`: ids in JSON, and nothing that a forger could make a worker run."""

from __future__ import annotations

import asyncio
import json
import pickle
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from redis.asyncio import Redis

from ferrule.extensions.tasks import Delivery
from ferrule.integrations.dramatiq import DramatiqExecutor

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def working(executor: DramatiqExecutor) -> AsyncGenerator[asyncio.Queue[str]]:
    """A worker; the ids that it was brought."""
    brought: asyncio.Queue[str] = asyncio.Queue()

    async def run(task_id: str) -> None:
        brought.put_nowait(task_id)

    async with executor.connected(run):
        work = asyncio.create_task(executor.work(concurrency=2))
        try:
            async with asyncio.timeout(60):
                yield brought
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def test_a_message_is_an_id_in_json(redis_url: str) -> None:
    """No argument, no result, and no pickle is in the queue."""
    name = f"engine-{secrets.token_hex(6)}"
    executor = DramatiqExecutor(redis_url, name=name)

    async def run(task_id: str) -> None:
        raise AssertionError("nobody works here")

    async with executor.connected(run), Redis.from_url(redis_url) as redis:
        await executor.submit(Delivery("the-id", "tool", 1))
        (raw,) = await redis.hvals(f"{name}:default.msgs")  # type: ignore[misc]
        message = json.loads(raw)
        assert (message["actor_name"], message["args"], message["kwargs"]) == ("ferrule_task", ["the-id"], {})
        async with working(executor) as brought:
            assert await brought.get() == "the-id"
        await redis.delete(*[key async for key in redis.scan_iter(f"{name}:*")])


class Forged:
    """What runs when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return (Path.touch, (self.file,))


async def test_a_forged_message_runs_no_code(redis_url: str, tmp_path: Path) -> None:
    """A pickle, and an actor that does not exist; what was sent after them arrives."""
    name, proof = f"engine-{secrets.token_hex(6)}", tmp_path / "proof"
    pickled = pickle.dumps({"args": (Forged(proof),)})
    unknown = json.dumps(
        {
            "queue_name": "default",
            "actor_name": "os.system",
            "args": [f"touch {proof}"],
            "kwargs": {},
            "options": {"redis_message_id": "two"},
            "message_id": "two",
            "message_timestamp": 1,
        }
    )
    executor = DramatiqExecutor(redis_url, name=name, redelivery_s=1)
    async with Redis.from_url(redis_url) as redis:
        async with working(executor) as brought:
            for message_id, message in (("one", pickled), ("two", unknown)):
                await redis.hset(f"{name}:default.msgs", message_id, message)  # type: ignore[misc,arg-type]
                await redis.rpush(f"{name}:default", message_id)  # type: ignore[misc]
            # What was fetched with the pickle is lost for a while; a task that no worker begins is submitted again.
            while brought.empty():
                await executor.submit(Delivery("the-id", "tool", 1))
                await asyncio.sleep(1)
            assert await brought.get() == "the-id"
            left = int(await redis.llen(f"{name}:default"))  # type: ignore[misc]
            assert left == 0  # both were taken
        await redis.delete(*[key async for key in redis.scan_iter(f"{name}:*")])
    assert not proof.exists()
    with pytest.raises(Exception, match="args"):
        raise ValueError(f"args {pickle.loads(pickled)['args']}")
    assert proof.exists()  # the forgery is one


@pytest.fixture
def pickles() -> Iterator[None]:
    """A program that has changed the encoder of all its messages."""
    before = dramatiq.get_encoder()
    dramatiq.set_encoder(dramatiq.PickleEncoder())
    yield
    dramatiq.set_encoder(before)


@pytest.mark.usefixtures("pickles")
def test_another_encoder_is_refused() -> None:
    """When the executor is made, with the reason."""
    with pytest.raises(RuntimeError, match=r"PickleEncoder.*may run code"):
        DramatiqExecutor("redis://localhost:1")


async def test_an_encoder_that_is_changed_later_is_refused(request: pytest.FixtureRequest) -> None:
    """Before anything is read or written."""
    executor = DramatiqExecutor("redis://localhost:1")
    request.getfixturevalue("pickles")

    async def run(task_id: str) -> None:
        raise AssertionError

    with pytest.raises(RuntimeError, match="PickleEncoder"):
        async with executor.connected(run):
            pass
    with pytest.raises(RuntimeError, match="PickleEncoder"):
        await executor.submit(Delivery("t", "tool", 1))
    with pytest.raises(RuntimeError, match="PickleEncoder"):
        await executor.work(concurrency=1)


def test_a_missing_library_raises_with_the_package_to_install() -> None:
    program = """
import sys
sys.modules["dramatiq"] = None
from ferrule.integrations.dramatiq import DramatiqExecutor
DramatiqExecutor("redis://localhost")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install 'ferrule[dramatiq]'" in done.stderr.strip().splitlines()[-1]
