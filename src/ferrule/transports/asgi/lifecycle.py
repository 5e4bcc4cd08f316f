"""The server's lifespan around the requests of one endpoint: entered on first use, left on shutdown, enterable again.

A host that sends ASGI lifespan events starts and stops it by them. One that does not (a mounted application whose
host keeps its lifespan to itself, a warm serverless function) starts it with its first request; it then ends with the
event loop, or by `stop`. After a stop, or on another event loop than before, the next request starts
it anew.

The lifespan's context manager is entered and left in one task, a task of its own. User code may open task groups in
it, which refuse to be closed anywhere else, and a request task is gone after its response.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio

from ferrule.transports.asgi.replies import Receive, Send
from ferrule.transports.asgi.runtime import Runtime, current_runtime

__all__ = ["LifespanRunner", "LifespanSource"]

log = logging.getLogger("ferrule.http")


class LifespanSource(Protocol):
    """What has a lifespan: the kernel's ``Server``."""

    def lifespan(self) -> AbstractAsyncContextManager[Any]: ...


class _Run:
    """One entering of the lifespan."""

    __slots__ = ("error", "ready", "runtime", "state", "stop", "stopped")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.ready = anyio.Event()
        self.stop = anyio.Event()
        self.stopped = anyio.Event()
        self.error: Exception | None = None
        self.state: Any = None


class LifespanRunner:
    """The lifespan of one endpoint's server.

    Args:
        source: the server.
        on_running: called when it has been entered, before anything is served.
        on_ended: called when it has been left, or could not be entered.

    Attributes:
        running_on: the runtime whose requests can be served right now; ``None`` before the start and after the stop.
        state: what the lifespan yielded, while it runs.
    """

    def __init__(
        self,
        source: LifespanSource,
        on_running: Callable[[Runtime], object] | None = None,
        on_ended: Callable[[], object] | None = None,
    ) -> None:
        self._source = source
        self._on_running = on_running
        self._on_ended = on_ended
        self._run: _Run | None = None
        self.running_on: Runtime | None = None
        self.state: Any = None

    async def start(self) -> None:
        """Enter the lifespan unless it is entered; concurrent callers share one entering.

        Raises:
            Exception: whatever the lifespan raised; the next call tries again.
        """
        runtime = current_runtime()
        run = self._run
        if run is None or run.runtime is not runtime:
            run = self._run = _Run(runtime)
            held = run
            runtime.spawn(lambda: self._hold(held))
        await run.ready.wait()
        if run.error is not None:
            raise run.error

    async def stop(self) -> None:
        """Leave the lifespan and wait for its end; does nothing when it is not entered on this loop."""
        run = self._run
        self._run = None
        self.running_on = None
        if run is not None and run.runtime is current_runtime():
            run.stop.set()
            await run.stopped.wait()

    async def serve_lifespan(
        self, receive: Receive, send: Send, before_stop: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Follow the ASGI lifespan protocol (its startup and shutdown events).

        Args:
            receive, send: of the application.
            before_stop: ends what uses things that the lifespan is going to close.
        """
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except Exception as exc:
                    log.error("the server's lifespan failed to start", exc_info=exc)
                    await send({"type": "lifespan.startup.failed", "message": f"{type(exc).__name__}: {exc}"})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if before_stop is not None:
                    await before_stop()
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _hold(self, run: _Run) -> None:
        try:
            async with self._source.lifespan() as state:
                run.state = self.state = state
                self.running_on = run.runtime
                if self._on_running is not None:
                    self._on_running(run.runtime)
                run.ready.set()
                await run.stop.wait()
        except Exception as exc:
            if run.ready.is_set():
                log.error("the server's lifespan failed to end", exc_info=exc)
            run.error = exc
        except BaseException as exc:  # a cancellation that arose in it; served would be a state that is not there
            if not run.ready.is_set():
                run.error = RuntimeError(f"the lifespan was left with {type(exc).__name__} while it started")
                run.error.__cause__ = exc
            raise
        finally:
            if self._on_ended is not None:
                self._on_ended()
            if self._run is run:
                self._run = None
                self.running_on = None
            run.ready.set()
            run.stopped.set()
