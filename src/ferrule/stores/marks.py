"""One-time marks: which process runs a step, and its outcome, across processes.

The guarantee is *at most once*: the first caller of `begin` for a key runs the step; all others get the recorded
outcome, or the state ``"running"``. A mark that was begun and never finished stays ``"running"`` until it expires: it
is not known whether the effect happened.

A full store must refuse new marks. Evicting a mark, running or done, would let an effect happen twice.
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
    """The store is full of marks that have not expired and must not be evicted."""


class OneTimeMarks(Protocol):
    """Atomic marks under text keys; every key expires, and none is dropped before.

    A key has three states: free, running (after `begin`), done (after `finish`). It is free again when the ``ttl_s`` of
    the last of the two calls has passed, and never earlier: a full store refuses new keys. The store's clock measures
    the times. Empty keys and empty outcomes are valid.
    """

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim a key and return its state: ``"mine"`` for exactly one caller within ``ttl_s`` seconds.

        A key that is running or done keeps its state and its expiry.

        Args:
            key: the key of the mark.
            ttl_s: seconds until a new mark expires.

        Raises:
            TooManyMarks: the key is new and the store is full.
            OSError: the store cannot be reached or written to.
        """
        ...

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``; a later outcome replaces it.

        It is recorded even if the key has expired meanwhile.

        Args:
            key: the key of the mark.
            value: the outcome.
            ttl_s: seconds until the mark expires.

        Raises:
            TooManyMarks: the key has expired, and the store is full.
            OSError: the store cannot be reached or written to.
        """
        ...


# What a mark takes without its key and outcome, so that many small ones are bounded too.
_FLOOR_BYTES: Final = 256


class MemoryMarks:
    """`OneTimeMarks` in the memory of one process, bounded in number and size.

    When it is full, new marks are refused until some expire.

    Args:
        max_marks: maximum number of marks.
        max_bytes: maximum size of all keys and outcomes, where each mark counts 256 bytes more. The outcome of a
            running mark is recorded even above it.
        clock: returns seconds; for tests.
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
        """Claim a key and return its state; see `OneTimeMarks.begin`."""
        now = self._clock()
        self._sweep(now)
        found = self._marks.get(key)
        if found is not None:
            return Mark("running") if found[1] is None else Mark("done", found[1])
        self._check_room()
        self._keep(key, now + ttl_s, None)
        return Mark("mine")

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``; a later outcome replaces it; see `OneTimeMarks.finish`."""
        now = self._clock()
        self._sweep(now)
        # A running mark has its room already: its effect has happened, and the outcome must be recorded.
        if key not in self._marks:
            self._check_room()
        self._keep(key, now + ttl_s, value)

    def _check_room(self) -> None:
        # Refused and not evicted: a mark that is forgotten early would let its key begin twice.
        if len(self._marks) >= self._max_marks or self._size_bytes >= self._max_bytes:
            raise TooManyMarks(
                f"This process has {len(self._marks)} one-time marks, and none of them has expired; "
                "a larger store is MCPServer(store='sqlite:///server.db') or store='redis://host:6379/0'"
            )

    def _keep(self, key: str, expiry: float, value: bytes | None) -> None:
        self._forget(key)
        self._marks[key] = (expiry, value)
        self._size_bytes += _size_bytes(key, value)
        heappush(self._expiry, (expiry, key))
        if len(self._expiry) > 2 * len(self._marks) + 64:  # remove entries of replaced marks
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
            # The heap may have an older entry of a mark that was renewed since.
            if found is not None and found[0] <= now:
                self._forget(key)
        if not self._marks:  # a dict keeps the memory of its largest size until `clear`
            self._marks.clear()


def _size_bytes(key: str, value: bytes | None) -> int:
    return _FLOOR_BYTES + len(key) + len(value or b"")
