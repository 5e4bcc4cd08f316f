"""Worker threads for sync functions, so that they do not block the event loop.

On asyncio a small pool of daemon threads takes jobs from one queue, and wakes the event loop once for all results that
arrive together (several times cheaper than ``anyio.to_thread``). On trio anyio's threads are used. The number
of threads is bounded; further jobs wait in the queue. Context variables of the request are visible in the thread. A
cancelled call is abandoned, not stopped: Python cannot end a thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context as ContextVars
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

from ferrule.kernel.concurrency.cancellation import BodyExit

__all__ = ["DEFAULT_MAX_THREADS", "WorkerThreads", "calling_loop"]

DEFAULT_MAX_THREADS = 40
"""Maximum number of sync functions that run at the same time in one server; further calls wait."""

_IDLE_S = 30.0
"""Seconds after which a thread without work ends."""

_local = threading.local()


def calling_loop() -> Any:
    """Return the asyncio loop, or trio's token, of the current worker thread; ``None`` in another thread."""
    return getattr(_local, "loop", None)  # a thread-local has the attribute only in threads that set it


class WorkerThreads:
    """A bounded pool of threads, which are started when they are needed.

    Args:
        max_threads: maximum number of threads.

    Raises:
        ValueError: ``max_threads`` is less than 1.
    """

    __slots__ = (
        "_asyncio",
        "_idle",
        "_is_waking",
        "_jobs",
        "_limiter",
        "_lock",
        "_outcomes",
        "_threads",
        "_wakes",
        "max_threads",
    )

    def __init__(self, max_threads: int = DEFAULT_MAX_THREADS) -> None:
        if max_threads < 1:
            raise ValueError("max_threads is at least 1")
        self.max_threads = max_threads
        self._jobs: deque[_Job] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_waking = False  # a thread has been woken or started that has not looked for jobs yet
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._asyncio: Any = None
        self._outcomes: _Outcomes | None = None
        self._limiter: Any = None

    @property
    def count(self) -> int:
        """Number of threads that exist now."""
        return self._threads

    async def run(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        """Return the result of ``function(**kwargs)``, called in a thread.

        Raises:
            BaseException: any exception of the function.
        """
        if self._asyncio is None:
            import asyncio

            self._asyncio = asyncio
        try:
            loop = self._asyncio.get_running_loop()
        except RuntimeError:
            return await self._run_elsewhere(function, kwargs)
        outcomes = self._outcomes
        if outcomes is None or outcomes.loop is not loop:
            outcomes = self._outcomes = _Outcomes(loop)
        job = _Job(function, kwargs, copy_context(), outcomes, loop.create_future())
        self._jobs.append(job)
        if not self._is_waking:
            self._wake_one()
        return await job.future

    def _wake_one(self) -> None:
        """Wake one thread, or start one, for the jobs that are there.

        Each thread that takes a job wakes the next one if there are more. Many short jobs are done by few threads so,
        and none waits behind one that blocks.
        """
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._is_waking = True
                self._wakes.put(None)
            elif self._threads < self.max_threads:
                self._threads += 1
                self._is_waking = True
                threading.Thread(target=self._work, name="ferrule worker", daemon=True).start()
            # Otherwise every thread works, and looks for more jobs when it is done.

    def _work(self) -> None:
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


class _Job:
    __slots__ = ("context", "function", "future", "kwargs", "outcomes")

    def __init__(
        self, function: Any, kwargs: dict[str, Any], context: ContextVars, outcomes: _Outcomes, future: Any
    ) -> None:
        self.function = function
        self.kwargs = kwargs
        self.context = context
        self.outcomes = outcomes
        self.future = future

    def run(self) -> tuple[Any, BaseException | None]:
        """Call the function in the worker thread, and return its result and its exception."""
        if self.future.cancelled():
            return None, None
        _local.loop = self.outcomes.loop
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
            _local.loop = None
        return result, error

    def deliver(self, result: Any, error: BaseException | None) -> None:
        """Pass the outcome to the event loop."""
        self.outcomes.add(self.future, result, error)


class _Outcomes:
    """Outcomes on their way from the threads to one event loop, which is woken once for all that have arrived.

    Args:
        loop: the event loop.
    """

    __slots__ = ("_arrived", "_is_waking", "loop")

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._arrived: deque[tuple[Any, Any, BaseException | None]] = deque()
        self._is_waking = False

    def add(self, future: Any, result: Any, error: BaseException | None) -> None:
        """In a thread: pass one outcome."""
        self._arrived.append((future, result, error))
        if not self._is_waking:  # looked at after the outcome has arrived: a wake-up in progress delivers it
            self._is_waking = True
            try:
                self.loop.call_soon_threadsafe(self._settle_all)
            except RuntimeError:
                return  # the event loop has ended, and with it the callers

    def _settle_all(self) -> None:
        self._is_waking = False  # before looking: what arrives from now on wakes the loop again
        arrived = self._arrived
        while arrived:
            _settle(*arrived.popleft())


def _settle(future: Any, result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
