"""Notices that a configuration file has changed: by looking at it, and by SIGHUP."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio

__all__ = ["LOOK_EVERY_S", "watch_file"]

LOOK_EVERY_S: Final = 1.0
"""Seconds between two looks; a file is read when it is the same in two of them, so that no half of it is."""

Mark = tuple[int, int, int]


def mark_of(path: Path) -> Mark | None:
    """Return what changes with a file; ``None`` if it is not there."""
    try:
        found = os.stat(path)
    except OSError:  # an editor may be replacing it
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def watch_file(
    path: Path,
    changed: Callable[[], Awaitable[Any]],
    *,
    every_s: float = LOOK_EVERY_S,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> None:
    """Call a function when a file has changed, and at SIGHUP; runs until it is cancelled.

    Args:
        path: the file.
        changed: called after each change.
        every_s: seconds between two looks.
        sleep: waits between two looks.
    """
    async with anyio.create_task_group() as group:
        if hasattr(signal, "SIGHUP") and _may_handle_signals():  # Windows has none
            group.start_soon(_at_hangup, changed)
        taken = seen = mark_of(path)
        while True:
            await sleep(every_s)
            now = mark_of(path)
            if now is not None and now != taken and now == seen:
                taken = now
                await changed()
            seen = now


async def _at_hangup(changed: Callable[[], Awaitable[Any]]) -> None:
    with anyio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            await changed()


def _may_handle_signals() -> bool:
    """Return whether this process takes SIGHUP itself: in a worker the first process does."""
    return threading.current_thread() is threading.main_thread() and "FERRULE_WORKER" not in os.environ
