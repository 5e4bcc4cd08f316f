"""The place where the bodies of tasks run: `TaskExecutor`, and `InProcess`, which is the default.

An executor delivers task ids: it makes a process call `RunTask` with the id. Everything else is in the task's record in
the store: the call, its progress, the process that runs it. Therefore the requirements of an engine are low:

* A delivery may come twice, late, or after the task has ended. `RunTask` takes a task over only while no process runs
  it, and two processes cannot both do that (compare-and-swap in the store).
* A delivery may be lost. A task that no process has begun after ``resubmit_s`` is submitted again, and so is one whose
  process sent no heartbeat for ``lease_s``.
* Cancellations, answers and statuses use the store and its channel, not the engine.

An engine never gets arguments or results, and its own retries and results are not used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = ["Delivery", "InProcess", "RunTask", "TaskExecutor"]

RunTask: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Runs the task with an id in this process; returns when its body has ended, or immediately if there is nothing to do.
It never raises an exception of the body."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A task that a process is to run.

    Attributes:
        task_id: the task id of the task.
        tool: the name of its tool, for engines that route or count by it.
        run: 1 for the first process that is to run it; one more each time that a process was lost.
    """

    task_id: str
    tool: str
    run: int

    @property
    def key(self) -> str:
        """A key that is equal for repetitions of one delivery, for engines that can drop them."""
        return f"{self.task_id}:{self.run}"


class TaskExecutor(Protocol):
    """Delivers tasks to the processes that run them; see the module for its requirements."""

    @property
    def is_local(self) -> bool:
        """Whether a process runs the tasks that it takes, without any delivery to others."""
        ...

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """Return a context manager that opens what `submit` and `work` need; entered while a process serves or works.

        Args:
            run: called by `work` for each delivery.
        """
        ...

    async def submit(self, delivery: Delivery) -> None:
        """Make a working process call ``run(delivery.task_id)``; after an exception it is submitted again later."""
        ...

    async def withdraw(self, delivery: Delivery) -> None:
        """Drop a delivery that is no longer needed; optional, since it has no effect if it arrives."""
        ...

    async def work(self, *, concurrency: int) -> None:
        """Receive deliveries and run their tasks, at most ``concurrency`` at a time, until cancelled."""
        ...


class InProcess:
    """Runs each task in the process that received its call."""

    is_local = True

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """Return a context manager that does nothing."""
        return nullcontext()

    async def submit(self, delivery: Delivery) -> None:
        """Not called: there is nothing to deliver."""

    async def withdraw(self, delivery: Delivery) -> None:
        """Not called."""

    async def work(self, *, concurrency: int) -> None:
        """Wait until cancelled: there are no deliveries; tasks whose lease has run out are claimed by the scheduler."""
        import anyio

        await anyio.sleep_forever()
