"""Bounds on the calls to one server: how many run at once, and how long one may take."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from ferrule.protocol.errors import RequestTimeout

__all__ = ["CallLimits"]


class CallLimits:
    """The limits of one server, and the calls that use them now.

    Args:
        max_concurrent: calls that run at once; a further one waits. ``None``: no bound.
        deadline_s: seconds that a call may take in all, with waiting for others; ``None``: no bound.

    Attributes:
        active: the calls in progress, with those that wait.

    Raises:
        ValueError: a limit is not above 0.
    """

    def __init__(self, *, max_concurrent: int | None = None, deadline_s: float | None = None) -> None:
        if max_concurrent is not None and max_concurrent < 1:
            raise ValueError(f"max_concurrent is 1 or more, not {max_concurrent}")
        if deadline_s is not None and deadline_s <= 0:
            raise ValueError(f"deadline_s is above 0, not {deadline_s:g}")
        self.max_concurrent = max_concurrent
        self.deadline_s = deadline_s
        self.active = 0
        self._slots: anyio.Semaphore | None = None
        self._idle: anyio.Event | None = None

    @asynccontextmanager
    async def call(self, method: str, *, deadline_s: float | None = None) -> AsyncGenerator[None]:
        """Wait for a free slot, and bound the time of the block.

        Args:
            method: the method of the request, for the error.
            deadline_s: a deadline for this call in seconds, in place of the server's.

        Raises:
            RequestTimeout: the block did not end before the deadline; it was cancelled.
        """
        limit_s = self.deadline_s if deadline_s is None else deadline_s
        self.active += 1
        try:
            with anyio.move_on_after(limit_s) as scope:
                if self.max_concurrent is None:
                    yield
                else:
                    if self._slots is None:
                        self._slots = anyio.Semaphore(self.max_concurrent)
                    async with self._slots:
                        yield
            if scope.cancelled_caught and limit_s is not None:
                raise RequestTimeout(method, limit_s, is_cap=True)
        finally:
            self.active -= 1
            if not self.active and self._idle is not None:
                self._idle.set()
                self._idle = None

    async def idle(self) -> None:
        """Wait until no call is in progress."""
        while self.active:
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()
