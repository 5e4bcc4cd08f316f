"""Clocks that nobody sets: what a store counts lives with.

The time of day can be wrong in one process, and can be set while it runs; a life that is judged by it ends early. Time
since the machine was started is the same for all its processes and only ever grows.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

__all__ = ["boot_id", "steady_time", "uptime_s"]

_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", -1)  # Linux has it

_STARTED_AT: Final = time.time() - time.monotonic()


def uptime_s() -> float:
    """Seconds since the machine was started, the same in all its processes; on Linux also while it was suspended."""
    return time.monotonic() if _BOOT_CLOCK < 0 else time.clock_gettime(_BOOT_CLOCK)


def boot_id() -> str:
    """Return a name for the time since the machine was started; ``""`` where the system has none (all but Linux)."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def steady_time() -> float:
    """Return seconds since the epoch, as the clock stood when this process began; setting it changes nothing."""
    return _STARTED_AT + time.monotonic()
