"""The tasks of one process: those that run here, deliveries of an executor, and tasks whose lease has run out.

Each process with a durable store renews the leases of the tasks that it runs, and claims those whose lease has run out.
A claimed task that no process has begun is delivered (again). One whose process sent no heartbeat is delivered to
another process if its tool is resumable, and fails with the reason otherwise.

A process takes a task over by one compare-and-swap of its record (`TaskScheduler.run`). Neither a delivery nor a lease
is a permission to run it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ferrule.extensions.tasks.context import rebuilt_context
from ferrule.extensions.tasks.executor import Delivery, TaskExecutor
from ferrule.extensions.tasks.record import TaskRecord, read_record
from ferrule.extensions.tasks.repository import TaskGone, TaskRepository, TasksUnavailable
from ferrule.extensions.tasks.run import TaskRun
from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.kernel.server import Server
from ferrule.stores.tasks import MemoryTasks
from ferrule.wire.faults import FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent

__all__ = ["TaskScheduler"]

logger = logging.getLogger("ferrule.tasks")

# The rest stays for other processes, which share the work after one has ended.
_CLAIMED_AT_ONCE: Final = 16
_STOP_S: Final = 5.0
_SWEEP_S: Final = 30.0


class TaskScheduler:
    """Runs and claims the tasks of one process; see the module.

    Args:
        repository: returns the repository of the records.
        executor: delivers tasks to processes.
        resubmit_s: seconds after which a task that no process has begun is submitted again.

    Attributes:
        runs: bodies that run in this process, also of calls that are not tasks (yet).
        tools: the tools that can be tasks, by name.
    """

    def __init__(self, repository: Callable[[], TaskRepository], executor: TaskExecutor, *, resubmit_s: float) -> None:
        self.executor = executor
        self.resubmit_s = resubmit_s
        self.runs: dict[TaskRun, None] = {}
        self.tools: dict[str, ToolComponent] = {}
        self._find_repository = repository
        self._entered = 0
        self._is_stopping = False
        self._server: Server[Any] | None = None
        self._state: Any = None

    # -- running tasks --------------------------------------------------------------------------------------------

    def start(self, run: TaskRun) -> None:
        """Start a body in this process."""
        self.runs[run] = None
        run.start()

    def forget(self, run: TaskRun) -> None:
        """Remove a body that has ended."""
        self.runs.pop(run, None)
        if not self.runs:
            self.runs.clear()  # a dict keeps the memory of its largest size until it is cleared

    async def submit(self, record: TaskRecord) -> None:
        """Submit a queued task to the executor; after an error it is submitted again when the lease has run out."""
        try:
            await self.executor.submit(Delivery(record.task_id, record.tool, record.runs + 1))
        except Exception as error:
            logger.warning(
                "Task %s could not be given to the engine (%s); it is tried again in %g s",
                record.task_id,
                str(error) or type(error).__name__,
                self.resubmit_s,
            )

    async def withdraw(self, record: TaskRecord) -> None:
        """Withdraw the delivery of a task that has ended before a process began it."""
        try:
            await self.executor.withdraw(Delivery(record.task_id, record.tool, record.runs + 1))
        except Exception as error:
            logger.debug("Task %s could not be withdrawn from the engine: %s", record.task_id, error)

    async def run(self, task_id: str) -> None:
        """Take a queued task over and run it to its end; do nothing if it is not queued any more (`RunTask`)."""
        if self._is_stopping:  # release it, so that another process can claim it immediately
            with suppress(TaskGone):
                await self._find_repository().change(
                    task_id, lambda record: record.is_queued, release=True, announce=False
                )
            return
        run = await self._take(task_id)
        if run is not None:
            try:
                await asyncio.shield(run.ended)
            except asyncio.CancelledError:  # the engine stops its worker
                run.give_up()
                await asyncio.wait([run.ended], timeout=_STOP_S)
                raise

    async def _take(self, task_id: str) -> TaskRun | None:
        repository, server = self._find_repository(), self._server
        if server is None:
            raise RuntimeError("Tasks are run inside the lifespan of their server")
        found = await repository.find(task_id)
        if found is None or found[1].is_over or not found[1].is_queued:
            return None
        tool = self.tools.get(found[1].tool)
        if tool is None:
            logger.warning("Task %s is for the tool %r, which this process does not have", task_id, found[1].tool)
            return None
        mark = secrets.token_urlsafe(12)

        def take(record: TaskRecord) -> bool:
            if not record.is_queued:
                return False
            record.is_queued, record.runner, record.runs = False, mark, record.runs + 1
            return True

        try:
            record = await repository.change(task_id, take, known=found[0], renew=True, announce=False)
            stored = await repository.find(task_id)
        except TaskGone:
            return None
        # By the mark and not by the result of `take`: a write whose response was lost has taken place.
        if record.is_over or record.runner != mark or stored is None:
            return None
        if record.runs > 1:
            logger.info("Resuming task %s of tool %r, which another process began", task_id, record.tool)
        ctx = rebuilt_context(record, server, self._state)
        run = TaskRun(repository, record.tool, tool.body(), record.arguments, ctx, None, on_end=self.forget)
        run.resume(*stored)
        self.start(run)
        return run

    # -- the process ----------------------------------------------------------------------------------------------

    async def work(self, concurrency: int) -> None:
        """Receive deliveries until cancelled; then end the running tasks, before the engine waits for them."""
        working = asyncio.ensure_future(self.executor.work(concurrency=concurrency))
        try:
            await asyncio.shield(working)
        finally:
            self._is_stopping = True
            await self._give_up()
            working.cancel()
            await asyncio.wait([working], timeout=_STOP_S)

    @asynccontextmanager
    async def running(self, server: Server[Any], state: Any) -> AsyncGenerator[None]:
        """Renew and claim tasks while the server runs; several clients in one process may enter it for one server."""
        self._entered += 1
        self._server, self._state = server, state
        async with self.executor.connected(self.run):
            keep = self._sweep if isinstance(self._find_repository().store, MemoryTasks) else self._renew_and_claim
            # On other event loops there are no tasks.
            upkeep = asyncio.get_running_loop().create_task(keep()) if is_asyncio() else None
            try:
                yield
            finally:
                if upkeep is not None:
                    upkeep.cancel()
                self._entered -= 1
                if not self._entered:
                    await self._give_up()

    async def _give_up(self) -> None:
        """End the running tasks; other processes may claim resumable ones immediately."""
        runs = list(self.runs)
        for run in runs:
            run.give_up()
        if runs:
            await asyncio.wait([run.ended for run in runs], timeout=_STOP_S)

    async def _sweep(self) -> None:
        """Delete expired records in memory at intervals, in case that no new task is added."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            await self._find_repository().store.claim(lease_s=1, limit=0)

    async def _renew_and_claim(self) -> None:
        """Renew the leases of the running tasks, and claim tasks whose lease has run out."""
        # Several attempts within one lease, so that a short outage of the store loses none.
        pause_s = self._find_repository().lease_s / 5
        while True:
            try:
                await self._send_heartbeats()
                await self._claim()
            except Exception:
                logger.exception("The leases of this process's tasks could not be renewed; trying again")
            await asyncio.sleep(pause_s)

    async def _send_heartbeats(self) -> None:
        for run in list(self.runs):
            try:
                await run.heartbeat()
            except TasksUnavailable:
                raise
            except Exception:  # of this record alone: the leases of the others must not run out
                logger.exception("The lease of task %s could not be renewed; trying again", run.task_id)

    async def _claim(self) -> None:
        for stored in await self._find_repository().claim(_CLAIMED_AT_ONCE):
            try:
                record = read_record(stored.body)
            except FerruleError:  # of a later version, or damaged; its lease keeps it from the next claims for a while
                logger.exception("The record of task %s cannot be read", stored.task_id)
                continue
            if any(run.task_id == record.task_id for run in self.runs):
                continue  # it runs in this process, whose heartbeat was late
            try:
                await self._deliver(record)
            except TaskGone:
                continue
            except Exception:
                logger.exception("Task %s could not be resumed", record.task_id)
                await self._fail(record, "The task could not be resumed")

    async def _deliver(self, record: TaskRecord) -> None:
        """Deliver a claimed task to a process that runs tasks, if it may be run (again); otherwise let it fail."""
        tool = self.tools.get(record.tool)
        if not record.is_queued and not (record.resumable and tool is not None and tool.resumable):
            await self._fail(record, "The process that ran this task has ended, and its tool is not resumable")
            return
        number = record.runs

        def queue(record: TaskRecord) -> bool:
            if record.runs != number:
                return False
            record.is_queued = True
            return True

        lease_s = None if self.executor.is_local else self.resubmit_s
        record = await self._find_repository().change(
            record.task_id, queue, renew=True, lease_s=lease_s, announce=False
        )
        if record.is_over or not record.is_queued:
            return
        if self.executor.is_local:
            await self._take(record.task_id)
        else:
            await self.submit(record)

    async def _fail(self, record: TaskRecord, why: str) -> None:
        number = record.runs

        def fail(record: TaskRecord) -> bool:
            if record.runs != number:
                return False
            TaskRun.close(record, "failed")
            record.status_message = why
            record.error = {"code": int(JsonRpcErrorCode.INTERNAL_ERROR), "message": why}
            return True

        try:
            await self._find_repository().change(record.task_id, fail)
        except TaskGone:
            return
