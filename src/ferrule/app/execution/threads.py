"""Sync functions in worker threads, so that one of them never stops the event loop.

On asyncio the pool is our own and small: daemon threads that take jobs from one queue and hand results back with one
``call_soon_threadsafe`` each (measured: 2-3x less than ``anyio.to_thread``). On trio the work goes through anyio. The
number of threads is bounded and stated; what is over the bound waits in the queue, and the loop stays free. Context
variables of the request are visible in the thread. A cancelled call is given up, not stopped: Python cannot end a
thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context as ContextVars
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

from ferrule.kernel.concurrency.cancellation import BodyExit

__all__ = ["DEFAULT_MAX_THREADS", "WorkerThreads", "calling_loop"]

DEFAULT_MAX_THREADS = 40
"""Sync functions that run at the same time in one server; further calls wait their turn."""

_IDLE_S = 30.0
"""Seconds after which a thread without work ends."""

_local = threading.local()


def calling_loop() -> Any:
    """The asyncio loop, or trio's token, for which the current thread works; ``None`` outside a worker thread."""
    return getattr(_local, "loop", None)  # a thread-local has the attribute only in threads that set it


class WorkerThreads:
    """A bounded pool of threads, made as needed.

    Args:
        max_threads: upper bound of threads.
    """

    __slots__ = ("_asyncio", "_idle", "_jobs", "_limiter", "_lock", "_threads", "max_threads")

    def __init__(self, max_threads: int = DEFAULT_MAX_THREADS) -> None:
        if max_threads < 1:
            raise ValueError("max_threads is at least 1")
        self.max_threads = max_threads
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._asyncio: Any = None
        self._limiter: Any = None

    @property
    def count(self) -> int:
        """Threads that exist now."""
        return self._threads

    async def run(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        """``function(**kwargs)`` in a thread; raises what it raises."""
        if self._asyncio is None:
            import asyncio

            self._asyncio = asyncio
        try:
            loop = self._asyncio.get_running_loop()
        except RuntimeError:
            return await self._run_elsewhere(function, kwargs)
        job = _Job(function, kwargs, copy_context(), loop, loop.create_future())
        with self._lock:
            self._jobs.put(job)
            if self._idle:
                self._idle -= 1
            elif self._threads < self.max_threads:
                self._threads += 1
                threading.Thread(target=self._work, name="ferrule worker", daemon=True).start()
        return await job.future

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    # A job that was put since then counted on this thread.
                    if self._jobs.empty():
                        self._threads -= 1
                        self._idle = max(0, self._idle - 1)
                        return
                continue
            outcome = job.run()
            # Before the caller hears of it: its next call must find this thread idle, not make another.
            with self._lock:
                if self._jobs.empty():
                    self._idle += 1
            job.deliver(*outcome)
            del job, outcome

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
            except (StopIteration, GeneratorExit) as stop:  # neither goes through an `await`
                raise BodyExit(stop) from stop
            finally:
                _local.loop = None

        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)


class _Job:
    __slots__ = ("context", "function", "future", "kwargs", "loop")

    def __init__(self, function: Any, kwargs: dict[str, Any], context: ContextVars, loop: Any, future: Any) -> None:
        self.function = function
        self.kwargs = kwargs
        self.context = context
        self.loop = loop
        self.future = future

    def run(self) -> tuple[Any, BaseException | None]:
        """In the worker: call; the result and the exception."""
        if self.future.cancelled():
            return None, None
        _local.loop = self.loop
        error: BaseException | None = None
        result: Any = None
        try:
            result = self.context.run(self.function, **self.kwargs)
        except (StopIteration, GeneratorExit) as stop:  # neither goes through an `await`
            error = BodyExit(stop)
            error.__cause__ = stop
        except BaseException as raised:
            error = raised
        finally:
            _local.loop = None
        return result, error

    def deliver(self, result: Any, error: BaseException | None) -> None:
        """Hand the outcome to the loop."""
        try:
            self.loop.call_soon_threadsafe(_settle, self.future, result, error)
        except RuntimeError:
            return  # the loop has ended; nobody waits any more


def _settle(future: Any, result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
