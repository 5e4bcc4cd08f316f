"""When a lost connection is tried again, and when calls stop waiting for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_POLICY", "ReconnectPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """The pauses between attempts to connect, and the circuit breaker.

    Attributes:
        first_pause_s: seconds from a failure to the next attempt; each further failure doubles them.
        max_pause_s: the longest pause in seconds.
        failures_to_open: failures in a row after which the circuit opens: calls fail at once.
        probe_pause_s: while the circuit is open, seconds after which one call makes an attempt of its own, without
            waiting for the end of the pause.
        min_uptime_s: a connection that is lost within so many seconds, before a request succeeded over it, counts as a
            further failure in a row: a server that crashes after each start is tried with growing pauses.
    """

    first_pause_s: float = 1.0
    max_pause_s: float = 60.0
    failures_to_open: int = 5
    probe_pause_s: float = 5.0
    min_uptime_s: float = 10.0

    def __post_init__(self) -> None:
        if self.first_pause_s <= 0 or self.max_pause_s < self.first_pause_s:
            raise ValueError("first_pause_s is above 0, and max_pause_s is not below it")
        if self.failures_to_open < 1:
            raise ValueError(f"failures_to_open is 1 or more, not {self.failures_to_open}")

    def pause_s(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row (1 or more)."""
        # 2.0 to a power above 1023 is not a float any more
        return min(self.max_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 64))

    def opens(self, failures: int) -> bool:
        """Return whether the circuit is open after so many failures in a row."""
        return failures >= self.failures_to_open


DEFAULT_POLICY: Final = ReconnectPolicy()
