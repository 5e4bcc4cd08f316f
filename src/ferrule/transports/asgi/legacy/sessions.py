"""The table of legacy sessions, bounded in number and idle time.

The table has no knowledge of HTTP or JSON-RPC. It counts the uses of each session (a POST in flight, an open GET
stream). A session in use never expires; its idle time starts with the end of the last use. Time comes from the
``clock`` argument, and the caller calls `sweep`.

Every ``acquire`` needs exactly one ``release``, also after an error.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["SESSION_ID_CHARS", "RecentIds", "SessionTable", "TableEntry", "TooManySessions", "new_session_id"]


SESSION_ID_CHARS = 32
_ID_BYTES = SESSION_ID_CHARS // 2


class TooManySessions(Exception):
    """The table is full and every session in it is in use."""


class TableEntry(Protocol):
    """The attributes of a session that the table maintains."""

    session_id: str
    in_use: int
    idle_since_s: float


_E = TypeVar("_E", bound=TableEntry)


def new_session_id() -> str:
    """Return a random session id: 128 bits as 32 hexadecimal digits (2025-11-25: visible ASCII, unguessable)."""
    return secrets.token_hex(16)


class SessionTable(Generic[_E]):
    """Sessions by id, bounded in number and in idle time.

    Args:
        max_sessions: at this number a new session displaces the one that has been idle longest.
        idle_s: seconds after which an idle session is removed; ``None`` keeps it until it is deleted or displaced.
        clock: returns monotonic seconds.
        on_removed: called with each entry after its removal, whatever the reason.
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
        # A copy: callers remove sessions while they iterate.
        return iter(list(self._entries.values()))

    def add(self, entry: _E) -> None:
        """Add a session with one use; ``release`` it when the request that opened it ends.

        Raises:
            TooManySessions: the table is full and no session is idle.
        """
        self.sweep()
        if len(self._entries) >= self._max_sessions:
            if not self._idle:
                raise TooManySessions
            self.remove(next(iter(self._idle)))
        entry.in_use = 1
        self._entries[entry.session_id] = entry

    def get(self, session_id: str) -> _E | None:
        """Return the session with this id without counting a use; ``None`` if there is none."""
        return self._entries.get(session_id)

    def acquire(self, session_id: str) -> _E | None:
        """Return the session with this id and count a use; ``None`` if there is none or it has expired."""
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
        """End one use; the end of the last one starts the idle time."""
        entry.in_use -= 1
        # It may have been removed while it was in use.
        if entry.in_use == 0 and self._entries.get(entry.session_id) is entry:
            entry.idle_since_s = self._clock()
            self._idle[entry.session_id] = entry

    def remove(self, session_id: str) -> _E | None:
        """Remove and return a session, in use or not; ``None`` if there is none."""
        entry = self._entries.pop(session_id, None)
        if entry is not None:
            self._idle.pop(session_id, None)
            self._on_removed(entry)
        return entry

    def sweep(self) -> None:
        """Remove every session whose idle time is over."""
        while self._idle:
            entry = next(iter(self._idle.values()))
            if not self._has_expired(entry):
                return
            self.remove(entry.session_id)

    def next_expiry_in_s(self) -> float | None:
        """Return the seconds until the next session expires; ``None`` if no session can expire."""
        if self._idle_s is None or not self._idle:
            return None
        return max(0.0, next(iter(self._idle.values())).idle_since_s + self._idle_s - self._clock())

    def _has_expired(self, entry: _E) -> bool:
        return self._idle_s is not None and self._clock() - entry.idle_since_s >= self._idle_s


class RecentIds:
    """The last ids that were added; a new one replaces the oldest.

    Their bytes are kept in one piece of memory. Kept as separate strings, each would stay between the objects of its
    session, and the allocator could not return that memory to the system.

    Args:
        size: maximum number of ids.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept = bytearray()
        self._next = 0

    def add(self, session_id: str) -> None:
        """Add an id that `new_session_id` made."""
        self._kept[self._next : self._next + _ID_BYTES] = bytes.fromhex(session_id)
        self._next = (self._next + _ID_BYTES) % (self._size * _ID_BYTES)

    def __contains__(self, session_id: str) -> bool:
        try:
            wanted = bytes.fromhex(session_id)
        except ValueError:
            return False
        if len(wanted) != _ID_BYTES:
            return False
        at = self._kept.find(wanted)
        while at % _ID_BYTES and at >= 0:  # across two of them
            at = self._kept.find(wanted, at + 1)
        return at >= 0
