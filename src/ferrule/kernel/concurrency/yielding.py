"""Yielding to the event loop in a body that sends without waiting.

A call that sends something (progress, a log message, a notification, a change) usually ends without waiting: it writes
into a buffer, or has no receiver. A body that only makes such calls would block the event loop: other clients wait, and
neither a cancellation nor a shutdown reaches it. Therefore such calls are counted, and every `CALLS_PER_YIELD`-th one
yields once.

Each request counts its own calls, so that a body which runs again (in rounds) yields at the same places.
"""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["CALLS_PER_YIELD", "CallCounter", "yield_to_loop"]

CALLS_PER_YIELD: Final = 16
"""Calls that a body may make before one of them yields."""


class CallCounter(Protocol):
    """Counts the calls of one request, or of one connection outside of any request.

    Attributes:
        calls: how many there have been.
    """

    calls: int


async def yield_to_loop(counter: CallCounter) -> None:
    """Count one call; every `CALLS_PER_YIELD`-th one yields, which is also where a cancellation is raised."""
    counter.calls += 1
    if counter.calls % CALLS_PER_YIELD == 0:
        from anyio.lowlevel import checkpoint  # few processes get here before their first answer

        await checkpoint()
