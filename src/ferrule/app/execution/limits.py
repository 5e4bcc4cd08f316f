"""Time-outs and concurrency limits of one component; they wrap its function only if the author set them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from threading import RLock, get_ident
from time import monotonic
from typing import Any

import anyio

from ferrule.app.errors import ToolError
from ferrule.app.execution.current import current_request, request_of
from ferrule.kernel.concurrency.cancellation import take_back_left_over
from ferrule.kernel.concurrency.spawner import is_asyncio
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

    Attributes:
        concurrency: counts the runs of all functions with these limits; ``None`` without ``max_concurrent``.

    Raises:
        ValueError: a limit is not positive (the author's mistake).
    """

    __slots__ = ("concurrency", "max_concurrent", "max_waiting", "timeout_s")

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
        self.concurrency = None if max_concurrent is None else ConcurrencyLimit(max_concurrent, max_waiting)

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
    if limits.concurrency is not None:
        call = _bounded(name, call, limits.concurrency)
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


class ConcurrencyLimit:
    """A limit of the runs of one tool at the same time, of its copies in other servers too.

    The servers that have the tool may run in several event loops, each in a thread of its own.

    Args:
        max_concurrent, max_waiting: see `Limits`.
    """

    # Not a semaphore: an event loop may run other calls between its release and the wake-up of the first waiter.
    __slots__ = ("_lock", "_max_concurrent", "_max_waiting", "_running", "_waiting")

    def __init__(self, max_concurrent: int, max_waiting: int) -> None:
        self._max_concurrent = max_concurrent
        self._max_waiting = max_waiting
        self._running = 0
        self._waiting: list[_Turn] = []
        self._lock = RLock()

    @property
    def waiting(self) -> int:
        """Number of calls that wait."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Number of calls that have a place."""
        return self._running

    async def acquire(self, name: str) -> None:
        """Take a place, after the calls that wait already.

        Args:
            name: the name of the tool for the error.

        Raises:
            TooManyCalls: ``max_waiting`` calls are waiting.
        """
        with self._lock:
            if self._running < self._max_concurrent:
                self._running += 1
                return
            if len(self._waiting) >= self._max_waiting:
                raise TooManyCalls(f"`{name}` is busy; try again later")
            turn = _Turn()
            self._waiting.append(turn)
        try:
            await turn.event.wait()
        except BaseException:
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            if turn.has_place:  # the cancellation came after the place was passed to this call: pass it on
                self.release()
            raise

    def release(self) -> None:
        """Pass a place to the call that has waited longest; no other call can take it meanwhile."""
        with self._lock:
            while self._waiting:
                if self._waiting.pop(0).begin():
                    return
            self._running -= 1


class _Turn:
    """A call that waits for a place, in the event loop that runs here."""

    __slots__ = ("_deliver", "_thread", "event", "has_place")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.has_place = False
        self._thread = get_ident()
        self._deliver = _caller_of_loop()

    def begin(self) -> bool:
        """Wake the call up; return ``False`` if its event loop has ended, and the call with it."""
        try:
            if get_ident() == self._thread:
                self.event.set()
            else:
                self._deliver(self.event.set)
        except RuntimeError:  # asyncio's for a loop that is closed, and trio's
            return False
        self.has_place = True
        return True


def _caller_of_loop() -> Callable[[Callable[[], object]], object]:
    """Return a function that calls another one soon, in the thread of the event loop that runs here."""
    if is_asyncio():
        import asyncio

        return asyncio.get_running_loop().call_soon_threadsafe
    import trio

    return trio.lowlevel.current_trio_token().run_sync_soon


def _bounded(
    name: str, function: Callable[..., Awaitable[Any]], limit: ConcurrencyLimit
) -> Callable[..., Awaitable[Any]]:
    """Return ``function`` with a limit of runs at the same time; the returned function raises `TooManyCalls`."""

    async def call(**kwargs: Any) -> Any:
        await limit.acquire(name)
        try:
            return await function(**kwargs)
        finally:
            limit.release()

    return call
