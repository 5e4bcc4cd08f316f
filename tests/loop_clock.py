"""The clock of the running asyncio event loop, which a test moves forward instead of waiting."""

from __future__ import annotations

import asyncio


class LoopClock:
    """Replaces ``time()`` of the running event loop: it returns the real time plus the seconds of `advance`.

    The event loop of a test is closed after the test, so that nothing is restored.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._real_time = self._loop.time
        self._ahead_s = 0.0
        self._loop.time = self._time  # type: ignore[method-assign]

    def _time(self) -> float:
        return self._real_time() + self._ahead_s

    async def advance(self, seconds: float) -> None:
        """Move the clock forward, and let each timer that is due run, and the tasks that it wakes."""
        self._ahead_s += seconds
        # A timer runs in one iteration, the task that it cancels in the next; the others are for tasks around that.
        for _ in range(20):
            await asyncio.sleep(0)
