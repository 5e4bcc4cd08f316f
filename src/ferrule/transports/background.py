"""Tasks that belong to an object instead of a caller's scope, on asyncio and trio.

A client may be opened in one task and closed in another, so its tasks must not belong to a task group or cancel scope
of the caller. On asyncio they are plain tasks, on trio system tasks. `Background.aclose` cancels them all.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Protocol

import anyio

from ferrule.transports.watch import runs_on_trio

__all__ = ["Background", "BackgroundTask"]

logger = logging.getLogger(__name__)


class BackgroundTask(Protocol):
    """A started task."""

    def cancel(self) -> object:
        """Cancel the task."""
        ...


class _Running:
    """A started task. It is also the value of a context variable that the task and all tasks started by it inherit."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: Any = None


_inside: ContextVar[_Running | None] = ContextVar("ferrule-background", default=None)


class Background:
    """Starts tasks and cancels them together. An exception that a task raises is logged."""

    def __init__(self) -> None:
        self._running: set[_Running] = set()
        self._is_closed = False
        self._ended: anyio.Event | None = None

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called; no task is started after that."""
        return self._is_closed

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str = "ferrule") -> BackgroundTask:
        """Run a coroutine in a new task and return the task.

        After `aclose` the coroutine is closed without being run.
        """
        if self._is_closed:
            coroutine.close()
            return _Ended()
        if runs_on_trio():
            return self._start_on_trio(coroutine, name)
        import asyncio

        running = _Running()
        running.handle = task = asyncio.get_running_loop().create_task(_logged(coroutine, name, running))
        self._running.add(running)

        def on_done(task: Any) -> None:
            coroutine.close()  # a task that is cancelled before its first step leaves its coroutine open
            self._remove(running)

        task.add_done_callback(on_done)
        return task

    def _start_on_trio(self, coroutine: Coroutine[Any, Any, Any], name: str) -> BackgroundTask:
        import trio

        running = _Running()
        running.handle = scope = trio.CancelScope()
        self._running.add(running)

        async def run() -> None:
            try:
                with scope:
                    await _logged(coroutine, name, running)
            finally:
                self._remove(running)

        trio.lowlevel.spawn_system_task(run, name=name)
        return scope

    def runs_in(self, task: BackgroundTask) -> bool:
        """Return whether the caller runs in ``task`` or a task started by it, and so must not wait for its end."""
        own = _inside.get()
        return own is not None and own.handle is task

    def _remove(self, running: _Running) -> None:
        self._running.discard(running)
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    async def aclose(self, timeout_s: float = 5.0) -> None:
        """Cancel every task and wait until they have ended, ``timeout_s`` seconds at most. Idempotent.

        If one of these tasks calls it, or a task started by one, that task is neither cancelled nor awaited.
        """
        self._is_closed = True
        own = _inside.get()
        waiting = [running for running in self._running if running is not own]
        for running in waiting:
            running.handle.cancel()
        with anyio.move_on_after(timeout_s, shield=True) as scope:
            while any(running in self._running for running in waiting):
                if self._ended is None:
                    self._ended = anyio.Event()
                await self._ended.wait()
        if scope.cancelled_caught:
            left = sum(running in self._running for running in waiting)
            logger.warning("%d background tasks did not end within %g s", left, timeout_s)


class _Ended:
    def cancel(self) -> None:
        """Do nothing: the task was never started."""


async def _logged(coroutine: Coroutine[Any, Any, None], name: str, running: _Running) -> None:
    _inside.set(running)
    try:
        await coroutine
    except Exception:
        logger.exception("The background task %s failed", name)
