"""The event loop's turn within a body that only tells.

A call that tells something (progress, a log message, a notification, a change) is usually done without waiting: it
writes into a buffer, or nobody wants to hear it. A body that does nothing else for a while would keep the event loop
for itself: other clients wait, and neither a cancellation nor a shutdown reaches it. So such calls are counted, and
each `CALLS_PER_TURN`-th one lets the loop turn once.

Each request counts for itself, so that a body which runs again (in rounds) turns at the same places.
"""

from __future__ import annotations

from typing import Final, Protocol

from anyio.lowlevel import checkpoint

__all__ = ["CALLS_PER_TURN", "Teller", "let_the_loop_turn"]

CALLS_PER_TURN: Final = 16
"""Calls that a body may make in a row before the event loop gets its turn."""


class Teller(Protocol):
    """Who tells.

    Attributes:
        calls: how many there have been; not there before the first one, since most requests tell nothing.
    """

    calls: int


async def let_the_loop_turn(teller: Teller) -> None:
    """Count one call; at every `CALLS_PER_TURN`-th one, let everything else run that can, and be cancelled if asked."""
    calls = teller.calls = getattr(teller, "calls", 0) + 1
    if calls % CALLS_PER_TURN == 0:
        await checkpoint()
