"""The table of live legacy sessions: how many there may be, and when an idle one is forgotten.

The table knows nothing of HTTP or JSON-RPC. It counts what is in flight per session; a session with something in
flight (a POST being served, an open GET stream) never expires, and its idle time starts when the last of them ends.
Time comes from the ``clock`` argument; who calls `sweep` is the caller's business.

Every ``acquire`` has exactly one ``release``, also when serving failed.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["SESSION_ID_CHARS", "SessionTable", "TableEntry", "TooManySessions", "new_session_id"]


SESSION_ID_CHARS = 32


class TooManySessions(Exception):
    """The table is full and every session in it is in use."""


class TableEntry(Protocol):
    """What the table keeps on a session."""

    session_id: str
    in_use: int
    idle_since_s: float


_E = TypeVar("_E", bound=TableEntry)


def new_session_id() -> str:
    """128 random bits from the operating system as 32 hexadecimal digits (visible ASCII, as is demanded)."""
    return secrets.token_hex(16)


class SessionTable(Generic[_E]):
    """Live sessions by id, bounded in number and in idle time.

    Args:
        max_sessions: at this number a new session takes the place of the one that has been idle longest.
        idle_s: seconds after which an idle session is forgotten; ``None`` keeps it until it is deleted or displaced.
        clock: monotonic seconds.
        on_removed: called with each entry that leaves the table, for whatever reason, after it has left.
    """

    def __init__(
        self,
        *,
        max_sessions: int,
        idle_s: float | None,
        clock: Callable[[], float],
        on_removed: Callable[[_E], object],
    ) -> None:
        if max_sessions < 1:
            raise ValueError("max_sessions is at least 1")
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._clock = clock
        self._on_removed = on_removed
        self._entries: dict[str, _E] = {}
        self._idle: OrderedDict[str, _E] = OrderedDict()  # oldest idle time first

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[_E]:
        return iter(list(self._entries.values()))

    def add(self, entry: _E) -> None:
        """Register a session as in use once (``release`` it when the request that opened it ends).

        Raises:
            TooManySessions: the table is full and no session in it is idle.
        """
        self.sweep()
        if len(self._entries) >= self._max_sessions:
            if not self._idle:
                raise TooManySessions
            self.remove(next(iter(self._idle)))
        entry.in_use = 1
        self._entries[entry.session_id] = entry

    def get(self, session_id: str) -> _E | None:
        """Return the session with this id, used or not; not a use of it."""
        return self._entries.get(session_id)

    def acquire(self, session_id: str) -> _E | None:
        """Return the live session with this id, marked as in use; ``None`` when there is none or it has expired."""
        entry = self._entries.get(session_id)
        if entry is None:
            return None
        if entry.in_use == 0:
            if self._has_expired(entry):
                self.remove(session_id)
                return None
            del self._idle[session_id]
        entry.in_use += 1
        return entry

    def release(self, entry: _E) -> None:
        """End one use; the last one starts the idle time."""
        entry.in_use -= 1
        if entry.in_use == 0 and self._entries.get(entry.session_id) is entry:
            entry.idle_since_s = self._clock()
            self._idle[entry.session_id] = entry

    def remove(self, session_id: str) -> _E | None:
        """Forget a session, in use or not; ``None`` when it was not there."""
        entry = self._entries.pop(session_id, None)
        if entry is not None:
            self._idle.pop(session_id, None)
            self._on_removed(entry)
        return entry

    def sweep(self) -> None:
        """Forget every session whose idle time is over."""
        while self._idle:
            entry = next(iter(self._idle.values()))
            if not self._has_expired(entry):
                return
            self.remove(entry.session_id)

    def next_expiry_in_s(self) -> float | None:
        """Return seconds until the next sweep has something to do; ``None`` when nothing can expire."""
        if self._idle_s is None or not self._idle:
            return None
        return max(0.0, next(iter(self._idle.values())).idle_since_s + self._idle_s - self._clock())

    def _has_expired(self, entry: _E) -> bool:
        return self._idle_s is not None and self._clock() - entry.idle_since_s >= self._idle_s
