"""Plain requests that wait for their responses: one future each, and one timer for all of them.

The general path has `ferrule.kernel.outbound_request.OutboundRequest`, with a time-out of its own for each request and
with callbacks for progress. A `PlainRequest` is in the same table of the dispatcher, which settles both kinds: the
dispatcher handles each response that the fast path leaves to it (an error, an unusual result), and the end of the
channel.

On asyncio only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from ferrule.kernel.dispatch import OnProgress

__all__ = ["MAX_PROGRESS_BACKLOG", "Deadlines", "PlainRequest", "PlainScope", "TimedRequest"]

logger = logging.getLogger(__name__)

MAX_PROGRESS_BACKLOG: Final = 256
"""Progress values that may wait for a slow callback; the oldest are dropped first, as each value replaces the last."""


class TimedRequest:
    """A request that `Deadlines` ends at its deadline."""

    __slots__ = ()

    @property
    def due(self) -> float:
        """The deadline, in seconds on the clock of the event loop."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether the request has ended, so that its deadline has no effect."""
        raise NotImplementedError

    def expire(self) -> None:
        """End the request, because its deadline has passed."""
        raise NotImplementedError


class PlainRequest(TimedRequest):
    """A request whose caller waits for ``future``.

    The future gets the value that a fast path has decoded. It gets ``None`` if the general path has settled the request
    (``result`` or ``error`` is then set), or if no response came in time (neither is set).

    Attributes:
        deadline: the time at which the wait ends, in seconds on the clock of the event loop.
        wait_s: each progress notification moves the deadline to this many seconds from then; ``None``: it does not.
        result: the result of the response, as JSON, if the general path has settled the request.
        error: the exception to raise instead.
        has_response: whether ``result`` or ``error`` is set.
        on_progress: called with each progress, in order; ``None``: progress is not passed on.
        calling: set when all calls of ``on_progress`` have ended; ``None`` while there are none.
    """

    __slots__ = (
        "_backlog",
        "calling",
        "deadline",
        "error",
        "future",
        "has_response",
        "on_progress",
        "result",
        "wait_s",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wait_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.on_progress = on_progress
        self.calling: asyncio.Event | None = None
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
        """Move the deadline if `wait_s` is set; return a coroutine to run in a task if there is a callback to run."""
        if self.wait_s is not None:
            self.deadline = self.future.get_loop().time() + self.wait_s
        if self.on_progress is None:
            return None
        progress = (params.get("progress", 0.0), params.get("total"), params.get("message"))
        if self.calling is not None:  # one call at a time, or values could arrive out of order
            self._backlog.append(progress)
            return None
        self._backlog: deque[tuple[Any, Any, Any]] = deque([progress], maxlen=MAX_PROGRESS_BACKLOG)
        self.calling = asyncio.Event()
        return self._call(self.calling)

    async def _call(self, calling: asyncio.Event) -> None:
        try:
            while self._backlog and self.on_progress is not None:
                try:
                    waiting = self.on_progress(*self._backlog.popleft())
                    if waiting is not None:
                        await waiting
                except Exception:
                    logger.exception("A progress callback failed")
        finally:
            self.calling = None
            calling.set()


class Deadlines:
    """The time-outs of requests, with one timer, which is set to the earliest deadline known when it is started.

    Args:
        loop: the event loop; its clock measures the deadlines.
        requests: id → request; a request that is not a `TimedRequest` has a time-out of its own.

    Attributes:
        due: the time at which the requests are checked next (seconds on the clock of the event loop); infinite: never.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, requests: Mapping[Any, object]) -> None:
        self._loop = loop
        self._requests = requests
        self._timer: asyncio.TimerHandle | None = None
        self.due = float("inf")

    def now(self) -> float:
        """Return the time of the event loop's clock, in seconds."""
        return self._loop.time()

    def note(self, due: float) -> None:
        """Check the requests at the time ``due`` at the latest (seconds on the clock of the event loop)."""
        if due < self.due:
            self._start(due)

    def close(self) -> None:
        """Stop the timer."""
        self.due = float("inf")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.due = due
        self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        self.due = next_due = float("inf")
        # The clock of a timer is rounded up to its resolution, so that a timer may run a little early.
        now = self._loop.time() + 1e-3
        for request in list(self._requests.values()):
            # An `OutboundRequest` of the general path is in the same table and has a time-out of its own.
            if isinstance(request, TimedRequest) and not request.is_over:
                due = request.due
                if due <= now:
                    request.expire()
                elif due < next_due:
                    next_due = due
        if next_due < float("inf"):
            self._start(next_due)


class PlainScope(TimedRequest):
    """A cancel scope for one request, with the timer of `Deadlines`; it has the used part of `anyio.CancelScope`.

    It ends its body as `asyncio.timeout` does: it cancels the task, and takes the cancellation back at its end.

    Args:
        deadlines: the deadlines of the connection; they have the timer.
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
        """The time at which the body is cancelled, in seconds on the clock of the event loop; infinite for never."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline
        self._deadlines.note(deadline)

    @property
    def due(self) -> float:
        """See `TimedRequest`."""
        return self._deadline

    @property
    def is_over(self) -> bool:
        """See `TimedRequest`."""
        return self.cancel_called or not self._is_entered

    def expire(self) -> None:
        """See `TimedRequest`."""
        self.cancel()

    def cancel(self) -> None:
        """Cancel the body."""
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
