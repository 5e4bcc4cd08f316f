"""Where the bodies of tasks run: `TaskExecutor`, and `InProcess`, which is the default.

An executor delivers: it has some process call `RunTask` with a task's id. All else is in the task's record, which the
store keeps: what to call, how far it came, who runs it. Hence little is asked of an engine:

* A delivery may come twice, late, or after the task has ended. `RunTask` takes a task over only while nobody has it,
  and two processes cannot both do that (compare-and-swap in the store).
* A delivery may be lost. A task that nobody has begun after ``resubmit_s`` is submitted again, and so is one whose
  process fell silent for ``lease_s``, by whichever process looks first.
* Cancelling, answers and status go through the store and its channel, not through the engine.

Rule a newcomer would break: an engine never sees arguments or results, and its own retries and results stay unused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = ["Delivery", "InProcess", "RunTask", "TaskExecutor"]

RunTask: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Run the task with this id here; done when its body has ended, or at once when there is nothing to do. Never raises
for what the body does."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A task that some process shall run.

    Attributes:
        task_id: which.
        tool: its tool's name, for engines that route or count by it.
        run: 1 for the first process that is to run it, one more each time that one was lost.
    """

    task_id: str
    tool: str
    run: int

    @property
    def key(self) -> str:
        """Equal for repetitions of one delivery, for engines that can drop them."""
        return f"{self.task_id}:{self.run}"


class TaskExecutor(Protocol):
    """Brings tasks to the processes that run them; see the module for what it need not care about."""

    @property
    def is_local(self) -> bool:
        """Whether a process runs the tasks that it takes, without any delivery to others."""
        ...

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """Held while a process serves or works: opens what `submit` and `work` need.

        Args:
            run: what `work` calls for each delivery.
        """
        ...

    async def submit(self, delivery: Delivery) -> None:
        """Have a process that works call ``run(delivery.task_id)``. Errors are logged, and it is tried again later."""
        ...

    async def withdraw(self, delivery: Delivery) -> None:
        """Nobody needs this delivery any more; dropping it saves room, and nothing depends on it."""
        ...

    async def work(self, *, concurrency: int) -> None:
        """Take deliveries, at most so many at a time, until cancelled; inside `connected`."""
        ...


class InProcess:
    """Runs a task in the process that took its call."""

    is_local = True

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """Nothing to open."""
        return nullcontext()

    async def submit(self, delivery: Delivery) -> None:
        """Not called: there is nothing to deliver."""

    async def withdraw(self, delivery: Delivery) -> None:
        """Not called."""

    async def work(self, *, concurrency: int) -> None:
        """Nothing comes from elsewhere; what belongs to nobody is taken over by every process with the store."""
        import anyio

        await anyio.sleep_forever()
