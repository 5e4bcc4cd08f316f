"""Detects when a body is quiescent: after several iterations of the event loop without activity on its context.

Between the answer to one question and the next question a body needs some iterations of the loop: a future wakes a
task, the task a gather, the gather the body. A decision after fewer iterations would take a running body for a waiting
one.

Counting uses a callback in each iteration and no task: a call in rounds becomes quiescent twice for each question, and
these iterations are most of the cost of a round.

asyncio only.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection
from typing import Final

__all__ = ["QUIET_PASSES", "Quiescence"]

# The longest chain from an answer to the next question: future, task, `gather`, `wait_for`, body, with some reserve.
QUIET_PASSES: Final = 8
"""Iterations of the event loop without activity after which the body is quiescent."""

_UNKNOWN: Final = -1


class Quiescence:
    """Counts the iterations of an event loop without activity.

    After `on_quiescent` it does nothing until `watch` or `rest` is called; activity is counted all the same.

    Args:
        loop: the event loop of the body.
        working: running work whose end will be activity; while it is not empty, the body is not quiescent.
        on_quiescent: called in the loop each time the body has become quiescent.

    Attributes:
        activity: number of `touch` calls.
    """

    __slots__ = (
        "_context",
        "_handle",
        "_is_closed",
        "_is_resting",
        "_loop",
        "_on_quiescent",
        "_quiet",
        "_seen",
        "_working",
        "activity",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, working: Collection[object], on_quiescent: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()  # else callbacks would have the context of the last `touch`
        self._working = working
        self._on_quiescent = on_quiescent
        self._handle: asyncio.Handle | None = None
        self._is_resting = True
        self._is_closed = False
        self._quiet = 0
        self._seen = _UNKNOWN
        self.activity = 0

    def touch(self) -> None:
        """Record activity on the context of the body."""
        self.activity += 1
        if self._is_resting:
            self._wake()

    def watch(self) -> None:
        """Start to count iterations now."""
        self._begin(self.activity)

    def rest(self, timeout_s: float | None = None) -> None:
        """Start to count iterations at the next activity, or after ``timeout_s`` seconds."""
        self._stop()
        if not self._is_closed:
            self._is_resting = True
            if timeout_s is not None:
                self._handle = self._loop.call_later(timeout_s, self._wake, context=self._context)

    def break_cycle(self) -> None:
        """Remove the references to the request; called after `close`."""
        self._handle = None
        self._context = contextvars.Context()
        self._working, self._on_quiescent = (), _nothing

    def close(self) -> None:
        """Stop counting; ``on_quiescent`` is not called any more."""
        self._is_closed = True
        self._is_resting = False
        self._stop()

    def _wake(self) -> None:
        self._begin(_UNKNOWN)  # the reason for waking counts as activity in the first iteration

    def _begin(self, seen: int) -> None:
        self._stop()
        self._is_resting = False
        self._quiet, self._seen = 0, seen
        if not self._is_closed:
            self._handle = self._loop.call_soon(self._pass, context=self._context)

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _pass(self) -> None:
        self._handle = None
        # The end of the work calls `touch`, which starts the counting again.
        if self._working:
            self._is_resting = True
            return
        if self.activity == self._seen:
            self._quiet += 1
            if self._quiet == QUIET_PASSES:
                self._on_quiescent()
                return
        else:
            self._quiet, self._seen = 0, self.activity
        self._handle = self._loop.call_soon(self._pass, context=self._context)


def _nothing() -> None:
    """Do nothing; replaces the callback of a closed `Quiescence`."""
