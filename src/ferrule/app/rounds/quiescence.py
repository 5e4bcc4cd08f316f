"""Notices when a body stands still: when the event loop has passed several times and nothing happened on its context.

Between the answer to one question and the next question a body takes some passes of the loop: a future wakes a task,
the task a gather, the gather the body. Whoever judges earlier takes a body that is on its way for one that waits.

Counting is a callback per pass and no task: a call that goes through rounds stands still twice per question, and the
passes are most of what a round costs.

asyncio only.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection
from typing import Final

__all__ = ["QUIET_PASSES", "Quiescence"]

QUIET_PASSES: Final = 8
"""Passes of the event loop without activity after which the body stands still."""

_UNKNOWN: Final = -1


class Quiescence:
    """Counts passes of one loop.

    After `on_quiescent` it does nothing until `watch` or `rest` is called; activity is counted all the same.

    Args:
        loop: the body's.
        working: not empty while something runs whose end will be activity; nothing is still before.
        on_quiescent: called from the loop, once per quiescence.

    Attributes:
        activity: how often something happened.
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
        self._context = contextvars.copy_context()  # and not that of whichever branch or request made the last move
        self._working = working
        self._on_quiescent = on_quiescent
        self._handle: asyncio.Handle | None = None
        self._is_resting = True
        self._is_closed = False
        self._quiet = 0
        self._seen = _UNKNOWN
        self.activity = 0

    def touch(self) -> None:
        """Something happened."""
        self.activity += 1
        if self._is_resting:
            self._wake()

    def watch(self) -> None:
        """Count from now on."""
        self._begin(self.activity)

    def rest(self, timeout_s: float | None = None) -> None:
        """Count from the next activity on, or when the time is over."""
        self._stop()
        if not self._is_closed:
            self._is_resting = True
            if timeout_s is not None:
                self._handle = self._loop.call_later(timeout_s, self._wake, context=self._context)

    def let_go(self) -> None:
        """Forget, after `close`, what leads back to the request."""
        self._handle = None
        self._context = contextvars.Context()
        self._working, self._on_quiescent = (), _nothing

    def close(self) -> None:
        """Nothing is called any more."""
        self._is_closed = True
        self._is_resting = False
        self._stop()

    def _wake(self) -> None:
        self._begin(_UNKNOWN)  # what woke us is activity in the first pass

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
    """What is called when nothing is left to call."""
