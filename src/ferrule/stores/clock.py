"""Monotonic clocks, with which stores measure expiry.

The system's clock can be wrong, and can be set while a process runs: values would expire too early or too late. The
time since the machine was started is the same in all its processes and never goes back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

__all__ = ["boot_id", "steady_time", "uptime_s"]

_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", -1)  # exists on Linux only

# Read once: only the difference of monotonic times is used afterwards.
_STARTED_AT: Final = time.time() - time.monotonic()


def uptime_s() -> float:
    """Return the seconds since the machine was started, equal in all its processes.

    On Linux the time in which the machine was suspended counts too.
    """
    return time.monotonic() if _BOOT_CLOCK < 0 else time.clock_gettime(_BOOT_CLOCK)


def boot_id() -> str:
    """Return an id that changes when the machine is started; ``""`` on systems other than Linux."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def steady_time() -> float:
    """Return seconds since the epoch, by the clock at the start of this process; setting the clock has no effect."""
    return _STARTED_AT + time.monotonic()
