"""Keeping the connection to one of several servers: connect, and reconnect with growing pauses after a failure.

Requests never wait for a server that is known to be down: they look at `ConnectionSupervisor.is_up`. Each change of
state is one line in the log, however many attempts it takes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio

from ferrule.transports.background import Background

__all__ = ["FIRST_PAUSE_S", "MAX_PAUSE_S", "Attempt", "ConnectionSupervisor", "Sleep"]

logger = logging.getLogger("ferrule.client")

FIRST_PAUSE_S: Final = 1.0
"""Seconds from a failure to the next attempt; each further failure doubles them."""
MAX_PAUSE_S: Final = 60.0

Attempt: TypeAlias = Callable[[], Awaitable[None]]
"""Tries to connect; raises the reason if that fails."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""``await sleep(seconds)``; tests give their own."""


class ConnectionSupervisor:
    """Keeps the connection to one server.

    Args:
        name: the name of the server, for the log.
        attempt: connects to it.
        sleep: waits between two attempts.

    Attributes:
        error: why there is no connection; ``None`` while there is one, and before the first attempt has ended.
        is_up: whether there is a connection.
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
        """Note that the server does not answer any more, and start to reconnect.

        Args:
            error: the reason.
            attempt: what must succeed before the server counts as up again; ``None``: connecting.
        """
        if self.is_up:
            self.is_up, self.error = False, error
            self._next_attempt = attempt or self._attempt
            logger.warning("The server %r does not answer any more: %s", self.name, error)
            if self._lost is not None:
                self._lost.set()

    async def reach(self) -> None:
        """Try to connect now, if there is no connection.

        Raises:
            Exception: the reason why the attempt failed.
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
        """Make one attempt; calls meanwhile wait for the same attempt."""
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
                    logger.warning("The server %r cannot be reached and is tried again: %s", self.name, error)
                else:
                    logger.debug("The server %r still cannot be reached: %s", self.name, error)
            else:
                self.error, self.is_up = None, True
                self._next_attempt = self._attempt
                if was_tried:
                    logger.info("The server %r can be reached again", self.name)
            finally:
                self._tried.set()
