"""Calls of functions in the thread of an asyncio event loop, for code that runs in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

__all__ = ["from_thread", "runs_in"]

T = TypeVar("T")

_LOOK_S: Final = 1.0
"""Seconds after which a waiting thread checks whether the loop is closed."""


def runs_in(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether this code is called by an event loop, in the loop's thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def from_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> T:
    """Let an event loop call ``work`` as soon as possible, wait for it in this thread, and return its result.

    Raises:
        RuntimeError: the loop is closed.
        Exception: any exception of ``work``.
    """
    done: Future[T] = Future()

    def do() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    loop.call_soon_threadsafe(do)
    while True:
        try:
            return done.result(_LOOK_S)
        except TimeoutError:
            if done.done():
                raise
            if loop.is_closed():
                raise RuntimeError("The event loop of this call is closed") from None
