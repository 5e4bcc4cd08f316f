"""Passes the server's notifications to the program's handlers: in order, without blocking the loop that reads."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

__all__ = ["MAX_WAITING", "NotificationQueue"]

logger = logging.getLogger("ferrule.client")

MAX_WAITING: Final = 4096
"""Notifications that may wait for slow handlers; beyond it the oldest are dropped."""


class NotificationQueue:
    """Calls handlers one after the other.

    Args:
        start_task: runs a coroutine in a task of the client.
    """

    def __init__(self, start_task: Callable[[Coroutine[Any, Any, None], str], object]) -> None:
        self._start_task = start_task
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque(maxlen=MAX_WAITING)
        self._is_running = False

    def put(self, handler: Callable[..., Any], *arguments: Any) -> None:
        """Call a handler after the earlier ones: at once, unless an async one still runs.

        A sync handler gets the notifications of a call before the call returns.
        """
        if self._is_running:
            self._waiting.append((handler, arguments))
            return
        running = _called(handler, *arguments)
        if running is not None:
            self._is_running = True
            self._start_task(self._run(running), "ferrule-notifications")

    async def _run(self, running: Awaitable[Any] | None) -> None:
        try:
            while True:
                if running is not None:
                    await _finished(running)
                if not self._waiting:
                    return
                handler, arguments = self._waiting.popleft()
                running = _called(handler, *arguments)
        finally:
            self._is_running = False


def _called(handler: Callable[..., Any], *arguments: Any) -> Awaitable[Any] | None:
    """Call a handler and return its awaitable; ``None`` for a sync handler, and for one that raised."""
    try:
        result = handler(*arguments)
    except Exception:
        logger.exception("A handler of notifications failed")
        return None
    return result if hasattr(result, "__await__") else None  # what Python itself asks of an awaitable


async def _finished(running: Awaitable[Any]) -> None:
    try:
        await running
    except Exception:
        logger.exception("A handler of notifications failed")
