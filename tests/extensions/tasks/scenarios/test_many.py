"""Tasks that came and went leave nothing; `bench/tasks.py` does the same with 10,000."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.tasks import run
from ferrule import MCPServer
from ferrule.extensions.tasks import Tasks
from ferrule.extensions.tasks import scheduler as scheduler
from tests.extensions.tasks.support import Modern

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "postgres"])
async def test_expired_tasks_leave_no_record_no_key_and_no_object(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The store, the bus, and the objects of this process are counted."""
    stores = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{tmp_path}/tasks.db"}
    store = stores.get(kind, lambda: request.getfixturevalue(f"{kind}_url"))()
    left = await run(300, store)
    assert (left.objects, left.stored, left.listeners) == ({}, 0, 0), left
    # Caches that are full now, and the log of a store that was slow; a run that is kept takes 18,000.
    assert left.bytes_per_task < 6000, left


async def test_what_expired_in_memory_goes_even_when_no_further_task_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client may ever read it again."""
    monkeypatch.setattr(scheduler, "_SWEEP_S", 0.05)
    tasks = Tasks(ttl_s=0.1)
    app = MCPServer("x", extensions=[tasks])

    @app.tool(task="optional")
    async def work() -> str:
        return "x"

    async with app.lowlevel.lifespan():
        await Modern(app).call("work")
        kept = tasks.repository.store._tasks  # type: ignore[attr-defined]
        assert len(kept) == 1
        async with asyncio.timeout(30):
            while kept:
                await asyncio.sleep(0.01)
