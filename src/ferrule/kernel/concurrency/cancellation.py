"""What a cancellation is: who may end a request before its body has answered, and what everything else is.

Three may cancel a request:

- the *peer*: ``notifications/cancelled``, or a modern client that closes the response of its request;
- a *deadline*: the component's ``timeout_s``, a time-out of whoever makes the call, one in middleware;
- a *shutdown*: the dispatcher ends, the server that carries the request cancels its task, Ctrl-C at the terminal.

Everything else that a body raises is that body's failure, also what is no ``Exception``: a ``CancelledError`` that
nobody asked for (a cancelled task of its own that it awaited, a cancelled future, a plain ``raise``), a
``GeneratorExit``, a ``SystemExit`` (argparse raises it), a ``KeyboardInterrupt`` that no signal caused. The peer gets
an error, the log gets the traceback, other requests go on.

The decision is `ends_request`, a function of its arguments; `is_cancellation` collects them. What a body can do by
itself is no proof: that the count of `asyncio.Task.cancelling` is above 0 means nothing, since a failed and handled
``TaskGroup`` leaves it there until Python 3.12, and since a body can cancel its own task. Proofs are

- that the carrier of the request says so: the peer withdrew it, or the carrier ends and cancels what it started;
- that a cancel scope of anyio or trio around the code that asks is cancelled;
- on asyncio, that the exception was thrown into the task by a ``cancel()`` that came from outside the body. `attended`
  notes that: the count rose while the body waited, not while it ran (unless Ctrl-C raised it in between), and the
  exception is what the wait ended with.

Rule a newcomer would break: a carrier that runs a body runs it through `attended`, and never takes ``except
BaseException`` for "cancelled".
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable

__all__ = [
    "BodyExit",
    "CanBeWithdrawn",
    "Interruptible",
    "attended",
    "ends_request",
    "failure_of",
    "is_cancellation",
    "is_from_signal",
    "take_back_left_over",
]

T = TypeVar("T")

_GROUPS_LEAVE_A_COUNT: Final = sys.version_info < (3, 13)
"""Whether an ``asyncio.TaskGroup`` with a failed task leaves its parent's count of cancellations raised."""

_MAX_CHAIN: Final = 100
"""Exceptions of a chain that are looked at: a chain may be as long as its author likes."""


class BodyExit(RuntimeError):
    """A body raised something that is no ``Exception``, and nobody had asked for it.

    Attributes:
        raised: what it was.
    """

    def __init__(self, raised: BaseException) -> None:
        text = str(raised)
        super().__init__(f"{type(raised).__name__}: {text}" if text else type(raised).__name__)
        self.raised = raised


@runtime_checkable
class CanBeWithdrawn(Protocol):
    """A dispatch context that says whether the peer has withdrawn its request."""

    @property
    def cancel_requested(self) -> bool:
        """Whether it has."""
        ...


class Interruptible:
    """The part of a dispatch context that knows about the end of its request.

    Attributes:
        cancel_requested: the peer has withdrawn the request.
        loop: the asyncio event loop, where the carrier knows it; ``None`` elsewhere.
        interruption: what was last thrown into the body from outside; ``None`` for nothing. Set by `attended`; whoever
            awaits that forgets it once the request has ended, because its traceback leads back here.
        left_over: the count of the task when that was thrown, without what it counts for; see `take_back_left_over`.
        foreign_cancels: how many calls of ``cancel()`` that took. Whoever cancels the body's task and takes that back
            itself counts this down first, so that others can be told from its own.
    """

    __slots__ = ("foreign_cancels", "interruption", "left_over")

    cancel_requested: bool = False
    loop: Any = None

    def __init__(self) -> None:
        self.left_over = 0
        self.interruption: BaseException | None = None
        self.foreign_cancels = 0

    @property
    def is_being_cancelled(self) -> bool:
        """Whether the peer has withdrawn the request, or the carrier is ending it."""
        return self.cancel_requested

    def suspended(self) -> None:
        """Called once, when the body first waits for something."""


def ends_request(
    error: BaseException,
    *,
    cancelled: type[BaseException],
    asked: bool,
    scope_is_cancelled: bool,
    interruption: BaseException | None,
) -> bool:
    """Return whether what a body raised ends its request: somebody who may do so asked for it. See the module.

    Args:
        error: what was raised.
        cancelled: the event loop's own class for cancellations.
        asked: the carrier says that the peer, or a shutdown, cancelled the request.
        scope_is_cancelled: a cancel scope around the code that asks is cancelled.
        interruption: what was last thrown in from outside.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(
            ends_request(
                inside,
                cancelled=cancelled,
                asked=asked,
                scope_is_cancelled=scope_is_cancelled,
                interruption=interruption,
            )
            for inside in cast("BaseExceptionGroup[BaseException]", error).exceptions
        )
    if isinstance(error, Exception):
        return False
    if isinstance(error, cancelled):
        return asked or scope_is_cancelled or _follows(error, interruption)
    if isinstance(error, GeneratorExit):
        return isinstance(interruption, GeneratorExit)  # the whole coroutine is being closed
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return is_from_signal(error)
    return False


def is_cancellation(error: BaseException, request: object) -> bool:
    """Return whether what the body of a request raised is a cancellation that somebody asked for.

    Args:
        error: what it raised; ask in the task that ran the body.
        request: the dispatch context. One that is not `Interruptible` brings no proof, and the task's count decides.
    """
    if isinstance(error, Exception):
        return False
    import anyio

    try:
        cancelled = anyio.get_cancelled_exc_class()
        scope_is_cancelled = anyio.current_effective_deadline() == float("-inf")
    except Exception:  # no event loop: the coroutine is being closed after it
        return True
    if isinstance(request, Interruptible):
        asked, interruption = request.is_being_cancelled, request.interruption
    else:
        task = _asyncio_task(None)
        asked = isinstance(request, CanBeWithdrawn) and request.cancel_requested
        asked = asked or (task is not None and task.cancelling() > 0)
        interruption = error if isinstance(error, GeneratorExit) else None
    return ends_request(
        error,
        cancelled=cancelled,
        asked=asked,
        scope_is_cancelled=scope_is_cancelled,
        interruption=interruption,
    )


def failure_of(error: BaseException, request: object) -> Exception:
    """Return what a body failed with, as an ``Exception``: the error itself, or a `BodyExit` in its place.

    Raises:
        BaseException: ``error`` itself, if it is a cancellation (`is_cancellation`).
    """
    if isinstance(error, Exception):
        return error
    if is_cancellation(error, request):
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: a cycle that only a full collection would find
    failure = BodyExit(error)
    failure.__cause__ = error
    return failure


@coroutine
def attended(awaitable: Awaitable[T], request: Interruptible) -> Generator[Any, Any, T]:
    """Await the body of a request and note what is thrown into it from outside (`Interruptible.interruption`).

    Calls ``request.suspended()`` once, when the body first has to wait: a body that answers without waiting cannot be
    interrupted, and costs nothing more. After the first step it is ``yield from``, spelled out (PEP 380).

    Until Python 3.12 it also takes back what a failed ``TaskGroup`` of the body left in the task's count, which
    `asyncio.timeout` and anyio's scopes around the call would take for a cancellation.
    """
    # A coroutine has `send`; of any other awaitable the iterator has it.
    work = cast("Coroutine[Any, Any, T]", awaitable if hasattr(awaitable, "send") else awaitable.__await__())
    try:
        pending = work.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    request.suspended()
    loop = request.loop
    task = _asyncio_task(loop)
    running = _running_task(loop) if task is None else task
    cancelling: Callable[[], int] = _zero if task is None else task.cancelling
    before = at_start = cancelling()
    thrown: BaseException | None = None
    received: Any = None
    try:
        while True:
            try:
                received = yield pending
            except GeneratorExit as closing:
                request.interruption = closing
                work.close()
                if running is not None and _running_task(loop) is running:
                    # The task goes on: it waited for something that raised this, and Python closed what is below.
                    request.interruption = None
                raise
            except BaseException as error:
                thrown = error
            if thrown is None:
                pending = work.send(received)
            else:  # outside of the `except`, or it would be the context of all that the body raises from now on
                risen = cancelling() - before
                request.left_over = before - at_start
                if risen > 0 or _is_interrupted(task):
                    request.interruption = thrown
                    request.foreign_cancels += risen
                pending = work.throw(thrown)
                thrown = None
            before = cancelling()
    except StopIteration as stop:
        request.left_over = cancelling() - at_start
        return cast("T", stop.value)
    except BaseException as error:
        if not _follows(error, request.interruption):
            request.left_over = cancelling() - at_start
        raise
    finally:
        take_back_left_over(request)
        thrown = task = running = None  # the traceback holds this frame, and a cancelled task the exception
        cancelling = _zero


def take_back_left_over(request: Interruptible | None) -> None:
    """Take back what failed groups of the body left in the count of the task that runs the caller.

    Before Python 3.13 an ``asyncio.TaskGroup`` leaves the count of its parent raised by one if a task of it fails while
    the parent waits for its end. Whoever judges by the count, as `asyncio.timeout` and anyio's scopes do, then takes
    its own cancellation for somebody else's and lets it go on. So it is called at the end of each body, and before a
    scope around a part of it ends.
    """
    if request is None:
        return
    left_over = request.left_over
    if left_over > 0 and _GROUPS_LEAVE_A_COUNT:
        task = _asyncio_task(None)
        if task is not None:
            for _ in range(left_over):
                task.uncancel()
    if left_over:
        request.left_over = 0


def _zero() -> int:
    return 0


def _asyncio_task(loop: Any) -> Any:
    """Return the asyncio task that runs the caller; ``None`` on another event loop. Never imports asyncio."""
    module = sys.modules.get("asyncio")
    if module is None:
        return None
    try:
        return module.current_task(loop)  # told the loop, it need not look for it: a system call before Python 3.12
    except RuntimeError:
        return None


def _running_task(loop: Any) -> Any:
    """Return the task that runs the caller, on asyncio or trio; ``None`` outside of any."""
    found = _asyncio_task(loop)
    if found is None and "trio" in sys.modules:
        try:
            return sys.modules["trio"].lowlevel.current_task()
        except RuntimeError:
            return None
    return found


def _follows(error: BaseException, cause: BaseException | None) -> bool:
    """Return whether ``error`` is ``cause``, or was raised while ``cause`` was being handled."""
    found: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if found is None or cause is None:
            return False
        if found is cause:
            return True
        found = found.__cause__ or found.__context__
    return False


def is_from_signal(error: BaseException) -> bool:
    """Return whether a handler of signals raised this: Ctrl-C at the terminal, a stop that the process was told."""
    import signal

    trace = error.__traceback__
    if trace is None:
        return False
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    while True:
        if trace.tb_frame.f_code in codes:
            return True
        if trace.tb_next is None:
            break
        trace = trace.tb_next
    if not isinstance(error, KeyboardInterrupt):
        return False
    if str(trace.tb_frame.f_globals.get("__name__")).startswith("trio."):  # trio hands it to its main task
        return True
    # Python's own handler has no frame: what it raises appears between two instructions, and not at a `raise`.
    import opcode

    instruction = trace.tb_frame.f_code.co_code[trace.tb_lasti]
    is_raised_here = instruction == opcode.opmap["RAISE_VARARGS"]
    return not is_raised_here and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _is_interrupted(task: Any) -> bool:
    """Return whether Ctrl-C at the terminal has cancelled the main task, and ``task`` is that (`asyncio.Runner`).

    Its handler may run in the middle of the body, so that the count rises while the body runs.
    """
    import signal

    handler = signal.getsignal(signal.SIGINT)
    # The handler that `asyncio.Runner` installs is a partial of a private method.
    keywords: Any = getattr(handler, "keywords", None)
    if task is None or not keywords or keywords.get("main_task") is not task:
        return False
    runner = getattr(getattr(handler, "func", None), "__self__", None)  # parts of asyncio, private as the partial is
    return bool(getattr(runner, "_interrupt_count", True))  # a private count of asyncio


def _code_of(handler: Any) -> Any:
    """Return the code of a handler of signals that is written in Python; ``None`` of any other."""
    while hasattr(handler, "func"):  # a partial
        handler = handler.func
    # A method has the function inside; what is written in C has no code.
    return getattr(getattr(handler, "__func__", handler), "__code__", None)
