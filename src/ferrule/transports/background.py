"""Tasks that belong to an object instead of a caller's scope, on asyncio and trio.

A client is opened in one task and closed in another, so nothing of it may live in a task group or cancel scope of
whoever called: on asyncio its tasks are plain tasks, on trio system tasks. `Background.aclose` ends them all.
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
        """Ask it to end."""
        ...


class _Running:
    """One task: what cancels it. Also what tells it, and the tasks that it starts itself, from all others."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: Any = None


_inside: ContextVar[_Running | None] = ContextVar("ferrule-background", default=None)


class Background:
    """Starts tasks and ends them together. An exception that a task lets out is logged."""

    def __init__(self) -> None:
        self._running: set[_Running] = set()
        self._is_closed = False
        self._ended: anyio.Event | None = None

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

        running = _Running()
        running.handle = task = asyncio.get_running_loop().create_task(_logged(coroutine, name, running))
        self._running.add(running)

        def forget(task: Any) -> None:
            coroutine.close()  # of a task that was cancelled before its first step; else it has ended already
            self._forget(running)

        task.add_done_callback(forget)
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
                self._forget(running)

        trio.lowlevel.spawn_system_task(run, name=name)
        return scope

    def runs_in(self, task: BackgroundTask) -> bool:
        """Whether the caller is a task that was started here, or was started by it: then it cannot wait for its end."""
        own = _inside.get()
        return own is not None and own.handle is task

    def _forget(self, running: _Running) -> None:
        self._running.discard(running)
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    async def aclose(self, timeout_s: float = 5.0) -> None:
        """Cancel every task and wait until they have ended, ``timeout_s`` seconds at most. Idempotent.

        One of these tasks, and whatever it has started, may call it: that one is not cancelled and not waited for.
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
        """Nothing runs."""


async def _logged(coroutine: Coroutine[Any, Any, None], name: str, running: _Running) -> None:
    _inside.set(running)
    try:
        await coroutine
    except Exception:
        logger.exception("The background task %s failed", name)
