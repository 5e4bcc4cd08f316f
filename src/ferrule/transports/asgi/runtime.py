"""Bare tasks and timers, on asyncio and on trio.

The request path owns no task group: a request that needs no second task must not pay for one. What does need one
(watching for a vanished client, a keep-alive comment, flushing a listener) asks this module for a bare task or a
timer.

A coroutine started here must catch its own errors. Nobody waits for it, and on trio an exception in a system task
ends the whole program.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncioRuntime", "Cancellable", "EndableWait", "Runtime", "TrioRuntime", "current_runtime"]

log = logging.getLogger("ferrule.http")


class Cancellable(Protocol):
    """A timer or a task that can be called off; calling it off twice, or too late, does nothing."""

    def cancel(self) -> object: ...


class AsyncioRuntime:
    """What the HTTP code needs from an asyncio (or uvloop) loop beyond ``await``.

    Attributes:
        is_live: whether its loop still runs; another may have taken its place (serverless hosts, tests).
    """

    __slots__ = ("_tasks", "is_live", "loop")

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self.loop = loop
        # Asked per request, so not by looking for the running loop: until Python 3.12 that is a system call.
        self.is_live: Callable[[], bool] = loop.is_running
        # The loop holds tasks weakly; without this set a waiting task could be collected in mid-flight.
        self._tasks: set[asyncio.Task[object]] = set()

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Cancellable:
        """Call ``callback`` once, ``delay_s`` seconds from now, in the loop's thread."""
        return self.loop.call_later(delay_s, callback)

    def call_from_signal(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` soon in the loop's thread; may be called from anywhere."""
        self.loop.call_soon_threadsafe(callback)

    def current_task(self) -> "asyncio.Task[Any] | None":
        """Return the task that runs the caller, which can then be cancelled."""
        from asyncio import current_task

        return current_task(self.loop)  # without the loop it would ask for the running one, a system call before 3.12

    def spawn(self, function: Callable[[], Coroutine[Any, Any, object]]) -> Cancellable:
        """Run ``function()`` in a task of its own, without waiting for it; its failure is logged."""
        task = self.loop.create_task(function())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background step of the HTTP endpoint failed", exc_info=error)


class TrioRuntime:
    """The same on trio, where a bare task is a system task under a scope of its own.

    Attributes:
        loop: ``None``: there is no asyncio loop.
    """

    __slots__ = ("_token",)

    loop = None

    def __init__(self) -> None:
        import trio  # lazy: only a program that runs on trio has it

        self._token = trio.lowlevel.current_trio_token()

    def current_task(self) -> None:
        """Trio cancels by scopes, not by tasks."""

    def call_from_signal(self, callback: Callable[[], object]) -> None:
        """As on asyncio."""
        self._token.run_sync_soon(callback)

    def is_live(self) -> bool:
        """Return whether the trio run of this object is the running one."""
        import trio

        try:
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:
            return False

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Cancellable:
        async def wait_and_call() -> None:
            await anyio.sleep(delay_s)
            callback()

        return self.spawn(wait_and_call)

    def spawn(self, function: Callable[[], Awaitable[object]]) -> Cancellable:
        import trio

        scope = anyio.CancelScope()

        async def scoped() -> None:
            with scope:
                await _logged(function)

        trio.lowlevel.spawn_system_task(scoped)
        return scope


Runtime: TypeAlias = AsyncioRuntime | TrioRuntime


async def _logged(function: Callable[[], Awaitable[object]]) -> None:
    try:
        await function()
    except Exception:
        log.exception("a background step of the HTTP endpoint failed")


_runtime: Runtime | None = None


def current_runtime() -> Runtime:
    """Return the runtime of the loop that runs the caller; one object per loop, kept while the loop stays the same."""
    global _runtime
    import asyncio  # lazy: a trio program need not pay for it

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if not isinstance(_runtime, TrioRuntime) or not _runtime.is_live():
            _runtime = TrioRuntime()
        return _runtime
    if not isinstance(_runtime, AsyncioRuntime) or _runtime.loop is not loop:
        _runtime = AsyncioRuntime(loop)
    return _runtime


class EndableWait:
    """Something that one task waits for, and that another task may end; used again for the next wait.

    It is a cancellation that stays inside: the task that waited goes on, and is not marked as cancelled.
    """

    __slots__ = ("_cancellations", "_scope", "_task", "_was_ended")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._scope: anyio.CancelScope | None = None
        self._cancellations = 0
        self._was_ended = False

    async def run(self, work: Awaitable[object]) -> bool:
        """Await ``work``; ``False`` when it was ended."""
        self._was_ended = False
        runtime = current_runtime()
        if isinstance(runtime, TrioRuntime):
            try:
                with anyio.CancelScope() as self._scope:
                    await work
            finally:
                self._scope = None
            return not self._was_over()
        task = self._task = runtime.current_task()
        try:
            await work
        except BaseException as exc:
            self._task = None
            from asyncio import CancelledError

            if task is None or not self._was_over() or not isinstance(exc, CancelledError):
                raise
            if task.uncancel() > self._cancellations:  # and somebody else cancelled it
                raise
            return False
        self._task = None
        if self._was_over() and task is not None:  # ended in vain: it was over, or somebody took the cancellation
            task.uncancel()
        return True

    def end(self) -> None:
        """End the wait, if there is one."""
        if self._was_ended:
            return
        if self._task is not None:
            self._was_ended = True
            self._cancellations = self._task.cancelling()
            self._task.cancel()
        elif self._scope is not None:
            self._was_ended = True
            self._scope.cancel()

    def _was_over(self) -> bool:
        was_ended, self._was_ended = self._was_ended, False
        return was_ended
