"""The data of legacy sessions that all workers need: one small value for each session, which expires when it is idle.

The value is opaque here. The last writer wins: a session changes by requests of its own client, which sends them one
after the other where the order matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["MemorySessions", "SessionStore"]


class SessionStore(Protocol):
    """Values by session id, which expire when they have not been read or written for their idle time."""

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Store a value, in place of an older one, and restart its idle time of ``idle_s`` seconds.

        Raises:
            OSError: the store cannot be reached or written to.
        """
        ...

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return a value and restart its idle time of ``idle_s`` seconds; ``None`` if there is none, or it has expired.

        Raises:
            OSError: the store cannot be reached.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Delete a value."""
        ...


class MemorySessions:
    """A `SessionStore` in the memory of one process.

    Args:
        clock: returns seconds; for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[float, bytes]] = {}

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Store a value and restart its idle time; see `SessionStore.put`."""
        now = self._clock()
        # At each write and without a heap: this store is for tests and one process, which has few sessions.
        for old in [key for key, (expiry, _) in self._values.items() if expiry <= now]:
            del self._values[old]
        self._values[session_id] = (now + idle_s, value)

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return a value and restart its idle time of ``idle_s`` seconds; see `SessionStore.get`."""
        found = self._values.get(session_id)
        if found is None or found[0] <= self._clock():
            return None
        self._values[session_id] = (self._clock() + idle_s, found[1])
        return found[1]

    async def delete(self, session_id: str) -> None:
        """Delete a value; see `SessionStore.delete`."""
        self._values.pop(session_id, None)
