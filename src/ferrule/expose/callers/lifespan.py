"""Runs the lifespan of an ASGI application in this process, unless a host runs it (ASGI, "Lifespan Protocol").

An application that serves the endpoint itself is started by its host. One that is only called through this package is
started by the first server that needs it, and ended after the last one: several servers share one start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio

from ferrule.transports.asgi.runtime import Runtime, current_runtime

__all__ = ["STOP_TIMEOUT_S", "ApplicationLife", "StartFailed", "life_of"]

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 30.0
"""Seconds that an application has to end before it is cancelled."""


class StartFailed(RuntimeError):
    """The application failed to start; the text is the application's message."""


_starting: ContextVar[tuple[ApplicationLife, ...]] = ContextVar("starting", default=())
"""The applications whose lifespan, run by this module, the current task is part of."""


class _Start:
    """One start of an application by this module."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.users = 0
        self.ready = anyio.Event()
        self.stopping = anyio.Event()
        self.stopped = anyio.Event()
        self.error: Exception | None = None


class ApplicationLife:
    """The lifespan of one application, shared by all servers that expose it.

    Args:
        app: the application.

    Attributes:
        state: the state of the lifespan for requests (``scope["state"]``); ``None`` without.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._running = 0
        self._start: _Start | None = None
        self.state: dict[str, Any] | None = None

    def began(self) -> None:
        """Record that the application's lifespan begins; the module of its framework calls this."""
        self._running += 1

    def ended(self) -> None:
        """Record that the application's lifespan has ended."""
        self._running -= 1

    def observe(
        self, lifespan: Callable[[Any], AbstractAsyncContextManager[Any]], *, keep_state: bool = False
    ) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
        """Return a lifespan function that records when ``lifespan``, which it calls, begins and has ended.

        Args:
            lifespan: the application's own function: ``async with lifespan(app) as state``.
            keep_state: whether its state becomes `state`, for the application's requests.
        """

        @asynccontextmanager
        async def observed(app: Any) -> AsyncGenerator[Any]:
            self.began()
            try:
                async with lifespan(app) as state:
                    if keep_state:
                        self.state = dict(state) if state else None
                    yield state
            finally:
                self.ended()

        return observed

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[None]:
        """Run the application during the block: start it if it does not run, and end it if no other server needs it.

        Raises:
            StartFailed: the application reported that it cannot start.
        """
        start = await self._joined()
        if start is None:
            yield
            return
        try:
            await start.ready.wait()
            if start.error is not None:
                raise start.error
            yield
        finally:
            start.users -= 1
            if not start.users:
                start.stopping.set()
                with anyio.CancelScope(shield=True):
                    await start.stopped.wait()

    async def _joined(self) -> _Start | None:
        """Count the caller as a user of the present start, and return it; ``None`` if a host runs the application."""
        if self in _starting.get():
            return None  # the application's own lifespan needs the server; it must not wait for its own end
        runtime = current_runtime()
        while True:
            start = self._start
            if start is not None and start.runtime is not runtime and not start.runtime.is_live():
                start = self._start = None  # its loop has ended without ending the application
                self._running = 0
            if start is None:
                if self._running:
                    return None
                start = self._start = _Start(runtime)
                runtime.spawn(partial(self._keep, start))
            elif start.runtime is not runtime:
                return None  # another loop has started it and will end it
            elif start.stopping.is_set():
                await start.stopped.wait()
                continue
            start.users += 1
            return start

    async def _keep(self, start: _Start) -> None:
        """Run the lifespan in a task of its own: it may open task groups, which end in the task that opened them."""
        _starting.set((*_starting.get(), self))  # in the context of this task, and of those that it starts
        problem: list[str] = []
        state: dict[str, Any] = {}
        was_asked = False

        async def receive() -> dict[str, str]:
            nonlocal was_asked
            if not was_asked:
                was_asked = True
                return {"type": "lifespan.startup"}
            await start.stopping.wait()
            scope.deadline = anyio.current_time() + STOP_TIMEOUT_S
            return {"type": "lifespan.shutdown"}

        async def send(message: MutableMapping[str, Any]) -> None:
            kind = message["type"]
            if kind == "lifespan.startup.complete":
                self.state = state or self.state
                start.ready.set()
            elif kind == "lifespan.startup.failed":
                problem.append(str(message.get("message", "")) or "the application failed to start")

        try:
            with anyio.CancelScope() as scope:
                await self._app(
                    {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state},
                    receive,
                    send,
                )
            if scope.cancelled_caught:
                logger.error("the application did not end within %g s", STOP_TIMEOUT_S)
        except Exception as error:
            self._failed(start, error, problem)
        except BaseException:
            start.error = start.error or StartFailed("the start of the application was cancelled")
            self._over(start)
            raise
        else:
            if problem:
                start.error = StartFailed(problem[0])
        if start.error is None:
            start.ready.set()
            await start.stopping.wait()  # an application without lifespan events can be called too
        self._over(start)

    def _failed(self, start: _Start, error: Exception, problem: list[str]) -> None:
        if problem and not start.ready.is_set():
            start.error = StartFailed(problem[0])
            logger.error("the application failed to start", exc_info=error)
        elif start.ready.is_set():
            logger.error("the application's lifespan failed", exc_info=error)
        else:
            # How the protocol lets an application say that it has no lifespan.
            logger.debug("the application takes no lifespan events", exc_info=error)

    def _over(self, start: _Start) -> None:
        self.state = None
        if self._start is start:
            self._start = None
        start.ready.set()
        start.stopped.set()


_LIFE = "_ferrule_life"

_lives: dict[int, tuple[Any, ApplicationLife]] = {}
"""The lifespans of applications that accept no further attribute; kept until the process ends."""


def life_of(app: Any, observe: Callable[[Any, ApplicationLife], None]) -> ApplicationLife:
    """Return the `ApplicationLife` of an application; the same object for each call.

    Args:
        app: the application.
        observe: called once with the application and its `ApplicationLife`; makes the application call
            `ApplicationLife.began` and `ApplicationLife.ended`.
    """
    known: ApplicationLife | None = getattr(app, _LIFE, None)  # several servers may expose one application
    if known is None and id(app) in _lives:
        known = _lives[id(app)][1]
    if known is not None:
        return known
    life = ApplicationLife(app)
    try:
        setattr(app, _LIFE, life)
    except AttributeError:  # a class with slots
        _lives[id(app)] = (app, life)
    observe(app, life)
    return life
