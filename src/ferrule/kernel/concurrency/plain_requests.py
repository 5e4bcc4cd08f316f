"""Plain requests that wait for their responses: one future each, and one timer for all of them.

The general path has `ferrule.kernel.questions.OutboundRequest`, with a time-out of its own for each request and with
callbacks for progress. A `PlainRequest` stands in the same table of the dispatcher, which settles either kind: what its
fast path does not take (an error, an unusual result, the end of the channel) comes from there.

On asyncio only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, cast

__all__ = ["Deadlines", "PlainRequest", "PlainScope", "TimedRequest"]


class TimedRequest:
    """A request that `Deadlines` ends at its deadline, which is a time of the event loop."""

    __slots__ = ()

    @property
    def due(self) -> float:
        """The deadline."""
        raise NotImplementedError

    def set_due(self, due: float) -> None:
        """Change the deadline, without a word to `Deadlines`."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether nothing waits for it any more."""
        raise NotImplementedError

    def expire(self) -> None:
        """End the waiting."""
        raise NotImplementedError


class PlainRequest(TimedRequest):
    """A request whose caller waits for ``future``.

    The future gets what a fast path has decoded, or ``None``; in that case ``result`` or ``error`` is set, or neither
    if no response came in time.

    Attributes:
        deadline: time of the event loop at which the waiting ends.
        wait_s: seconds by which progress moves the deadline; ``None``: it does not.
        result: the result of the response, as JSON, if the general path has settled the request.
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

    @property
    def due(self) -> float:
        """See `TimedRequest`."""
        return self.deadline

    def set_due(self, due: float) -> None:
        """See `TimedRequest`."""
        self.deadline = due

    @property
    def is_over(self) -> bool:
        """See `TimedRequest`."""
        return self.future.done()

    def expire(self) -> None:
        """See `TimedRequest`."""
        self.future.set_result(None)

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
        requests: id → request; those that are not `TimedRequest` have time-outs of their own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, requests: Mapping[Any, object]) -> None:
        self._loop = loop
        self._requests = requests
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")

    def now(self) -> float:
        """Return the time of the event loop."""
        return self._loop.time()

    def add(self, request: TimedRequest, wait_s: float) -> None:
        """Give a request a deadline so many seconds from now."""
        due = self._loop.time() + wait_s
        request.set_due(due)
        if due < self._due:
            self._start(due)

    def note(self, due: float) -> None:
        """Look at the requests at this time at the latest."""
        if due < self._due:
            self._start(due)

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
            if isinstance(request, TimedRequest) and not request.is_over:
                due = request.due
                if due <= now:
                    request.expire()
                elif due < next_due:
                    next_due = due
        if next_due < float("inf"):
            self._start(next_due)


class PlainScope(TimedRequest):
    """A cancel scope for one request, with what its users need of `anyio.CancelScope`, on the timer of `Deadlines`.

    It ends its body as `asyncio.timeout` does: by a cancellation of the task, which it takes back.

    Args:
        deadlines: has the timer.
    """

    __slots__ = ("_cancelling", "_deadline", "_deadlines", "_is_entered", "_task", "cancel_called")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._deadline = float("inf")
        self._task: Any = None
        self._cancelling = 0
        self._is_entered = False
        self.cancel_called = False

    @property
    def deadline(self) -> float:
        """Time of the event loop at which the body ends; infinite for never."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline
        self._deadlines.note(deadline)

    @property
    def due(self) -> float:
        """See `TimedRequest`."""
        return self._deadline

    def set_due(self, due: float) -> None:
        """See `TimedRequest`."""
        self._deadline = due

    @property
    def is_over(self) -> bool:
        """See `TimedRequest`."""
        return self.cancel_called or not self._is_entered

    def expire(self) -> None:
        """See `TimedRequest`."""
        self.cancel()

    def cancel(self) -> None:
        """End the body."""
        if not self.cancel_called:
            self.cancel_called = True
            if self._is_entered:
                self._task.cancel()

    def __enter__(self) -> PlainScope:
        self._task = task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._cancelling = task.cancelling()
        self._is_entered = True
        if self.cancel_called:
            task.cancel()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self._is_entered = False
        task, self._task = self._task, None
        if not self.cancel_called:
            return False
        # A further cancellation is a foreign one, and continues.
        is_only_ours = task.uncancel() <= self._cancelling
        return is_only_ours and kind is not None and issubclass(kind, asyncio.CancelledError)
