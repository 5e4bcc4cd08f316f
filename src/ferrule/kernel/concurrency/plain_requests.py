"""Plain requests that wait for their responses: one future each, and one timer for all of them.

The general path has `ferrule.kernel.questions.OutboundRequest`, with a time-out of its own for each request and with
callbacks for progress. A `PlainRequest` stands in the same table of the dispatcher, which settles either kind: what its
fast path does not take (an error, an unusual result, the end of the channel) comes from there.

On asyncio only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

__all__ = ["Deadlines", "PlainRequest"]


class PlainRequest:
    """A request whose caller waits for ``future``.

    The future gets what a fast path has decoded, or ``None``; in that case ``result`` or ``error`` is set, or neither
    if no response came in time.

    Attributes:
        deadline: time of the event loop at which the waiting ends.
        wait_s: seconds by which progress moves the deadline; ``None``: it does not.
        result: of the response, as JSON, if the general path has settled the request.
        error: to raise instead.
        has_response: whether one of the two is set.
    """

    __slots__ = ("deadline", "error", "future", "has_response", "result", "wait_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, wait_s: float | None = None) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self.deadline = float("inf")
        self.wait_s = wait_s
        self.result: Any = None
        self.error: Exception | None = None
        self.has_response = False

    @property
    def is_settled(self) -> bool:
        """Whether the response has arrived, or none can arrive."""
        return self.future.done()

    def settle(self, result: Any = None, error: Exception | None = None) -> None:
        """Set the result or the error, and wake the waiting caller."""
        if not self.future.done():
            self.result, self.error, self.has_response = result, error, True
            self.future.set_result(None)

    def receive_progress(self, params: Mapping[str, Any]) -> Coroutine[Any, Any, None] | None:
        """Move the deadline; there is no callback."""
        if self.wait_s is not None:
            self.deadline = self.future.get_loop().time() + self.wait_s
        return None


class Deadlines:
    """The time-outs of requests, with one timer: it runs until the earliest deadline that was known when it began.

    Args:
        loop: measures the time.
        requests: id → request; those that are no `PlainRequest` have time-outs of their own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, requests: Mapping[Any, object]) -> None:
        self._loop = loop
        self._requests = requests
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")

    def add(self, request: PlainRequest, wait_s: float) -> None:
        """Give a request a deadline: then its future gets ``None``."""
        request.deadline = deadline = self._loop.time() + wait_s
        if deadline < self._due:
            self._start(deadline)

    def close(self) -> None:
        """Stop the timer."""
        self._due = float("inf")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        self._due = next_due = float("inf")
        # The clock of a timer is rounded up to its resolution, so that a timer may run a little early.
        now = self._loop.time() + 1e-3
        for request in list(self._requests.values()):
            if isinstance(request, PlainRequest) and not request.future.done():
                if request.deadline <= now:
                    request.future.set_result(None)
                elif request.deadline < next_due:
                    next_due = request.deadline
        if next_due < float("inf"):
            self._start(next_due)
