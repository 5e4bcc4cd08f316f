"""Runs the server's lifespan for the requests of one endpoint: started on first use, stopped on shutdown, restartable.

A host that sends ASGI lifespan events starts and stops it with them. Under a host that does not (a mounted application,
a serverless function) the first request starts it, and it ends with the event loop or by `stop`. After a stop, or on
another event loop, the next request starts it again.

The lifespan's context manager is entered and left in one task of its own: user code may open task groups in it, which
must be closed by the task that opened them, and a request's task ends with its response.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Protocol

import anyio

from ferrule.transports.asgi.replies import Receive, Send
from ferrule.transports.asgi.runtime import Runtime, current_runtime

__all__ = ["LifespanRunner", "LifespanSource"]

log = logging.getLogger("ferrule.http")


class LifespanSource(Protocol):
    """An object with a lifespan, such as the kernel's ``Server``."""

    def lifespan(self) -> AbstractAsyncContextManager[Any]: ...


class _Run:
    """One run of the lifespan."""

    __slots__ = ("error", "ready", "runtime", "state", "stop", "stopped")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.ready = anyio.Event()
        self.stop = anyio.Event()
        self.stopped = anyio.Event()
        self.error: Exception | None = None
        self.state: Any = None


_inside: ContextVar[tuple[_Run, ...]] = ContextVar("lifespans", default=())
"""The runs of lifespans that the current task is part of, itself or by the task that started it."""


class LifespanRunner:
    """The lifespan of one endpoint's server.

    Args:
        source: the server.
        on_running: called when it has started, before a request is served.
        on_ended: called when it has ended, or failed to start.

    Attributes:
        running_on: the runtime on which it runs; ``None`` before the start and after the stop.
        state: the value that the lifespan yielded, while it runs.
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
        """Start the lifespan unless it runs; concurrent callers wait for the same start.

        Called from within that start it returns at once: an application in which the endpoint is mounted starts it, and
        a server that exposes this application starts the application.

        Raises:
            Exception: the error that the lifespan raised; the next call tries again.
        """
        runtime = current_runtime()
        run = self._run
        # On another event loop everything that the lifespan has opened is unusable.
        if run is None or run.runtime is not runtime:
            run = self._run = _Run(runtime)
            held = run
            runtime.spawn(lambda: self._hold(held))
        elif not run.ready.is_set() and run in _inside.get():
            return
        await run.ready.wait()
        if run.error is not None:
            raise run.error

    async def stop(self) -> None:
        """Stop the lifespan and wait for its end; does nothing if it does not run on this loop.

        Called from within the lifespan, whose end waits for the caller, it does not wait.
        """
        run = self._run
        self._run = None
        self.running_on = None
        # An event of another loop cannot be set from here.
        if run is not None and run.runtime is current_runtime():
            run.stop.set()
            if run not in _inside.get():
                await run.stopped.wait()

    async def serve_lifespan(
        self, receive: Receive, send: Send, before_stop: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Serve the startup and shutdown events of the ASGI lifespan protocol.

        Args:
            receive, send: the ASGI callables.
            before_stop: awaited before the lifespan ends, so that streams no longer use what it closes.
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
                    # Handlers that still run need what the lifespan holds.
                    await before_stop()
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _hold(self, run: _Run) -> None:
        _inside.set((*_inside.get(), run))
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
        except BaseException as exc:  # cancelled inside the lifespan: there is no state, so requests must fail
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
            # Also after a failure, so that no caller of `start` or `stop` waits for ever.
            run.stopped.set()
