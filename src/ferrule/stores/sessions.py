"""What workers must agree on about a legacy session: one small value per session, which lives while it is used.

The value is opaque here; the last writer wins, because what a session holds changes by its client's own requests,
which come one after the other where order matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["MemorySessions", "SessionStore"]


class SessionStore(Protocol):
    """Values by session id, forgotten when nobody has asked for them long enough."""

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Keep a value, or replace it; its idle time begins anew."""
        ...

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return the value, ``None`` when there is none (any more); its idle time begins anew."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget a value."""
        ...


class MemorySessions:
    """Values of one process.

    Args:
        clock: seconds, for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[float, bytes]] = {}

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """See `SessionStore`."""
        now = self._clock()
        for old in [key for key, (expiry, _) in self._values.items() if expiry <= now]:
            del self._values[old]
        self._values[session_id] = (now + idle_s, value)

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """See `SessionStore`."""
        found = self._values.get(session_id)
        if found is None or found[0] <= self._clock():
            return None
        self._values[session_id] = (self._clock() + idle_s, found[1])
        return found[1]

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        self._values.pop(session_id, None)
