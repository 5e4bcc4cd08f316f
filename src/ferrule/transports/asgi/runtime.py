"""Tasks and timers without a task group, on asyncio and on trio.

Most requests need no second task, so the request path has no task group. Code that needs a task or a timer (watching
for a disconnect, a keep-alive comment, flushing a listener) gets it here.

A coroutine started here must catch its own errors: no task awaits it, and on trio an exception in a system task ends
the program.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakSet

import anyio

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "AsyncioRuntime",
    "Cancellable",
    "EndableWait",
    "Runtime",
    "ThreadRuntime",
    "TrioRuntime",
    "current_runtime",
]

log = logging.getLogger("ferrule.http")


class Cancellable(Protocol):
    """A timer or task that can be cancelled; cancelling it twice, or after its end, does nothing."""

    def cancel(self) -> object: ...


class AsyncioRuntime:
    """Tasks and timers of an asyncio (or uvloop) loop.

    Attributes:
        is_live: whether its loop still runs; another loop may have replaced it (serverless hosts, tests). ``False`` in
            a forked child, where the loop itself still says that it runs.
    """

    __slots__ = ("__weakref__", "_current_task", "_tasks", "is_live", "loop")

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        from asyncio import current_task

        self.loop = loop
        self._current_task = current_task
        # Read per request, so `asyncio.get_running_loop` is avoided: before Python 3.12 it makes a system call.
        self.is_live: Callable[[], bool] = loop.is_running
        # asyncio has only weak references to tasks; without this set a waiting task could be garbage-collected.
        self._tasks: set[asyncio.Task[object]] = set()
        _of_loops.add(self)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Cancellable:
        """Call ``callback`` once, ``delay_s`` seconds from now, in the loop's thread."""
        return self.loop.call_later(delay_s, callback)

    def call_from_signal(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` soon in the loop's thread; may be called from anywhere."""
        self.loop.call_soon_threadsafe(callback)

    def current_task(self) -> "asyncio.Task[Any] | None":
        """Return the task that runs the caller, which can then be cancelled."""
        # With the loop as argument: before Python 3.12 the search for the running one makes a system call.
        return self._current_task(self.loop)

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


_of_loops: WeakSet[AsyncioRuntime] = WeakSet()


def _is_not_live() -> bool:
    """Return ``False``: what `AsyncioRuntime.is_live` says in a forked child."""
    return False


def _forget_loops() -> None:
    """Note in a forked child that the loops of its parent do not run: no thread of the child runs them."""
    for each in _of_loops:
        each.is_live = _is_not_live


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_loops)


class ThreadRuntime(AsyncioRuntime):
    """The runtime of a request that its thread serves (`ferrule.kernel.concurrency.yielding`).

    Its methods are called only after the event loop has gone on with the request.

    Attributes:
        loop: ``None``; no code may look for a task of the event loop before.
    """

    __slots__ = ("_of_loop",)

    def __init__(self, of_loop: AsyncioRuntime) -> None:
        self._of_loop = of_loop
        self.loop: Any = None
        self.is_live = of_loop.is_live

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Cancellable:
        return self._of_loop.call_later(delay_s, callback)

    def call_from_signal(self, callback: Callable[[], object]) -> None:
        self._of_loop.call_from_signal(callback)

    def current_task(self) -> "asyncio.Task[Any] | None":
        return self._of_loop.current_task()

    def spawn(self, function: Callable[[], Coroutine[Any, Any, object]]) -> Cancellable:
        return self._of_loop.spawn(function)


class TrioRuntime:
    """Tasks and timers on trio: a task without a nursery is a system task with a cancel scope of its own.

    Attributes:
        loop: always ``None``, since there is no asyncio loop.
    """

    __slots__ = ("_token",)

    loop = None

    def __init__(self) -> None:
        import trio  # imported here: only programs on trio have it

        self._token = trio.lowlevel.current_trio_token()

    def current_task(self) -> None:
        """Return ``None``: trio cancels by scopes, not by tasks."""

    def call_from_signal(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` soon in the loop's thread; may be called from a signal handler or another thread."""
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
        """Run ``function()`` in a system task with the caller's context variables, as a task of asyncio has them."""
        import trio

        scope = anyio.CancelScope()

        async def scoped() -> None:
            with scope:
                await _logged(function)

        trio.lowlevel.spawn_system_task(scoped, context=copy_context())
        return scope


Runtime: TypeAlias = AsyncioRuntime | TrioRuntime


async def _logged(function: Callable[[], Awaitable[object]]) -> None:
    try:
        await function()
    except Exception:
        # Nothing awaits this task; on trio the exception would end the program.
        log.exception("a background step of the HTTP endpoint failed")


_runtime: Runtime | None = None


def current_runtime() -> Runtime:
    """Return the runtime of the loop that runs the caller; one object per loop, kept while the loop stays the same."""
    global _runtime
    import asyncio  # imported here: a program on trio does not need it

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
    """A wait of one task that another task may end; reusable for the next wait.

    The wait is ended by a cancellation that is absorbed here: the waiting task continues and does not count as
    cancelled.
    """

    __slots__ = ("_cancellations", "_scope", "_task", "_was_ended")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._scope: anyio.CancelScope | None = None
        self._cancellations = 0
        self._was_ended = False

    async def run(self, work: Awaitable[object]) -> bool:
        """Await ``work``; return whether it was awaited to its end, and not ended by `end`."""
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
            if task.uncancel() > self._cancellations:  # and the task was also cancelled from outside
                raise
            return False
        self._task = None
        if self._was_over() and task is not None:
            # The wait had ended already, or the awaited code absorbed the cancellation.
            task.uncancel()
        return True

    def end(self) -> None:
        """End the wait, if there is one."""
        if self._was_ended:
            return
        if self._task is not None:
            self._was_ended = True
            # The count before this cancellation: a higher one afterwards means that another came from outside.
            self._cancellations = self._task.cancelling()
            self._task.cancel()
        elif self._scope is not None:
            self._was_ended = True
            self._scope.cancel()

    def _was_over(self) -> bool:
        was_ended, self._was_ended = self._was_ended, False
        return was_ended
