"""Tasks that belong to an object instead of a caller's scope, on asyncio and trio.

A client is opened in one task and closed in another, so nothing of it may live in a task group or cancel scope of
whoever called: on asyncio its tasks are plain tasks, on trio system tasks. `Background.aclose` ends them all.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any, Protocol

import anyio

from ferrule.transports._watch import runs_on_trio

__all__ = ["Background", "BackgroundTask"]

logger = logging.getLogger(__name__)


class BackgroundTask(Protocol):
    """A started task."""

    def cancel(self) -> object:
        """Ask it to end."""
        ...


class Background:
    """Starts tasks and ends them together. An exception that a task lets out is logged."""

    def __init__(self) -> None:
        self._running: set[Any] = set()
        self._is_closed = False
        self._idle: anyio.Event | None = None

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called; nothing starts any more."""
        return self._is_closed

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str = "ferrule") -> BackgroundTask:
        """Run a coroutine in a task of its own."""
        if self._is_closed:
            coroutine.close()
            return _Ended()
        if runs_on_trio():
            return self._start_on_trio(coroutine, name)
        import asyncio

        task = asyncio.get_running_loop().create_task(_logged(coroutine, name))
        self._running.add(task)

        def forget(task: Any) -> None:
            coroutine.close()  # of a task that was cancelled before its first step; else it has ended already
            self._forget(task)

        task.add_done_callback(forget)
        return task

    def _start_on_trio(self, coroutine: Coroutine[Any, Any, Any], name: str) -> BackgroundTask:
        import trio

        scope = trio.CancelScope()
        self._running.add(scope)

        async def run() -> None:
            try:
                with scope:
                    await _logged(coroutine, name)
            finally:
                self._forget(scope)

        trio.lowlevel.spawn_system_task(run, name=name)
        return scope

    def _forget(self, task: Any) -> None:
        self._running.discard(task)
        if not self._running and self._idle is not None:
            self._idle.set()

    async def aclose(self, timeout_s: float = 5.0) -> None:
        """Cancel every task and wait until they have ended, ``timeout_s`` seconds at most. Idempotent."""
        self._is_closed = True
        own = _current_task()
        for task in list(self._running):
            if task is not own:
                task.cancel()
        waiting = [task for task in self._running if task is not own]
        if not waiting:
            return
        self._idle = anyio.Event()
        with anyio.move_on_after(timeout_s, shield=True) as scope:
            while any(task in self._running for task in waiting):
                if own in self._running and len(self._running) == 1:
                    break
                await self._idle.wait()
                self._idle = anyio.Event()
        if scope.cancelled_caught:
            logger.warning("%d background tasks did not end within %g s", len(self._running), timeout_s)


def _current_task() -> Any:
    if runs_on_trio():
        return None
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class _Ended:
    def cancel(self) -> None:
        """Nothing runs."""


async def _logged(coroutine: Coroutine[Any, Any, Any], name: str) -> None:
    try:
        await coroutine
    except Exception:
        logger.exception("The background task %s failed", name)
