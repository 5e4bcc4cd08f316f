"""`DatabaseExecutor`: tasks run in ``manage.py mcp worker``, and not in the processes that serve requests.

A web process inserts the id of a task; a worker takes it out and runs the task. Of several workers one gets it. If that
one is killed before it has begun, the task is submitted again (see `ferrule.extensions.tasks.executor`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from ferrule.django.models import DeliveryRow
from ferrule.django.store.database import Database, digest, upsert
from ferrule.extensions.tasks import Delivery, RunTask

__all__ = ["DatabaseExecutor"]

logger = logging.getLogger(__name__)

_LIFE_S: Final = 24 * 3600.0
_STOP_S: Final = 5.0


class DatabaseExecutor:
    """A `TaskExecutor` in a database of the project.

    Args:
        using: the alias of the database.
        poll_s: seconds between two looks of an idle worker: the maximum delay of a task.
    """

    is_local = False

    def __init__(self, using: str = "default", *, poll_s: float = 0.5) -> None:
        self._database = Database(using)
        self._poll_s = poll_s
        self._run: RunTask | None = None

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """See `TaskExecutor`."""
        self._run = run
        return nullcontext()

    async def submit(self, delivery: Delivery) -> None:
        """See `TaskExecutor`."""

        def work(now: float) -> None:
            values = {
                "key": digest(delivery.key),
                "task_id": delivery.task_id.encode(),
                "expires_at": now + _LIFE_S,
            }
            upsert(self._database.using, DeliveryRow, ("key",), values)

        await self._database.run(work)

    async def withdraw(self, delivery: Delivery) -> None:
        """See `TaskExecutor`."""

        def work(now: float) -> None:
            self._database.rows(DeliveryRow).filter(key=digest(delivery.key)).delete()

        await self._database.run(work)

    async def work(self, *, concurrency: int) -> None:
        """See `TaskExecutor`."""
        run = self._run
        if run is None:
            raise RuntimeError("A worker works inside the lifespan of its server")
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                taken = await self._take(concurrency - len(running))
                running |= {asyncio.ensure_future(run(task_id)) for task_id in taken}
                if running and len(running) >= concurrency:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                elif not taken:
                    await asyncio.sleep(self._poll_s)
                running = {each for each in running if not each.done()}
        finally:
            for each in running:
                each.cancel()
            if running:
                await asyncio.wait(running, timeout=_STOP_S)

    async def _take(self, limit: int) -> list[str]:
        """Take out the ids of the oldest tasks; none while the database is away."""

        def work(now: float) -> list[str]:
            rows = self._database.rows(DeliveryRow).filter(expires_at__gt=now)
            if self._database.locks_rows:
                rows = rows.select_for_update(skip_locked=True)
            elif not rows.exists():
                return []  # without the lock of the database, which the transaction would take
            with self._database.atomic():
                found = list(rows.order_by("number")[:limit])
                # One by one: the database may be one that locks neither rows nor itself.
                return [
                    bytes(row.task_id).decode()
                    for row in found
                    if self._database.rows(DeliveryRow).filter(pk=row.pk).delete()[0]
                ]

        try:
            return await self._database.run(work)
        except OSError as error:
            logger.warning("Tasks cannot be taken from the database; trying again: %s", error)
            return []
