"""Coroutines run for synchronous code: a command, or a test.

Synchronous functions, views, and the ORM inside async functions run meanwhile in the thread that waits. They have its
database connections and its transaction: that of a test case, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ferrule.django.threads import with_request_thread
from ferrule.transports.loop_thread import HostThread, LoopThread

__all__ = ["run_and_wait"]

T = TypeVar("T")

_loop = LoopThread("ferrule-django")


def run_and_wait(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, which runs on an event loop in another thread; Ctrl-C cancels it.

    Raises:
        RuntimeError: an event loop runs in this thread, which would wait for itself.
        BaseException: any exception of the coroutine.
    """
    if _runs_a_loop():
        work.close()
        raise RuntimeError("An event loop runs in this thread; use the async method of this name, with an a before it")
    found: T = with_request_thread(lambda: HostThread().wait_for(_loop, work))
    return found


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
