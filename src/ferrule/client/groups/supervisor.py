"""Keeping one of several servers there: connect, and again with growing pauses for as long as it is not.

Whoever uses several servers never waits for one that is known to be away: it looks at `Keeper.is_up`. Each change of
state is one line in the log, however many attempts it takes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio

from ferrule.transports.background import Background

__all__ = ["FIRST_PAUSE_S", "MAX_PAUSE_S", "Attempt", "Keeper", "Sleep"]

logger = logging.getLogger("ferrule.client")

FIRST_PAUSE_S: Final = 1.0
"""Seconds from a failure to the next attempt; each further failure doubles them."""
MAX_PAUSE_S: Final = 60.0

Attempt: TypeAlias = Callable[[], Awaitable[None]]
"""Tries to reach the server; raises why it cannot be."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""``await sleep(seconds)``; what a test replaces."""


class Keeper:
    """One server.

    Args:
        name: what to call it in the log.
        attempt: connects to it.
        sleep: waits between two attempts.

    Attributes:
        error: why it is not there; ``None`` while it is, and before the first attempt has ended.
        is_up: whether it is there.
    """

    def __init__(self, name: str, attempt: Attempt, *, sleep: Sleep = anyio.sleep) -> None:
        self.name = name
        self.error: Exception | None = None
        self.is_up = False
        self._attempt = attempt
        self._next_attempt = attempt
        self._sleep = sleep
        self._lock: anyio.Lock | None = None
        self._tried: anyio.Event | None = None
        self._lost: anyio.Event | None = None

    def start(self, background: Background) -> None:
        """Connect, and stay connected, until ``background`` closes."""
        self.error, self.is_up = None, False
        self._lock, self._tried, self._lost = anyio.Lock(), anyio.Event(), anyio.Event()
        background.start(self._keep(self._lost), "ferrule-keep-connected")

    async def first_attempt(self) -> None:
        """Wait for the end of the first attempt."""
        if self._tried is not None:
            await self._tried.wait()

    def lose(self, error: Exception, attempt: Attempt | None = None) -> None:
        """It was there and does not answer.

        Args:
            error: what happened.
            attempt: what must succeed before it is there again, if not connecting.
        """
        if self.is_up:
            self.is_up, self.error = False, error
            self._next_attempt = attempt or self._attempt
            logger.warning("The server %r is not there any more: %s", self.name, error)
            if self._lost is not None:
                self._lost.set()

    async def reach(self) -> None:
        """Try now, for somebody who needs this very server.

        Raises:
            Exception: why it is not there.
        """
        if not self.is_up:
            await self._try()
        if self.error is not None:
            raise self.error

    async def _keep(self, lost: anyio.Event) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await self._try()
            if self.is_up:
                pause_s = FIRST_PAUSE_S
                await lost.wait()
                lost = self._lost = anyio.Event()
            await self._sleep(pause_s)
            pause_s = min(MAX_PAUSE_S, pause_s * 2)

    async def _try(self) -> None:
        """One attempt; whoever else wants one meanwhile waits for this one."""
        if self._lock is None or self._tried is None:
            self._lock, self._tried = anyio.Lock(), anyio.Event()
        async with self._lock:
            if self.is_up:
                return
            had, was_tried = self.error, self._tried.is_set()
            try:
                await self._next_attempt()
            except Exception as error:
                self.error = error
                if had is None:
                    logger.warning("The server %r is not there; it is tried again: %s", self.name, error)
                else:
                    logger.debug("The server %r is still not there: %s", self.name, error)
            else:
                self.error, self.is_up = None, True
                self._next_attempt = self._attempt
                if was_tried:
                    logger.info("The server %r is there again", self.name)
            finally:
                self._tried.set()
