"""Sleeping that a test ends by hand."""

from __future__ import annotations

import anyio

__all__ = ["Pauses"]


class Pauses:
    """Stands for sleeping between attempts: each pause lasts until the test ends it.

    Attributes:
        asked: the seconds of each pause.
    """

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._waiting: list[anyio.Event] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        event = anyio.Event()
        self._waiting.append(event)
        try:
            await event.wait()
        finally:
            if event in self._waiting:  # it was given up
                self._waiting.remove(event)

    async def begun(self) -> None:
        """Wait until a pause goes on."""
        with anyio.fail_after(30):
            while not self._waiting:
                await anyio.sleep(0.005)

    async def end(self) -> None:
        """End the pause that goes on, or begins next, and let happen what follows."""
        await self.begun()
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.set()
        await anyio.wait_all_tasks_blocked()
