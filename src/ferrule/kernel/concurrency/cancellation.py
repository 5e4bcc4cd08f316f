"""How a cancellation of a request is distinguished from a failure of its body (the function that serves it).

A request is cancelled by one of three causes:

- the *peer*: ``notifications/cancelled``, or a modern client that closes the HTTP response of its request;
- a *deadline*: the component's ``timeout_s``, a time-out of the caller, one in middleware;
- a *shutdown*: the dispatcher ends, the HTTP server cancels the task of the request, Ctrl-C at the terminal.

Any other exception of a body is a failure, even if it is not an ``Exception``: a ``CancelledError`` without such a
cause (the body awaited a cancelled task or future, or raised it), a ``GeneratorExit``, a ``SystemExit`` (argparse
raises it), a ``KeyboardInterrupt`` that no signal caused. The peer then gets an error response, the log the traceback,
and other requests continue.

`ends_request` decides from its arguments, which `is_cancellation` collects. A state that a body can cause by itself is
no evidence. In particular, a count of `asyncio.Task.cancelling` above 0 is none: a failed and handled ``TaskGroup``
leaves it there until Python 3.12, and a body can cancel its own task. Evidence is

- the transport: the peer withdrew the request, or the transport ends and cancels the tasks that it started;
- a cancelled cancel scope of anyio or trio around the calling code;
- on asyncio, an exception that was thrown into the task by a ``cancel()`` from outside the body. `run_interruptible`
  detects that: the count rose while the body waited, not while it ran (unless Ctrl-C raised it then), and the wait
  ended with the exception.

A transport must therefore run each body through `run_interruptible`, and must not handle every ``BaseException`` as a
cancellation.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from ferrule.kernel.concurrency.yielding import MOVE, MOVED, ThreadCall, stepping_thread

__all__ = [
    "BodyExit",
    "CanBeWithdrawn",
    "Interruptible",
    "ends_request",
    "failure_of",
    "is_cancellation",
    "is_from_signal",
    "run_interruptible",
    "take_back_left_over",
]

T = TypeVar("T")

_GROUPS_LEAVE_A_COUNT: Final = sys.version_info < (3, 13)
"""Whether an ``asyncio.TaskGroup`` with a failed task leaves its parent's count of cancellations raised."""

_MAX_CHAIN: Final = 100
"""Exceptions of a ``__cause__`` and ``__context__`` chain that are examined; user code decides how long a chain is."""


class BodyExit(RuntimeError):
    """A body raised a ``BaseException`` that is not an ``Exception``, without a cancellation of its request.

    Attributes:
        raised: the exception.
    """

    def __init__(self, raised: BaseException) -> None:
        text = str(raised)
        super().__init__(f"{type(raised).__name__}: {text}" if text else type(raised).__name__)
        self.raised = raised


@runtime_checkable
class CanBeWithdrawn(Protocol):
    """A dispatch context whose request the peer can withdraw."""

    @property
    def cancel_requested(self) -> bool:
        """Whether the peer has withdrawn the request."""
        ...


class Interruptible:
    """The part of a dispatch context that records how its request is interrupted.

    Attributes:
        cancel_requested: whether the peer has withdrawn the request.
        loop: the asyncio event loop, where the transport knows it; ``None`` elsewhere.
        task: the asyncio task that runs the body, where the transport knows it; ``None`` before the body first waits.
        interruption: the exception that was last thrown into the body from outside; ``None`` for none. Set by
            `run_interruptible`; its caller removes it when the request has ended, because its traceback references this
            object.
        left_over: the cancellations that the task counts and that are not this request's; see `take_back_left_over`.
        served_task_id: the id of the MCP task whose body is served; ``None`` for a request.
        foreign_cancels: the number of ``cancel()`` calls from outside. Code of Ferrule that cancels the body's task,
            and takes that back, first decreases this number by its own calls.
    """

    __slots__ = ("foreign_cancels", "interruption", "left_over")

    cancel_requested: bool = False
    loop: Any = None
    task: Any = None
    served_task_id: str | None = None

    def __init__(self) -> None:
        self.left_over = 0
        self.interruption: BaseException | None = None
        self.foreign_cancels = 0

    @property
    def is_being_cancelled(self) -> bool:
        """Whether the peer has withdrawn the request, or the transport is ending it."""
        return self.cancel_requested

    def suspended(self) -> Any:
        """Called once, when the body first waits; for subclasses.

        Returns:
            The asyncio task that runs the body, where the transport knows it; ``None`` elsewhere.
        """


def ends_request(
    error: BaseException,
    *,
    cancelled: type[BaseException],
    asked: bool,
    scope_is_cancelled: bool,
    interruption: BaseException | None,
) -> bool:
    """Return whether an exception of a body is a cancellation of its request: by the peer, a deadline or a shutdown.

    Args:
        error: the exception.
        cancelled: the event loop's class of cancellations.
        asked: the transport reports that the peer, or a shutdown, cancelled the request.
        scope_is_cancelled: a cancel scope around the calling code is cancelled.
        interruption: the exception that was last thrown in from outside.
    """
    # A task group wraps its own cancellation together with the failures of its tasks; one cancellation in it is enough.
    if isinstance(error, BaseExceptionGroup):
        group: BaseExceptionGroup[BaseException] = error  # pyright: ignore[reportUnknownVariableType]
        return any(
            ends_request(
                inside,
                cancelled=cancelled,
                asked=asked,
                scope_is_cancelled=scope_is_cancelled,
                interruption=interruption,
            )
            for inside in group.exceptions
        )
    if isinstance(error, Exception):
        return False
    if isinstance(error, cancelled):
        return asked or scope_is_cancelled or _follows(error, interruption)
    if isinstance(error, GeneratorExit):
        return isinstance(interruption, GeneratorExit)  # the coroutine itself is being closed
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return is_from_signal(error)
    return False


def is_cancellation(error: BaseException, request: object) -> bool:
    """Return whether an exception of a request's body is a cancellation of the request.

    Call it in the task that ran the body.

    Args:
        error: the exception.
        request: the dispatch context. If it is not `Interruptible`, the task's count of cancellations decides.
    """
    if isinstance(error, Exception):
        return False
    import anyio

    try:
        cancelled = anyio.get_cancelled_exc_class()
        scope_is_cancelled = anyio.current_effective_deadline() == float("-inf")
    except Exception:
        if stepping_thread() is None:  # the coroutine is being closed after the end of its event loop
            return True
        from asyncio import CancelledError

        cancelled, scope_is_cancelled = CancelledError, False
    if isinstance(request, Interruptible):
        asked, interruption = request.is_being_cancelled, request.interruption
    else:
        task = _asyncio_task(None)
        asked = isinstance(request, CanBeWithdrawn) and request.cancel_requested
        asked = asked or (task is not None and task.cancelling() > 0)
        # Without a record of interruptions a closed coroutine cannot be distinguished from a raised `GeneratorExit`.
        interruption = error if isinstance(error, GeneratorExit) else None
    return ends_request(
        error,
        cancelled=cancelled,
        asked=asked,
        scope_is_cancelled=scope_is_cancelled,
        interruption=interruption,
    )


def failure_of(error: BaseException, request: object) -> Exception:
    """Return the failure of a body as an ``Exception``: the error itself, or a `BodyExit` for a ``BaseException``.

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
    # The log then shows the original traceback; the peer gets "Internal error" only.
    failure.__cause__ = error
    return failure


@coroutine
def run_interruptible(awaitable: Awaitable[T], request: Interruptible) -> Generator[Any, Any, T]:
    """Await the body of a request, record exceptions that are thrown into it from outside, and return its result.

    It sets `Interruptible.interruption`, and calls ``request.suspended()`` when the body first waits: a body that never
    waits cannot be interrupted and needs no more work.

    Until Python 3.12 it also takes back the cancellations that a failed ``TaskGroup`` of the body left in the task's
    count: `asyncio.timeout` and anyio's scopes around the call would treat them as cancellations of their own.

    Args:
        awaitable: the body.
        request: its dispatch context.
    """
    # `send` is a method of a coroutine; any other awaitable has it on its iterator.
    work: Any = awaitable if hasattr(awaitable, "send") else awaitable.__await__()  # without `cast`, which is a call
    received: Any
    try:
        pending = work.send(None)
        while type(pending) is ThreadCall or pending is MOVE:  # nothing interrupts the thread of the request
            received = yield pending
            pending = work.send(received)
            if received is MOVED:
                break
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    task = request.suspended()
    # From here on this is `yield from` written out (PEP 380), since that does not show what is thrown in.
    loop = request.loop
    if task is None:
        task = _asyncio_task(loop)
    running = _running_task(loop) if task is None else task
    cancelling: Callable[[], int] = _zero if task is None else task.cancelling
    before = at_start = cancelling()
    thrown: BaseException | None = None
    received = None
    try:
        while True:
            try:
                received = yield pending
            except GeneratorExit as closing:
                request.interruption = closing
                # As `yield from` does (PEP 380): a coroutine that is closed closes the one inside.
                work.close()
                if running is not None and _running_task(loop) is running:
                    # The task continues: it awaited something that raised GeneratorExit, and Python closed the
                    # coroutines inside. Only a coroutine that is closed from outside was interrupted.
                    request.interruption = None
                raise
            except BaseException as error:
                thrown = error
            if thrown is None:
                pending = work.send(received)
            else:  # outside of the `except`, or `thrown` would become the context of each later exception of the body
                risen = cancelling() - before
                request.left_over = before - at_start
                # Without a rise the exception came from a future that the body awaits, not from a `cancel()` of the
                # task.
                if risen > 0 or _is_interrupted(task):
                    request.interruption = thrown
                    request.foreign_cancels += risen
                pending = work.throw(thrown)
                thrown = None
            before = cancelling()
    except StopIteration as stop:
        request.left_over = cancelling() - at_start
        return stop.value  # type: ignore[no-any-return]
    except BaseException as error:
        if not _follows(error, request.interruption):
            request.left_over = cancelling() - at_start
        raise
    finally:
        if request.left_over:
            take_back_left_over(request)
        thrown = task = running = None  # the traceback holds this frame, and a cancelled task the exception
        cancelling = _zero


def take_back_left_over(request: Interruptible | None) -> None:
    """Correct the current task's count of cancellations for failed task groups of the body.

    Before Python 3.13 an ``asyncio.TaskGroup`` leaves the count of its parent task raised by one if a task of it fails
    while the parent waits for its end. `asyncio.timeout` and anyio's scopes compare the count: they would then treat
    their own cancellation as a foreign one, and not end it. Therefore call this at the end of each body, and before a
    scope around a part of a body ends.

    Args:
        request: the dispatch context; ``None`` does nothing.
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
        # With the loop as an argument it is not looked up, which is a system call before Python 3.12.
        return module.current_task(loop)
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
    """Return whether a signal handler raised this: for Ctrl-C at the terminal, or for a stop of the process."""
    import signal

    trace = error.__traceback__
    if trace is None:
        return False
    # A handler that raises has its own frame in the traceback.
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    while True:
        if trace.tb_frame.f_code in codes:
            return True
        if trace.tb_next is None:
            break
        trace = trace.tb_next
    if not isinstance(error, KeyboardInterrupt):
        return False
    if str(trace.tb_frame.f_globals.get("__name__")).startswith("trio."):  # trio raises it in its main task
        return True
    # Python's default handler has no frame: its exception appears between two instructions, not at a `raise`.
    import opcode

    instruction = trace.tb_frame.f_code.co_code[trace.tb_lasti]
    is_raised_here = instruction == opcode.opmap["RAISE_VARARGS"]
    return not is_raised_here and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _is_interrupted(task: Any) -> bool:
    """Return whether ``task`` is the main task of an `asyncio.Runner`, and Ctrl-C has cancelled it.

    The signal handler may run in the middle of the body, so that the count rises while the body runs.
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
    """Return the code object of a signal handler that is written in Python; ``None`` for any other."""
    while hasattr(handler, "func"):  # a `functools.partial`
        handler = handler.func
    # A method has the function inside; what is written in C has no code.
    return getattr(getattr(handler, "__func__", handler), "__code__", None)
