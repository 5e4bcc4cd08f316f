"""What the coroutine of a request yields, besides what it waits for: turns to the event loop, and jobs to its thread.

Turns: a call that sends something (progress, a log message, a notification, a change) usually ends without waiting: it
writes into a buffer, or has no receiver. A body that only makes such calls would block the event loop: other clients
wait, and neither a cancellation nor a shutdown reaches it. Therefore such calls are counted, and every
`CALLS_PER_YIELD`-th one yields once. Each request counts its own calls, so that a body which runs again (in rounds)
yields at the same places.

Jobs: the thread of a host without an event loop (WSGI) serves requests in which nothing waits for one. It steps the
coroutine of the request itself, which then yields to its thread:

- a `ThreadCall`: the thread runs the job, and sends the outcome, which is a pair of result and exception;
- `MOVE`: the event loop goes on with the coroutine.

A job may also need the event loop while it runs (`RequestThread.move`). The coroutine is suspended then, so that a task
of the event loop can go on with it. In both cases the coroutine is sent `MOVED`, in its task. Generators that step a
coroutine themselves must pass `MOVED` on; those that need a task, a timer or a scope make it at this moment.

What is served so must use nothing of an event loop before it yields `MOVE`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from math import inf
from time import monotonic
from types import coroutine
from typing import Any, Final, Protocol, TypeAlias, TypeVar

__all__ = [
    "CALLS_PER_YIELD",
    "MOVE",
    "MOVED",
    "NEEDS_NO_LOOP",
    "CallCounter",
    "Outcome",
    "RequestThread",
    "ThreadCall",
    "call_in_thread",
    "deadline",
    "going_on",
    "is_late",
    "move_to_loop",
    "request_thread",
    "stepping_thread",
    "until_moved",
    "yield_to_loop",
]

T = TypeVar("T")

# -- turns -------------------------------------------------------------------------------------------------------------

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


# -- jobs --------------------------------------------------------------------------------------------------------------

NEEDS_NO_LOOP: Final = "needs_no_loop"
"""Name of an attribute of what is async and waits for nothing but the threads of the server; its value is true."""

Outcome: TypeAlias = tuple[Any, BaseException | None]
"""Result and exception of a job."""

MOVE: Final = object()
"""Yielded to the thread of a request: the event loop must go on."""

MOVED: Final = object()
"""Sent into a coroutine with which the event loop goes on."""


class RequestThread(Protocol):
    """The thread of a request, which steps the coroutine of the request."""

    @property
    def loop(self) -> Any:
        """The asyncio event loop that goes on with the request if it must."""
        ...

    @property
    def is_stepping(self) -> bool:
        """Whether the current thread is this one, and runs a step of the coroutine: neither a job nor anything else."""
        ...

    def move(self) -> None:
        """Let the event loop go on with the request while a job runs; does nothing if it does already.

        Called in the thread, by the job.
        """
        ...


request_thread: ContextVar[RequestThread | None] = ContextVar("ferrule_request_thread", default=None)
"""The thread that has begun the current request; ``None`` for a request of the event loop."""


def stepping_thread() -> RequestThread | None:
    """Return the thread that runs this code as a step of its request; ``None`` on an event loop and in a job."""
    thread = request_thread.get()
    return thread if thread is not None and thread.is_stepping else None


deadline: ContextVar[float] = ContextVar("ferrule_deadline", default=inf)
"""When the time of a request is over that its thread serves, by `time.monotonic`."""


def is_late() -> bool:
    """Return whether the time of the request that this thread serves is over."""
    return monotonic() > deadline.get()


class ThreadCall:
    """Yielded to the thread of a request: a job for it.

    Args:
        run: runs the job, and raises nothing.
        deliver: called with the outcome instead of sending it, if the request has moved while the job ran.
    """

    __slots__ = ("deliver", "run")

    def __init__(self, run: Callable[[], Outcome], deliver: Callable[[Any, BaseException | None], None]) -> None:
        self.run = run
        self.deliver = deliver


@coroutine
def call_in_thread(call: ThreadCall) -> Generator[ThreadCall, Any, Outcome | None]:
    """Return the outcome of a job; ``None`` if the request has moved, and the outcome is delivered later."""
    received = yield call
    return None if received is MOVED else received


@coroutine
def _move() -> Generator[object, Any, None]:
    yield MOVE


async def move_to_loop() -> None:
    """Go on in a task of the event loop; does nothing on one."""
    if stepping_thread() is not None:
        await _move()


@coroutine
def until_moved(work: Coroutine[Any, Any, T]) -> Generator[Any, Any, tuple[T] | None]:
    """Step a coroutine in the thread of the request.

    Returns:
        Its result in a tuple; ``None`` when the request has moved: `going_on` then returns its result.

    Raises:
        BaseException: any exception of the coroutine.
    """
    received: Any = None
    try:
        while True:
            received = yield work.send(received)
            if received is MOVED:
                return None
    except StopIteration as stop:
        return (stop.value,)
    except GeneratorExit:
        work.close()
        raise


@coroutine
def going_on(work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Return the result of a coroutine whose request has moved; it has been begun in the thread.

    Raises:
        BaseException: any exception of the coroutine.
    """
    # As `yield from` does (PEP 380), which would send `None` first.
    try:
        pending = work.send(MOVED)
        while True:
            try:
                received = yield pending
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                pending = work.throw(error)
            else:
                pending = work.send(received)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
