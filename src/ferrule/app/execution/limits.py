"""Time-outs and concurrency limits of one component; they wrap its function only if the author set them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from time import monotonic
from typing import Any

import anyio

from ferrule.app.errors import ToolError
from ferrule.app.execution.current import current_request, request_of
from ferrule.kernel.concurrency.cancellation import take_back_left_over
from ferrule.kernel.concurrency.yielding import deadline, going_on, request_thread, stepping_thread, until_moved

__all__ = ["Limits", "TooManyCalls", "ToolTimeout", "limited", "paused_time"]


class ToolTimeout(ToolError):
    """A tool did not end within its ``timeout_s``."""


class TooManyCalls(ToolError):
    """A tool has its maximum number of running and waiting calls."""


class Limits:
    """The limits of a component.

    Args:
        timeout_s: maximum duration of one run in seconds; the time in which a question waits for its answer does not
            count. ``None`` for no limit. A sync function is abandoned, not stopped: Python cannot end a thread.
        max_concurrent: maximum number of runs at the same time; further ones wait. ``None`` for no limit.
        max_waiting: maximum number of waiting runs; further ones are refused.

    Raises:
        ValueError: a limit is not positive (the author's mistake).
    """

    __slots__ = ("max_concurrent", "max_waiting", "timeout_s")

    def __init__(
        self, timeout_s: float | None = None, max_concurrent: int | None = None, max_waiting: int = 1000
    ) -> None:
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError("timeout_s is more than 0")
        if max_concurrent is not None and max_concurrent < 1:
            raise ValueError("max_concurrent is at least 1")
        self.timeout_s = timeout_s
        self.max_concurrent = max_concurrent
        self.max_waiting = max_waiting

    def __bool__(self) -> bool:
        return self.timeout_s is not None or self.max_concurrent is not None


class _Clock:
    """The time-out of one run, which is paused while a question waits for its answer."""

    __slots__ = ("_left_s", "_outer", "_questions", "_scope")

    def __init__(self, scope: Any, outer: _Clock | None) -> None:
        self._scope = scope
        self._outer = outer  # the time-out of a tool that calls this one, paused too
        self._questions = 0
        self._left_s = math.inf

    def __enter__(self) -> None:
        if not self._questions:
            self._left_s = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._questions += 1
        if self._outer is not None:
            self._outer.__enter__()

    def begin(self, scope: anyio.CancelScope, left_s: float) -> None:
        """End a scope that has been entered ``left_s`` seconds from now."""
        self._scope = scope
        _end_after(scope, left_s)

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            self._outer.__exit__()
        self._questions -= 1
        if not self._questions:
            _end_after(self._scope, self._left_s)


def _end_after(scope: anyio.CancelScope, seconds: float) -> None:
    """Let a scope that has been entered end ``seconds`` from now.

    A cancelled timer of asyncio stays in the heap of its loop, often until its time, with the context that it was made
    in. In the context of a call it would keep the whole request, and the garbage collector would move the request to
    its oldest generation. Therefore the timer is made in an empty context.
    """
    Context().run(setattr, scope, "deadline", anyio.current_time() + seconds)


class _NoClock:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


_NO_CLOCK = _NoClock()
_clock: ContextVar[_Clock | None] = ContextVar("ferrule_clock", default=None)


def paused_time() -> _Clock | _NoClock:
    """Return a context manager that pauses the time-out of the running tool, for the wait for a client's answer."""
    return _clock.get() or _NO_CLOCK


def limited(name: str, function: Callable[..., Awaitable[Any]], limits: Limits) -> Callable[..., Awaitable[Any]]:
    """Return ``function`` with its limits; ``function`` itself if it has none.

    Raises (the returned function):
        ToolTimeout: it did not end within ``timeout_s``.
        TooManyCalls: too many calls are waiting.
    """
    call = function
    if limits.timeout_s is not None:
        call = _timed(name, call, limits.timeout_s)
    if limits.max_concurrent is not None:
        call = _bounded(name, call, limits.max_concurrent, limits.max_waiting)
    return call


def _timed(name: str, function: Callable[..., Awaitable[Any]], timeout_s: float) -> Callable[..., Awaitable[Any]]:
    """Return ``function`` with a time-out in seconds; the returned function raises `ToolTimeout`."""

    async def call(**kwargs: Any) -> Any:
        if request_thread.get() is not None and stepping_thread() is not None:
            return await in_thread(function(**kwargs))
        with anyio.CancelScope() as scope:
            _end_after(scope, timeout_s)
            token = _clock.set(_Clock(scope, _clock.get()))
            try:
                return await function(**kwargs)
            except Exception:
                raise
            except BaseException:
                # Before the scope ends: it would take a cancellation left over by a task group for one from outside.
                take_back_left_over(request_of(current_request.get()).session.interruptible)
                raise
            finally:
                _clock.reset(token)
        raise late()

    async def in_thread(work: Any) -> Any:
        """Await a coroutine in the thread of the request, which nothing interrupts: it is late if it ends too late."""
        clock = _Clock(None, _clock.get())
        clock_token = _clock.set(clock)
        ends_at = monotonic() + timeout_s
        token = deadline.set(min(ends_at, deadline.get()))
        try:
            try:
                ended = await until_moved(work)
            except Exception:
                if monotonic() > ends_at:
                    raise late() from None
                raise
            if ended is not None:
                if monotonic() > ends_at:
                    raise late()
                return ended[0]
            with anyio.CancelScope() as scope:  # the event loop goes on with it
                clock.begin(scope, ends_at - monotonic())
                try:
                    return await going_on(work)
                except Exception:
                    raise
                except BaseException:
                    take_back_left_over(request_of(current_request.get()).session.interruptible)
                    raise
            raise late()
        finally:
            deadline.reset(token)
            _clock.reset(clock_token)

    def late() -> ToolTimeout:
        from ferrule.kernel.serving.members import current_verdict

        verdict = current_verdict.get()
        if verdict is not None:
            verdict.timed_out = True
        return ToolTimeout(f"`{name}` did not finish within {timeout_s:g} s")

    return call


def _bounded(
    name: str, function: Callable[..., Awaitable[Any]], max_concurrent: int, max_waiting: int
) -> Callable[..., Awaitable[Any]]:
    """Return ``function`` with a limit of runs at the same time; for the arguments see `Limits`.

    Raises (the returned function):
        TooManyCalls: ``max_waiting`` calls are waiting.
    """
    # Not a semaphore: an event loop may run other calls between its release and the wake-up of the first waiter.
    running = 0
    waiting: list[anyio.Event] = []

    async def call(**kwargs: Any) -> Any:
        nonlocal running
        if running >= max_concurrent:
            if len(waiting) >= max_waiting:
                raise TooManyCalls(f"`{name}` is busy; try again later")
            turn = anyio.Event()
            waiting.append(turn)
            try:
                await turn.wait()
            except BaseException:
                if turn.is_set():  # the cancellation came after the place was passed to this call: pass it on
                    _pass_on()
                else:
                    waiting.remove(turn)
                raise
        else:
            running += 1
        try:
            return await function(**kwargs)
        finally:
            _pass_on()

    def _pass_on() -> None:
        """Pass the place of a finished run to the call that has waited longest; no other call can take it meanwhile."""
        nonlocal running
        if waiting:
            waiting.pop(0).set()
        else:
            running -= 1

    return call
