"""The thread of a WSGI request that serves the request itself, and calls the event loop only if something waits.

Two changes of threads cost more than many requests do between them. So the thread steps the coroutine of the request;
`ferrule.kernel.concurrency.yielding` has the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, TypeVar, cast

from ferrule.kernel.concurrency.yielding import MOVE, ThreadCall, going_on, request_thread
from ferrule.transports.loop_thread import HostThread, LoopThread, ThreadJob, host_thread

__all__ = ["SteppingThread"]

T = TypeVar("T")


class SteppingThread(HostThread):
    """The current thread, which serves one request.

    Args:
        loops: has the event loop, which runs already.
        loop: this event loop.
    """

    def __init__(self, loops: LoopThread, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self._loops = loops
        self._ident = get_ident()
        self._is_in_step = False
        self._work: Coroutine[Any, Any, Any] | None = None
        self._context: Context | None = None
        self._outcomes: list[tuple[Any, BaseException | None]] = []
        self._cancel: Callable[[], object] | None = None

    @property
    def is_stepping(self) -> bool:
        """See `RequestThread`."""
        return self._is_in_step and get_ident() == self._ident

    def serve(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine, which begins in this thread.

        Raises:
            BaseException: any exception of the coroutine.
        """
        self._work, self._context = work, copy_context()
        self._context.run(self._enter)
        send, received = work.send, None
        try:
            while True:
                self._is_in_step = True
                try:
                    pending: Any = self._context.run(send, received)
                finally:
                    self._is_in_step = False
                if type(pending) is ThreadCall:
                    received = pending.run()
                    if self._cancel is not None:
                        self._deliver(pending, received)
                        break
                elif pending is MOVE:
                    self._go_on(is_busy=False)
                    break
                else:
                    work.close()
                    raise RuntimeError(f"A request without an event loop waits for {type(pending).__qualname__}")
        except StopIteration as stop:
            return cast("T", stop.value)
        except BaseException:
            if self._cancel is not None:  # of a signal's handler, in a job
                self._cancel()
                self._leave()
            raise
        finally:
            self._work = self._context = None
        moved: T = self._moved_result()
        return moved

    def _enter(self) -> None:
        host_thread.set(self)
        request_thread.set(self)

    def offer(self, job: ThreadJob, *, may_wait: bool = False) -> bool:
        """See `HostThread.offer`; a job of the coroutine that the thread steps is yielded to it."""
        return self.is_stepping or super().offer(job, may_wait=may_wait)

    def move(self) -> None:
        """See `RequestThread`."""
        if self._cancel is None and get_ident() == self._ident:
            self._go_on(is_busy=True)  # with the job that calls this; `_deliver` ends that

    def _go_on(self, *, is_busy: bool) -> None:
        work, context = self._work, self._context
        if work is None or context is None:
            raise RuntimeError("The request of this thread has ended")
        self._is_busy, self._is_open = is_busy, True

        async def go_on() -> None:
            try:
                self._outcomes.append((await going_on(work), None))
            except asyncio.CancelledError:
                self._outcomes.append((None, CancelledError()))
            except BaseException as error:
                self._outcomes.append((None, error))
            finally:
                self._end()

        self._cancel = self._loops.spawn(go_on(), context)

    def _deliver(self, call: ThreadCall, outcome: tuple[Any, BaseException | None]) -> None:
        with self._lock:
            self._is_busy = not self._jobs.empty()
        call.deliver(*outcome)

    def _moved_result(self) -> Any:
        """Run what the event loop offers until it has the result of the coroutine; return that."""
        self._attend_moved(cast("Callable[[], object]", self._cancel))
        result, error = self._outcomes.pop()
        try:
            if error is not None:
                raise error
        finally:
            del error  # no cycle with the frames of its traceback
        return result

    def _attend_moved(self, cancel: Callable[[], object]) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                self._do(job)
        except BaseException:
            cancel()
            raise
        finally:
            self._leave()
