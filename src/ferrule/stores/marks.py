"""One-time marks: who runs a step, and what came of it, across processes.

The promise is *at most once*: the first to `begin` a key runs it; everyone else gets the recorded outcome, waits for
it, or learns that it is in doubt. A mark that was begun and never finished stays in doubt until it expires: whether
the effect happened is exactly what nobody knows.

Rule a newcomer would break: a full store refuses. Whoever evicts a mark, running or done, lets something happen twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Literal, Protocol

from ferrule.wire.struct import Value

__all__ = ["Mark", "MemoryMarks", "OneTimeMarks", "TooManyMarks"]


class Mark(Value, frozen=True):
    """The state of a key.

    Attributes:
        state: ``"mine"`` (the caller must run it and `OneTimeMarks.finish`), ``"running"`` elsewhere, or ``"done"``.
        value: the recorded outcome when done: bytes, opaque to the store.
    """

    state: Literal["mine", "running", "done"]
    value: bytes | None = None


class TooManyMarks(OSError):
    """There is no room for another mark, and those that are there are promises that must be kept."""


class OneTimeMarks(Protocol):
    """Atomic marks under text keys; every key expires, and none is dropped before.

    A key passes through three states: free, running (from `begin`), done (from `finish`). It is free again when the
    time of the last of the two calls has passed, and not a moment earlier: a store that has no room refuses new keys.
    Times are counted by the store's clock. Empty keys and empty outcomes are like any other.
    """

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim ``key`` if nobody has; ``"mine"`` is answered to exactly one caller, ever, within ``ttl_s`` seconds.

        A key that is running or done stays as it is, with the time that it has.

        Raises:
            TooManyMarks: the key is new and the store is full.
            OSError: the store cannot be reached or written to.
        """
        ...

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``, for ``ttl_s`` seconds; the last outcome counts.

        It is recorded also when the key has expired in the meantime.

        Raises:
            TooManyMarks: it has expired, and the store is full.
            OSError: the store cannot be reached or written to.
        """
        ...


_FLOOR_BYTES: Final = 256


class MemoryMarks:
    """Marks of one process, bounded in number and size; when they are full, new ones are refused until some expire.

    Args:
        max_marks: how many there may be.
        max_bytes: of their keys and outcomes together, each counted with 256 bytes more; outcomes of running marks are
            recorded all the same.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        *,
        max_marks: int = 1_000_000,
        max_bytes: int = 256 << 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_marks = max_marks
        self._max_bytes = max_bytes
        self._clock = clock
        self._marks: dict[str, tuple[float, bytes | None]] = {}
        self._expiry: list[tuple[float, str]] = []
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._marks)

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """See `OneTimeMarks`."""
        now = self._clock()
        self._sweep(now)
        found = self._marks.get(key)
        if found is not None:
            return Mark("running") if found[1] is None else Mark("done", found[1])
        self._check_room()
        self._keep(key, now + ttl_s, None)
        return Mark("mine")

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `OneTimeMarks`."""
        now = self._clock()
        self._sweep(now)
        if key not in self._marks:
            self._check_room()
        self._keep(key, now + ttl_s, value)

    def _check_room(self) -> None:
        if len(self._marks) >= self._max_marks or self._size_bytes >= self._max_bytes:
            raise TooManyMarks(
                f"This process holds {len(self._marks)} one-time marks, and none of them has expired; "
                "a store of more room is MCPServer(store='sqlite:///server.db') or store='redis://host:6379/0'"
            )

    def _keep(self, key: str, expiry: float, value: bytes | None) -> None:
        self._forget(key)
        self._marks[key] = (expiry, value)
        self._size_bytes += _size_bytes(key, value)
        heappush(self._expiry, (expiry, key))
        if len(self._expiry) > 2 * len(self._marks) + 64:  # entries of marks that were kept anew
            self._expiry = [(expiry, key) for key, (expiry, _) in self._marks.items()]
            heapify(self._expiry)

    def _forget(self, key: str) -> None:
        found = self._marks.pop(key, None)
        if found is not None:
            self._size_bytes -= _size_bytes(key, found[1])

    def _sweep(self, now: float) -> None:
        while self._expiry and self._expiry[0][0] <= now:
            _, key = heappop(self._expiry)
            found = self._marks.get(key)
            if found is not None and found[0] <= now:
                self._forget(key)
        if not self._marks:  # an emptied dict keeps the room of its fullest hour, a cleared one does not
            self._marks.clear()


def _size_bytes(key: str, value: bytes | None) -> int:
    return _FLOOR_BYTES + len(key) + len(value or b"")
