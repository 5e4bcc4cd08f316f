"""A clock that a test advances, so that tests need not sleep.

Everything in Ferrule that reads the time has a ``clock`` argument, a function that returns monotonic seconds. A
`ManualClock` is such a function.
"""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """Monotonic seconds that change only when a test advances them.

    Args:
        start_s: the initial time in seconds.
    """

    __slots__ = ("_now_s",)

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = float(start_s)

    def __call__(self) -> float:
        """Return the present reading in seconds."""
        return self._now_s

    def advance(self, seconds: float) -> float:
        """Advance the clock and return the new time in seconds.

        Raises:
            ValueError: ``seconds`` is negative: a monotonic clock does not go back (the caller's mistake).
        """
        if seconds < 0:
            raise ValueError("A monotonic clock does not go back")
        self._now_s += seconds
        return self._now_s
