"""The processes of one legacy server behind a gateway: how many there are, and when an unused one is ended.

Every session with such a server is a process. Clients of the same user with the same capabilities share one, as long as
the server asks its clients nothing: a question on a shared process cannot be assigned to a client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

if TYPE_CHECKING:
    from ferrule.client.gateway.upstreams.settings import SessionSharing
    from ferrule.transports.background import Background

__all__ = ["ProcessBudget"]

logger = logging.getLogger("ferrule.client.gateway")

_LOOK_S: Final = 0.1
"""Seconds between two searches for an unused process, at most."""


class ProcessClient(Protocol):
    """The client whose connection is a process."""

    @property
    def is_connected(self) -> bool:
        """Whether the process runs."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


class ProcessUser(Protocol):
    """A session with the server, which has one process."""

    @property
    def client(self) -> ProcessClient:
        """Its client."""
        ...

    @property
    def is_unused(self) -> bool:
        """Whether no request is in progress and no session holds it."""
        ...


class ProcessBudget:
    """Bounds the processes of one server, and ends those that are unused.

    Args:
        label: returns the name of the server for the log.
        sharing: which clients share a process; see `UpstreamSettings.sessions`.
        max_processes: processes at the same time.
        idle_s: seconds without a request after which a process is ended; ``None``: never.

    Attributes:
        asks: whether the server has asked a client something.
        on_asks: called when that becomes known.
    """

    def __init__(
        self, label: Callable[[], str], *, sharing: SessionSharing, max_processes: int, idle_s: float | None
    ) -> None:
        self._label = label
        self._sharing = sharing
        self._max = max_processes
        self._idle_s = idle_s
        self._open: dict[ProcessUser, float] = {}
        self._freed = anyio.Event()
        self._is_watching = False
        self.asks = False
        self.on_asks: Callable[[], None] | None = None

    @property
    def shares(self) -> bool:
        """Whether clients share a process now."""
        return self._sharing == "shared" or (self._sharing == "auto" and not self.asks)

    @property
    def count(self) -> int:
        """The number of processes."""
        return sum(backend.client.is_connected for backend in self._open)

    def note_question(self) -> None:
        """Note that the server asks its clients: from now on each gets a process of its own."""
        if not self.asks:
            self.asks = True
            logger.info("The server %s asks its clients; they do not share a process any more", self._label())
            if self.on_asks is not None:
                self.on_asks()

    async def admit(self, backend: ProcessUser, background: Background) -> None:
        """Return when a session may have a process; ends an unused one where there are too many.

        Args:
            backend: the session.
            background: runs the task that ends unused processes.
        """
        while backend not in self._open and len(self._open) >= self._max:
            unused = next((each for each in self._open if each.is_unused), None)
            if unused is not None:
                await self._end(unused)
            else:
                if self._freed.is_set():  # a new one for all that wait
                    self._freed = anyio.Event()
                # A session may become unused a moment after its last request was noted.
                with anyio.move_on_after(_LOOK_S):
                    await self._freed.wait()
        self._open.pop(backend, None)
        self._open[backend] = anyio.current_time()  # the one that was used last is at the end
        if self._idle_s is not None and not self._is_watching:
            self._is_watching = True
            background.start(self._end_unused(self._idle_s), "ferrule-gateway-processes")

    def note_use(self, backend: ProcessUser) -> None:
        """Note that a request of a session has ended."""
        if backend in self._open:
            self._open[backend] = anyio.current_time()
        self._freed.set()

    def forget(self, backend: ProcessUser) -> None:
        """Note that a session has been closed."""
        self._open.pop(backend, None)
        self._freed.set()

    def clear(self) -> None:
        """Forget every session, after all have been closed."""
        self._open.clear()
        self._is_watching = False

    async def end_unused(self, since: float) -> None:
        """End the processes that have had no request since a time of the event loop's clock."""
        for backend, used in list(self._open.items()):
            if backend.is_unused and used <= since:
                logger.info("A process of the server %s is ended: it was not used", self._label())
                await self._end(backend)

    async def _end(self, backend: ProcessUser) -> None:
        self._open.pop(backend, None)
        await backend.client.aclose()
        self._freed.set()

    async def _end_unused(self, idle_s: float) -> Any:
        try:
            while self._open:
                await anyio.sleep(idle_s)
                await self.end_unused(anyio.current_time() - idle_s)
        finally:
            self._is_watching = False
