"""Callbacks for descriptors, timers and blocking calls on asyncio and trio, without a nursery or a cancel scope.

A client's process may be opened in one task and closed in another, so its stderr and its end must not be watched by a
task of the caller. On asyncio the event loop watches them, on trio a system task.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Watch", "call_every", "runs_on_trio", "watch_blocking", "watch_readable"]

T = TypeVar("T")


class Watch(Protocol):
    """A watch that can be cancelled."""

    def cancel(self) -> None:
        """Stop the callbacks. Idempotent. Must be called before the descriptor is closed."""
        ...


def runs_on_trio() -> bool:
    """Return whether the running event loop is trio's; asyncio otherwise."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def watch_readable(fd: int, callback: Callable[[], bool]) -> Watch:
    """Call back in the loop's thread whenever ``fd`` is readable, until the callback returns ``False``.

    Raises:
        OSError, ValueError, NotImplementedError, RuntimeError: the loop cannot wait for this descriptor.
    """
    return _TrioWatch(fd, callback) if runs_on_trio() else _AsyncioWatch(fd, callback)


def watch_blocking(call: Callable[[], T], callback: Callable[[T], None], *, name: str) -> None:
    """Run ``call`` in a daemon thread and pass its result to ``callback`` in the loop's thread, if the loop still runs.

    ``call`` must not raise: it reports failures through its result.
    """
    deliver: Callable[..., object]
    if runs_on_trio():
        import trio

        deliver = trio.lowlevel.current_trio_token().run_sync_soon
        loop_closed: type[Exception] = trio.RunFinishedError
    else:
        import asyncio

        deliver = asyncio.get_running_loop().call_soon_threadsafe
        loop_closed = RuntimeError

    def run() -> None:
        result = call()
        with contextlib.suppress(loop_closed):
            deliver(callback, result)

    threading.Thread(target=run, name=name, daemon=True).start()


def call_every(interval_s: float, callback: Callable[[], bool]) -> Watch:
    """Call back in the loop's thread every ``interval_s`` seconds, until the callback returns ``False``."""
    return _TrioTimer(interval_s, callback) if runs_on_trio() else _AsyncioTimer(interval_s, callback)


class _AsyncioTimer:
    def __init__(self, interval_s: float, callback: Callable[[], bool]) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._interval_s = interval_s
        self._callback = callback
        self._handle = self._loop.call_later(interval_s, self._ring)

    def cancel(self) -> None:
        self._handle.cancel()

    def _ring(self) -> None:
        if self._callback():
            self._handle = self._loop.call_later(self._interval_s, self._ring)


class _TrioTimer:
    def __init__(self, interval_s: float, callback: Callable[[], bool]) -> None:
        import trio

        self._interval_s = interval_s
        self._callback = callback
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._run)

    def cancel(self) -> None:
        self._scope.cancel()

    async def _run(self) -> None:
        import trio

        with self._scope:
            while True:
                await trio.sleep(self._interval_s)
                if not self._callback():
                    return


class _AsyncioWatch:
    def __init__(self, fd: int, callback: Callable[[], bool]) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._callback = callback
        self._loop.add_reader(fd, self._on_readable)

    def cancel(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(fd)

    def _on_readable(self) -> None:
        if self._fd >= 0 and not self._callback():
            self.cancel()


class _TrioWatch:
    def __init__(self, fd: int, callback: Callable[[], bool]) -> None:
        import trio

        self._fd = fd
        self._callback = callback
        trio.lowlevel.spawn_system_task(self._run)

    def cancel(self) -> None:
        import trio

        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)

    async def _run(self) -> None:
        """Run as a system task, which must not raise: trio would end the program."""
        import trio

        with contextlib.suppress(OSError, trio.ClosedResourceError):
            while self._fd >= 0:
                await trio.lowlevel.wait_readable(self._fd)
                if self._fd >= 0 and not self._callback():
                    return
