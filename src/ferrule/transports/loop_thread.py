"""An event loop in a daemon thread, for synchronous code: `SyncClient`, and servers inside a WSGI application.

The loop starts with the first use. After ``os.fork()`` the child gets a loop and a thread of its own. A thread that
waits for the loop can run the synchronous functions of what it waits for: a `HostThread`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextvars import Context, ContextVar
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from ferrule.protocol.errors import LocalError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Closable", "HostThread", "LoopThread", "ThreadJob", "host_thread", "keep_for_parent"]

T = TypeVar("T")

STOP_TIMEOUT_S = 10.0
"""Seconds that what is open may take to close when the process exits."""


class Closable(Protocol):
    """What is closed on the loop before it stops."""

    async def aclose(self) -> None:
        """Close it."""
        ...


class LoopThread:
    """An event loop in its own thread.

    Args:
        name: the name of the thread.

    Attributes:
        open: what is closed when the process exits.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._reset()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._after_fork)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self.open: set[Closable] = set()

    def _after_fork(self) -> None:
        """Begin anew in the child: other threads do not exist there, and what is open belongs to the parent."""
        # Closing the parent's loop here, or letting it be collected, would make the kernel forget what the parent
        # waits for: a descriptor of epoll is shared by both processes.
        keep_for_parent((self._loop, self.open))
        self._reset()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; wait for it in this thread.

        Raises:
            LocalError: called from the loop's own thread, which would wait for itself.
            Whatever the coroutine raises.
        """
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return its future.

        Raises:
            LocalError: called from the loop's own thread.
        """
        self._check_thread(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def runs(self, loop: Any) -> bool:
        """Return whether this is the event loop."""
        return self._loop is loop

    def spawn(self, coroutine: Coroutine[Any, Any, None], context: Context | None = None) -> Callable[[], None]:
        """Start a coroutine that raises nothing, and return a function that cancels it.

        The function keeps the task alive. Nothing on the loop waits for the task, which costs less than a future.

        Args:
            coroutine: what is started.
            context: the context variables of its task; ``None`` for a copy of those of the caller.

        Raises:
            LocalError: called from the loop's own thread.
        """
        self._check_thread(coroutine)
        loop = self._running()
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            if sys.version_info < (3, 12):
                tasks.append(loop.create_task(coroutine, context=context))
            else:  # its first step is run now, which saves an iteration of the loop
                tasks.append(asyncio.Task(coroutine, loop=loop, context=context, eager_start=True))

        loop.call_soon_threadsafe(begin)

        def end() -> None:
            for task in tasks:
                self._ending.add(task)  # an event loop has weak references only
                task.add_done_callback(self._ending.discard)
                task.cancel()

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end)

        return cancel

    def _check_thread(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise LocalError(
                "A handler must not call synchronously into the event loop that runs it; make it async and await"
            )

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self._stop, os.getpid())
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def _stop(self, pid: int) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and pid == os.getpid():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._close_all(), loop).result(STOP_TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)
            if not thread.is_alive():
                loop.close()

    async def _close_all(self) -> None:
        """Close all at once, so that none has to wait for one that is slow or fails."""
        await asyncio.gather(*(each.aclose() for each in self.open), return_exceptions=True)


_of_parents: list[Any] = []


def keep_for_parent(value: Any) -> None:
    """Keep an object of the parent process alive in a forked child, so that its finalizer does not run there."""
    _of_parents.append(value)


class ThreadJob(Protocol):
    """What a `HostThread` runs."""

    def run(self) -> tuple[Any, BaseException | None]:
        """Do it, and return its result and its exception; raise nothing."""
        ...

    def deliver(self, result: Any, error: BaseException | None) -> None:
        """Pass the outcome to the event loop."""
        ...


class HostThread:
    """The current thread, which runs functions for the event loop that it waits for.

    What belongs to a thread, such as a database connection and its transaction, is then that of the waiting thread.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = False
        self._is_busy = False

    def wait_for(self, loop: LoopThread, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine on ``loop``; until then run what `offer` is given.

        Raises:
            LocalError: called from the loop's own thread.
            BaseException: any exception of the coroutine.
        """
        outcomes: list[tuple[T | None, BaseException | None]] = []

        async def serve() -> None:
            try:
                outcomes.append((await coroutine, None))
            except asyncio.CancelledError:
                outcomes.append((None, CancelledError()))
            except BaseException as error:
                outcomes.append((None, error))
            finally:
                self._end()

        def begin() -> Callable[[], None]:
            try:
                return loop.spawn(serve())
            except BaseException:
                coroutine.close()
                raise

        self._attend(begin)
        result, error = outcomes.pop()
        try:
            if error is not None:
                raise error
        finally:
            del error  # no cycle with the frames of its traceback
        return cast("T", result)

    def run(self, start: Callable[[], Future[T]]) -> T:
        """Start a coroutine in another thread, and return its result; until then run what `offer` is given.

        Args:
            start: starts it with the context variables of this thread, and returns its future.

        Raises:
            BaseException: any exception of ``start`` and of the coroutine.
        """
        started: list[Future[T]] = []

        def begin() -> Callable[[], object]:
            future = start()
            started.append(future)
            future.add_done_callback(self._end)
            return future.cancel

        self._attend(begin)
        return started[0].result()

    def _attend(self, start: Callable[[], Callable[[], object]]) -> None:
        """Start something, which calls `_end` when it is done, and run until then what `offer` is given.

        Args:
            start: starts it, and returns a function that cancels it.
        """
        self._is_open = True
        token = host_thread.set(self)
        try:
            cancel = start()
        except BaseException:
            self._leave()
            raise
        finally:
            host_thread.reset(token)
        try:
            while (job := self._jobs.get()) is not None:
                self._do(job)
        except BaseException:  # also of a signal's handler: the process is about to end
            cancel()
            raise
        finally:
            self._leave()

    def offer(self, job: ThreadJob, *, may_wait: bool = False) -> bool:
        """Run a job in the thread; return ``False`` if it cannot be run there.

        Args:
            job: what is run.
            may_wait: run it after the job that runs there now; otherwise a busy thread takes no other.
        """
        with self._lock:
            if not self._is_open or (self._is_busy and not may_wait):
                return False
            self._is_busy = True
            self._jobs.put(job)
        return True

    def _do(self, job: ThreadJob) -> None:
        outcome = job.run()
        with self._lock:  # before the outcome arrives: who gets it may offer the next job at once
            self._is_busy = not self._jobs.empty()
        job.deliver(*outcome)

    def _end(self, _: object = None) -> None:
        with self._lock:
            self._is_open = False
            self._jobs.put(None)

    def _leave(self) -> None:
        """Take no more jobs; those that are left fail."""
        with self._lock:
            self._is_open = False
        with contextlib.suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.deliver(None, LocalError("The thread of the request has ended before it ran this"))


host_thread: ContextVar[HostThread | None] = ContextVar("ferrule_host_thread", default=None)
"""The thread that waits for the current request; ``None`` if none does."""
