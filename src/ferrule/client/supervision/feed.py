"""Observers of the state of connections: callbacks, and iterators that a task waits on."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeAlias

import anyio

from ferrule.client.supervision.status import ConnectionStatus

__all__ = ["MAX_WAITING", "StatusFeed", "StatusObserver", "StatusWatch"]

logger = logging.getLogger("ferrule.client")

MAX_WAITING: Final = 1024
"""Changes that one iterator keeps for its reader; the oldest are dropped first."""

StatusObserver: TypeAlias = Callable[[ConnectionStatus], object]
"""Called with each new state, in the event loop; it must return quickly, and an exception in it is logged."""


class StatusWatch:
    """An iterator over states: ``async for status in supervisor.watch()``. It ends when the feed is closed.

    Args:
        feed: publishes the changes.
        first: the states to begin with.
    """

    def __init__(self, feed: StatusFeed, first: Iterable[ConnectionStatus]) -> None:
        self._feed = feed
        self._waiting: deque[ConnectionStatus] = deque(first, maxlen=MAX_WAITING)
        self._came: anyio.Event | None = None
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[ConnectionStatus]:
        return self

    async def __anext__(self) -> ConnectionStatus:
        """Wait for the next state and return it.

        Raises:
            StopAsyncIteration: the watch or the feed is closed.
        """
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._came = anyio.Event()
            await self._came.wait()
        return self._waiting.popleft()

    def put(self, status: ConnectionStatus) -> None:
        """Queue a state for the reader."""
        self._waiting.append(status)
        self._wake()

    def close(self) -> None:
        """End the iteration after the states that are queued. Idempotent."""
        self._is_closed = True
        self._feed.drop(self)
        self._wake()

    def _wake(self) -> None:
        if self._came is not None:
            self._came.set()


class StatusFeed:
    """Passes each new state to its observers; one feed may serve several connections."""

    def __init__(self) -> None:
        self._observers: list[StatusObserver] = []
        self._watches: list[StatusWatch] = []

    def publish(self, status: ConnectionStatus) -> None:
        """Pass a state to every observer and every iterator."""
        for observer in list(self._observers):
            try:
                observer(status)
            except Exception:
                logger.exception("An observer of the server %r failed", status.server)
        for watch in list(self._watches):
            watch.put(status)

    def observe(self, observer: StatusObserver) -> Callable[[], None]:
        """Call a function with each new state; return a function that ends this."""
        self._observers.append(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    def watch(self, first: Iterable[ConnectionStatus] = ()) -> StatusWatch:
        """Return an iterator over the states: ``first``, then each new one."""
        watch = StatusWatch(self, first)
        self._watches.append(watch)
        return watch

    def drop(self, watch: StatusWatch) -> None:
        """Pass no more states to an iterator."""
        if watch in self._watches:
            self._watches.remove(watch)

    def close(self) -> None:
        """End every iterator; observers stay."""
        for watch in list(self._watches):
            watch.close()
