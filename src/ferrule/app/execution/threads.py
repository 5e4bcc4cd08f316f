"""Worker threads for sync functions, so that they do not block the event loop.

On asyncio a small pool of daemon threads takes jobs from one queue, and wakes the event loop once for all results that
arrive together (several times cheaper than ``anyio.to_thread``). On trio anyio's threads are used. The number
of threads is bounded; further jobs wait in the queue. Context variables of the request are visible in the thread. A
cancelled call is abandoned, not stopped: Python cannot end a thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context as ContextVars
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from ferrule.kernel.concurrency.cancellation import BodyExit
from ferrule.kernel.concurrency.yielding import (
    RequestThread,
    ThreadCall,
    call_in_thread,
    is_late,
    request_thread,
    stepping_thread,
)

if TYPE_CHECKING:
    import asyncio

    from ferrule.transports.loop_thread import HostThread

__all__ = ["DEFAULT_MAX_THREADS", "WorkerJob", "WorkerThreads", "calling_loop", "run_on_loop"]

T = TypeVar("T")

DEFAULT_MAX_THREADS = 40
"""Maximum number of sync functions that run at the same time in one server; further calls wait."""

_IDLE_S = 30.0
"""Seconds after which a thread without work ends."""

_local = threading.local()


def calling_loop() -> Any:
    """Return the asyncio loop, or trio's token, of the current worker thread; ``None`` in another thread."""
    return getattr(_local, "loop", None)  # a thread-local has the attribute only in threads that set it


def run_on_loop(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """In a worker thread: return the result of a coroutine on the event loop.

    Raises:
        BaseException: any exception of the coroutine.
    """
    from asyncio import run_coroutine_threadsafe

    thread = request_thread.get()
    if thread is not None:
        thread.move()
    lend = getattr(_local, "lend", None)  # as in `calling_loop`
    if lend is None:
        return run_coroutine_threadsafe(coroutine, loop).result()
    result: T = lend().run(lambda: run_coroutine_threadsafe(coroutine, loop))
    return result


class WorkerThreads:
    """A bounded pool of threads, which are started when they are needed.

    Args:
        max_threads: maximum number of threads.

    Attributes:
        host: starts a job in a thread of the host application and returns ``True``; returns ``False`` if it cannot.
            ``None`` without such threads. Set by `ferrule.django.server`. On asyncio only.
        on_thread_end: called in each thread of the pool before it ends; ``None`` for nothing. On asyncio only.

    Raises:
        ValueError: ``max_threads`` is less than 1.
    """

    __slots__ = (
        "__weakref__",
        "_asyncio",
        "_idle",
        "_is_waking",
        "_jobs",
        "_limiter",
        "_lock",
        "_outcomes",
        "_threads",
        "_wakes",
        "host",
        "max_threads",
        "on_thread_end",
    )

    def __init__(self, max_threads: int = DEFAULT_MAX_THREADS) -> None:
        if max_threads < 1:
            raise ValueError("max_threads is at least 1")
        self.max_threads = max_threads
        self.host: Callable[[WorkerJob], bool] | None = None
        self.on_thread_end: Callable[[], None] | None = None
        self._asyncio: Any = None
        self._limiter: Any = None
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        """Have no thread and no job: at first, and in a forked child, where the threads of the parent do not run."""
        self._jobs: deque[WorkerJob] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_waking = False  # a thread was woken or started that has not taken a job yet
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._outcomes: _Outcomes | None = None

    @property
    def count(self) -> int:
        """Number of threads that exist now."""
        return self._threads

    async def run(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        """Return the result of ``function(**kwargs)``, called in a thread.

        Raises:
            RuntimeError: the pool has no thread, and the system allows no more.
            BaseException: any exception of the function.
        """
        if self._asyncio is None:
            import asyncio

            self._asyncio = asyncio
        try:
            loop = self._asyncio.get_running_loop()
        except RuntimeError:
            thread = stepping_thread()
            if thread is not None:
                return await self._run_in(thread, function, kwargs)
            return await self._run_elsewhere(function, kwargs)
        outcomes = self._outcomes_of(loop)
        job = WorkerJob(function, kwargs, copy_context(), outcomes, outcomes.future())
        host = self.host
        if host is None or not host(job):
            self._jobs.append(job)
            if not self._is_waking:
                try:
                    self._wake_one()
                except RuntimeError:
                    self._jobs.remove(job)
                    raise
        return await job.future

    def _wake_one(self) -> None:
        """Wake one thread, or start one, for the jobs that are there.

        Each thread that takes a job wakes the next thread if there are more jobs. So a few threads do many short jobs,
        and no job waits for a thread that blocks.

        Raises:
            RuntimeError: there is no thread, and none can be started.
        """
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._is_waking = True
                self._wakes.put(None)
            elif self._threads < self.max_threads:
                self._threads += 1
                self._is_waking = True
                try:
                    threading.Thread(target=self._work, name="ferrule worker", daemon=True).start()
                except RuntimeError:  # the system has too many threads: those that there are take the jobs
                    self._threads -= 1
                    self._is_waking = False
                    if not self._threads:
                        raise
            # Otherwise every thread works, and looks for more jobs when it is done.

    def _work(self) -> None:
        self._work_until_idle()
        if self.on_thread_end is not None:
            self.on_thread_end()

    def _work_until_idle(self) -> None:
        while True:
            self._is_waking = False  # before looking: a job that comes later wakes another thread
            while self._do_job():
                pass
            try:
                self._wakes.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if self._wakes.empty():  # otherwise a caller relies on this thread
                        self._idle -= 1
                        self._threads -= 1
                        return
                self._wakes.get()

    def _do_job(self) -> bool:
        """Do one job; return whether there may be more, otherwise this thread counts as idle."""
        jobs = self._jobs
        try:
            job = jobs.popleft()
        except IndexError:
            with self._lock:
                if jobs:
                    return True
                self._idle += 1
            return False
        if jobs and not self._is_waking:
            self._wake_one()
        outcome = job.run()
        # Before the result is delivered: the caller's next call must find this thread idle, or it starts another.
        with self._lock:
            goes_on = bool(jobs)
            if not goes_on:
                self._idle += 1
        job.deliver(*outcome)
        return goes_on

    async def _run_in(self, thread: RequestThread, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        """Call a function in the thread of the request, which steps this coroutine."""
        waiter = _Waiter()
        job = WorkerJob(function, kwargs, copy_context(), self._outcomes_of(thread.loop), waiter)
        if self.host is not None:
            self.host(job)
        outcome = await call_in_thread(ThreadCall(job.run, job.deliver))
        if outcome is None:  # the function asked for the event loop, which goes on here
            return await waiter.follow(job.outcomes)
        result, error = outcome
        if error is None:
            return result
        try:
            raise error
        finally:
            del error, outcome  # no cycle with the frames of its traceback

    def _outcomes_of(self, loop: asyncio.AbstractEventLoop) -> _Outcomes:
        outcomes = self._outcomes
        if outcomes is None or outcomes.loop is not loop:
            outcomes = self._outcomes = _Outcomes(loop)
        return outcomes

    async def _run_elsewhere(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        import anyio
        import anyio.to_thread
        from anyio.lowlevel import current_token

        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(self.max_threads)
        token = current_token()

        def call() -> Any:
            _local.loop = token
            try:
                return function(**kwargs)
            except (StopIteration, GeneratorExit) as stop:  # neither can be raised through an `await`
                raise BodyExit(stop) from stop
            finally:
                _local.loop = None

        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)


_pools: WeakSet[WorkerThreads] = WeakSet()


def _begin_in_child() -> None:
    for each in _pools:
        each._begin()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_begin_in_child)


class WorkerJob:
    """One call of a function in a thread.

    Args:
        function, kwargs: the function and its arguments.
        context: the context variables of the call.
        outcomes: passes the outcome to the event loop.
        future: the future of the caller, which gets the outcome there.

    Attributes:
        lend: makes the `HostThread` of a function that waits for the event loop (`Context.from_thread`), whose thread
            then runs other functions of the request; ``None`` if it only waits.
    """

    __slots__ = ("context", "function", "future", "kwargs", "lend", "outcomes")

    def __init__(
        self, function: Any, kwargs: dict[str, Any], context: ContextVars, outcomes: _Outcomes, future: Any
    ) -> None:
        self.function = function
        self.kwargs = kwargs
        self.context = context
        self.outcomes = outcomes
        self.future = future
        self.lend: Callable[[], HostThread] | None = None

    def run(self) -> tuple[Any, BaseException | None]:
        """Call the function in the worker thread, and return its result and its exception."""
        if self.future.cancelled():
            return None, None
        outer = getattr(_local, "loop", None), getattr(_local, "lend", None)  # of a function that waits in here
        _local.loop, _local.lend = self.outcomes.loop, self.lend
        error: BaseException | None = None
        result: Any = None
        try:
            result = self.context.run(self.function, **self.kwargs)
        except (StopIteration, GeneratorExit) as stop:  # neither can be raised through an `await`
            error = BodyExit(stop)
            error.__cause__ = stop
        except BaseException as raised:
            error = raised
        finally:
            _local.loop, _local.lend = outer
        return result, error

    def deliver(self, result: Any, error: BaseException | None) -> None:
        """Pass the outcome to the event loop."""
        self.outcomes.add(self.future, result, error)


class _Waiter:
    """In place of the future of a job that the thread of a request runs; the event loop may go on meanwhile."""

    __slots__ = ("_future", "_outcome")

    def __init__(self) -> None:
        self._future: Any = None
        self._outcome: tuple[Any, BaseException | None] | None = None

    def cancelled(self) -> bool:
        """Return whether the caller was cancelled, or its time is over."""
        return is_late() if self._future is None else self._future.cancelled()

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Take the outcome, on the event loop."""
        if self._future is None:
            self._outcome = result, error
        elif not self._future.cancelled():
            self._future.settle(result, error)

    async def follow(self, outcomes: _Outcomes) -> Any:
        """Return the result of the job, on the event loop.

        Raises:
            BaseException: any exception of the job.
        """
        self._future = outcomes.future()
        if self._outcome is not None:
            self._future.settle(*self._outcome)
            self._outcome = None
        return await self._future


class _Outcomes:
    """Outcomes on their way from the threads to one event loop, which is woken once for all that have arrived.

    Args:
        loop: the event loop.
    """

    __slots__ = ("_arrived", "_is_waking", "future", "loop")

    def __init__(self, loop: Any) -> None:
        from ferrule.kernel.concurrency.prompt_future import PromptFuture

        self.loop = loop
        self.future = partial(PromptFuture, loop=loop)
        self._arrived: deque[tuple[Any, Any, BaseException | None]] = deque()
        self._is_waking = False

    def add(self, future: Any, result: Any, error: BaseException | None) -> None:
        """Add the outcome of one call, from its thread, and wake the event loop if necessary."""
        self._arrived.append((future, result, error))
        if not self._is_waking:  # checked after the outcome was added: a wake-up that is in progress delivers it too
            self._is_waking = True
            try:
                self.loop.call_soon_threadsafe(self._settle_all)
            except RuntimeError:
                return  # the event loop has ended, and with it the callers

    def _settle_all(self) -> None:
        self._is_waking = False  # before looking: what arrives from now on wakes the loop again
        arrived = self._arrived
        try:
            while arrived:
                future, result, error = arrived.popleft()
                if not future.cancelled():
                    future.settle(result, error)
        finally:
            if arrived:  # a task has raised `SystemExit` or `KeyboardInterrupt`, which asyncio raises here
                self.loop.call_soon(self._settle_all)
