"""Any queue can carry tasks: `TaskExecutor` on dramatiq, which runs its actors in threads and is not an asyncio
library.

    pip install 'ferrule[redis]' 'dramatiq[redis]'

An actor gets a task's id and waits, in its thread, for the event loop that runs the body. Dramatiq's own retries and
time limits are off: the task's record says whether it may run again, and its ``ttl_s`` when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from ferrule.extensions.tasks import Delivery, RunTask


class DramatiqExecutor:
    """Tasks on dramatiq.

    Args:
        url: of Redis.
        name: prefix of dramatiq's keys.
    """

    is_local = False

    def __init__(self, url: str, *, name: str = "ferrule-tasks") -> None:
        self._broker = RedisBroker(url=url, namespace=name, middleware=[])
        declare: Any = dramatiq.actor
        self._actor = declare(self._act, actor_name="ferrule_task", broker=self._broker)
        self._run: RunTask | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _act(self, task_id: str) -> None:
        assert self._run is not None
        assert self._loop is not None
        run = self._run

        async def body() -> None:
            await run(task_id)

        asyncio.run_coroutine_threadsafe(body(), self._loop).result()

    @asynccontextmanager
    async def connected(self, run: RunTask) -> AsyncGenerator[None]:
        """Connections are opened as they are needed; what remains is to know where bodies run."""
        self._run, self._loop = run, asyncio.get_running_loop()
        try:
            yield
        finally:
            await asyncio.to_thread(self._broker.close)

    async def submit(self, delivery: Delivery) -> None:
        """One message with the id."""
        await asyncio.to_thread(self._actor.send, delivery.task_id)

    async def withdraw(self, delivery: Delivery) -> None:
        """Dramatiq cannot delete a message; the worker that receives it finds the task ended."""

    async def work(self, *, concurrency: int) -> None:
        """One thread for each task at a time."""
        worker = dramatiq.Worker(self._broker, worker_threads=concurrency)
        worker.start()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(asyncio.to_thread(worker.stop))
