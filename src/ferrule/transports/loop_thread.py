"""An event loop in a daemon thread, for synchronous code: `SyncClient`, and servers inside a WSGI application.

The loop starts with the first use. After ``os.fork()`` the child gets a loop and a thread of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ferrule.protocol.errors import LocalError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Closable", "LoopThread", "keep_for_parent"]

T = TypeVar("T")

STOP_TIMEOUT_S = 10.0
"""Seconds that what is open may take to close when the process exits."""


class Closable(Protocol):
    """What is closed on the loop before it stops."""

    async def aclose(self) -> None:
        """Close it."""
        ...


class LoopThread:
    """An event loop in its own thread.

    Args:
        name: the name of the thread.

    Attributes:
        open: what is closed when the process exits.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._reset()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._after_fork)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.open: set[Closable] = set()

    def _after_fork(self) -> None:
        """Begin anew in the child: other threads do not exist there, and what is open belongs to the parent."""
        # Closing the parent's loop here, or letting it be collected, would tell the kernel to forget what the parent
        # waits for: a descriptor of epoll is shared by both processes.
        keep_for_parent((self._loop, self.open))
        self._reset()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; wait for it in this thread.

        Raises:
            LocalError: called from the loop's own thread, which would wait for itself.
            Whatever the coroutine raises.
        """
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return its future.

        Raises:
            LocalError: called from the loop's own thread.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise LocalError(
                "A handler must not call synchronously into the event loop that runs it; make it async and await"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self._stop, os.getpid())
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def _stop(self, pid: int) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and pid == os.getpid():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._close_all(), loop).result(STOP_TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)
            if not thread.is_alive():
                loop.close()

    async def _close_all(self) -> None:
        for each in list(self.open):
            await each.aclose()


_of_parents: list[Any] = []


def keep_for_parent(value: Any) -> None:
    """Keep an object of the parent process alive in a forked child, so that its finalizer does not run there."""
    _of_parents.append(value)
