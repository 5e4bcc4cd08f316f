"""Passes the server's notifications to the program's handlers: in order, without blocking the loop that reads."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ferrule.wire.codec import encode
from ferrule.wire.faults import EncodeError

__all__ = ["MAX_WAITING", "MAX_WAITING_BYTES", "NotificationQueue"]

logger = logging.getLogger("ferrule.client")

MAX_WAITING: Final = 4096
"""Notifications that may wait for slow handlers; beyond it the oldest are dropped."""
MAX_WAITING_BYTES: Final = 16 << 20
"""Bytes of the notifications that wait, as JSON; beyond it the oldest are dropped, but never the newest."""


class NotificationQueue:
    """Calls handlers one after the other.

    Args:
        start_task: runs a coroutine in a task of the client.
    """

    def __init__(self, start_task: Callable[[Coroutine[Any, Any, None], str], object]) -> None:
        self._start_task = start_task
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...], int]] = deque()
        self._waiting_bytes = 0
        self._is_running = False

    def put(self, handler: Callable[..., Any], *arguments: Any) -> None:
        """Call a handler after the earlier ones: at once, unless an async one still runs.

        A sync handler gets the notifications of a call before the call returns.
        """
        if self._is_running:
            self._append(handler, arguments)
            return
        running = _called(handler, *arguments)
        if running is not None:
            self._is_running = True
            self._start_task(self._run(running), "ferrule-notifications")

    def _append(self, handler: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        size = _size_of(arguments)
        self._waiting.append((handler, arguments, size))
        self._waiting_bytes += size
        while len(self._waiting) > MAX_WAITING or (self._waiting_bytes > MAX_WAITING_BYTES and len(self._waiting) > 1):
            self._take()

    def _take(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Remove the oldest notification, and return its handler and the arguments."""
        handler, arguments, size = self._waiting.popleft()
        self._waiting_bytes -= size
        return handler, arguments

    async def _run(self, running: Awaitable[Any] | None) -> None:
        try:
            while True:
                if running is not None:
                    await _finished(running)
                if not self._waiting:
                    return
                handler, arguments = self._take()
                running = _called(handler, *arguments)
        finally:
            self._is_running = False


def _size_of(arguments: tuple[Any, ...]) -> int:
    """Return the size of arguments as JSON, in bytes; 0 for what only a server in this process can send."""
    try:
        return len(encode(arguments))
    except EncodeError:
        return 0


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
