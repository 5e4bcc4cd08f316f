"""One-time marks: who runs a step, and what came of it, across processes.

The promise is *at most once*: the first to `begin` a key runs it; everyone else gets the recorded outcome, waits for
it, or learns that it is in doubt. A mark that was begun and never finished stays in doubt until it expires: whether
the effect happened is exactly what nobody knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["Mark", "MemoryMarks", "OneTimeMarks"]


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a key.

    Attributes:
        state: ``"mine"`` (the caller must run it and `OneTimeMarks.finish`), ``"running"`` elsewhere, or ``"done"``.
        value: the recorded outcome when done: bytes, opaque to the store.
    """

    state: Literal["mine", "running", "done"]
    value: bytes | None = None


class OneTimeMarks(Protocol):
    """Atomic marks under text keys; every key expires."""

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim ``key`` if nobody has; ``"mine"`` is answered to exactly one caller, ever, within ``ttl_s`` seconds."""
        ...

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``, for ``ttl_s`` seconds."""
        ...


class MemoryMarks:
    """Marks of one process.

    Args:
        max_marks: bound; the oldest finished or expired ones go first.
        clock: seconds, for tests.
    """

    def __init__(self, *, max_marks: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_marks = max_marks
        self._clock = clock
        self._marks: dict[str, tuple[float, bytes | None]] = {}

    def __len__(self) -> int:
        return len(self._marks)

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """See `OneTimeMarks`."""
        now = self._clock()
        found = self._marks.get(key)
        if found is not None and found[0] > now:
            return Mark("running") if found[1] is None else Mark("done", found[1])
        self._make_room(now)
        self._marks[key] = (now + ttl_s, None)
        return Mark("mine")

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `OneTimeMarks`."""
        self._marks[key] = (self._clock() + ttl_s, value)

    def _make_room(self, now: float) -> None:
        if len(self._marks) < self._max_marks:
            return
        for key in [key for key, (expiry, _) in self._marks.items() if expiry <= now]:
            del self._marks[key]
        while len(self._marks) >= self._max_marks:
            del self._marks[next(iter(self._marks))]
