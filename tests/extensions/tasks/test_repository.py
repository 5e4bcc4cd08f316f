"""ferrule.extensions.tasks.repository: records of tasks, and what makes their processes read them."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.extensions.tasks.repository import TaskRepository
from ferrule.kernel.server import Server
from ferrule.stores.tasks import MemoryTasks


@pytest.mark.anyio
async def test_lost_wake_ups_make_every_running_task_read_its_record() -> None:
    """One of them may have been cancelled in another process meanwhile."""

    repository = TaskRepository(
        MemoryTasks(), lease_s=9.0, patience_s=0.0, max_tasks=9, max_per_owner=9, max_task_bytes=999
    )
    server: Server[Any] = Server("x")
    repository.serve(server)
    woken: list[str] = []
    stop = repository.on_notify("1", lambda: woken.append("1"))
    repository.on_notify("2", lambda: woken.append("2"))
    server.bus.deliver_gap()
    server.bus.deliver_gap()
    assert woken == ["1", "2", "1", "2"]
    stop()
    server.bus.deliver_gap()
    assert woken[4:] == ["2"]
