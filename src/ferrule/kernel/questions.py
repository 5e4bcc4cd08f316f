"""One request to the peer that waits for its answer: its time-outs and its progress.

Progress callbacks run in order and never in the reading loop when they wait for something: a callback may itself ask
the peer. The answer is handed out only after the callbacks that came before it have ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeAlias, cast

import anyio

from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.kernel.dispatch import CallOptions, OnProgress
from ferrule.protocol.errors import RequestTimeout

__all__ = ["MAX_PROGRESS_BACKLOG", "OutboundRequest", "progress_off_the_clock"]

logger = logging.getLogger(__name__)

MAX_PROGRESS_BACKLOG: Final = 256
"""Progress values that may wait for a slow callback; beyond it the oldest are dropped, as each replaces the last."""

_Progress: TypeAlias = tuple[Any, Any, Any]


class OutboundRequest:
    """See the module.

    Attributes:
        result: the answer's ``result`` once it has come.
        error: what to raise instead.
    """

    __slots__ = (
        "_backlog",
        "_cap_at",
        "_deadline",
        "_event",
        "_idle",
        "_limit",
        "_on_progress",
        "_wait_s",
        "error",
        "result",
    )

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._backlog: deque[_Progress] | None = None
        self._idle: anyio.Event | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self._event = anyio.Event()
        self._limit: _Limit | None = None  # what follows is there as long as this is
        self._cap_at = self._deadline = float("inf")
        self._wait_s: float | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the answer has come, or never will."""
        return self._event.is_set()

    def settle(self, result: Any = None, error: Exception | None = None) -> None:
        """Hand over the answer."""
        self.result, self.error = result, error
        self._event.set()
        if self._limit is not None:
            self._move(self._cap_at)

    # -- waiting --------------------------------------------------------------------------------------------------

    async def wait(self, method: str, options: CallOptions, sending: Awaitable[object] | None = None) -> None:
        """Return once the answer is here and the progress callbacks before it have ended.

        ``timeout_s`` counts what the peer does: the time until the request is sent and answered, not the time that a
        callback takes after that. The cap counts everything.

        Args:
            method, options: of the request.
            sending: sends it; awaited first, within the time-outs.

        Raises:
            RequestTimeout: it did not come in time.
        """
        timeout_s, cap_s = options.get("timeout_s"), options.get("max_total_s")
        if timeout_s is None and cap_s is None:
            await self._wait(sending)
            return
        started = anyio.current_time()
        wait_s = float("inf") if timeout_s is None else timeout_s
        self._cap_at = cap_at = float("inf") if cap_s is None else started + cap_s
        self._wait_s = wait_s if options.get("reset_on_progress", False) else None
        self._deadline = min(started + wait_s, cap_at)
        self._limit = limit = _new_limit(self._deadline)
        try:
            async with limit:
                await self._wait(sending)
        except TimeoutError:
            if not limit.expired():
                raise
            if self.is_settled and self._idle is None:
                return  # in the same turn of the loop
            is_cap = cap_s is not None and self._deadline == cap_at
            raise RequestTimeout(method, cast("float", cap_s) if is_cap else wait_s, is_cap=is_cap) from None
        finally:
            self._limit = None

    async def _wait(self, sending: Awaitable[object] | None) -> None:
        if sending is not None:
            await sending
        if not self.is_settled:
            await self._event.wait()
        while self._idle is not None:
            await self._idle.wait()

    def _move(self, deadline: float) -> None:
        if self._limit is not None and not self._limit.expired() and deadline != self._deadline:
            self._deadline = deadline
            self._limit.reschedule(deadline if deadline < float("inf") else None)

    # -- progress -------------------------------------------------------------------------------------------------

    def take_progress(self, params: Mapping[str, Any]) -> Coroutine[Any, Any, None] | None:
        """Note progress; what has to run in a task of its own, if the callback waits for something."""
        if self._limit is not None and self._wait_s is not None and not self.is_settled:
            self._move(min(anyio.current_time() + self._wait_s, self._cap_at))
        if self._on_progress is None:
            return None
        progress = (params.get("progress", 0.0), params.get("total"), params.get("message"))
        if self._idle is not None:
            if self._backlog is None:
                self._backlog = deque(maxlen=MAX_PROGRESS_BACKLOG)
            self._backlog.append(progress)
            return None
        waiting = self._call(progress)
        if waiting is None:
            return None
        self._idle = anyio.Event()
        return self._run(waiting, self._idle)

    def forget_progress(self) -> None:
        """Nobody waits any more: what has not been told will not be."""
        self._on_progress = None
        if self._backlog is not None:
            self._backlog.clear()

    def _call(self, progress: _Progress) -> Awaitable[None] | None:
        if self._on_progress is None:
            return None
        try:
            return self._on_progress(*progress)
        except Exception:
            logger.exception("A progress callback failed")
            return None

    async def _run(self, waiting: Awaitable[None] | None, idle: anyio.Event) -> None:
        try:
            while True:
                if waiting is not None:
                    try:
                        await waiting
                    except Exception:
                        logger.exception("A progress callback failed")
                if not self._backlog:
                    return
                waiting = self._call(self._backlog.popleft())
        finally:
            self._idle = None
            idle.set()


def progress_off_the_clock(
    scope: anyio.CancelScope, timeout_s: float, cap_at: float, resets: bool, told: OnProgress | None
) -> OnProgress:
    """A progress callback for a call whose answer waits for it: its own time does not count against ``timeout_s``.

    Args:
        scope: bounds the call.
        timeout_s, cap_at: its time-out in seconds, and the moment at which it ends in any case.
        resets: progress restarts the time-out.
        told: the callback of the caller.
    """

    def on_progress(progress: float, total: float | None, message: str | None) -> Awaitable[None] | None:
        if resets:
            scope.deadline = min(cap_at, anyio.current_time() + timeout_s)
        waiting = None if told is None else told(progress, total, message)
        return None if waiting is None else held(waiting)

    async def held(waiting: Awaitable[None]) -> None:
        left_s = scope.deadline - anyio.current_time()
        scope.deadline = cap_at
        try:
            await waiting
        finally:
            scope.deadline = min(cap_at, anyio.current_time() + (timeout_s if resets else left_s))

    return on_progress


class _Limit(Protocol):
    """A time-out: raises `TimeoutError` where it ends what is inside."""

    def reschedule(self, when: float | None, /) -> None: ...
    def expired(self) -> bool: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(self, *exc: Any) -> bool | None: ...


def _new_limit(deadline: float) -> _Limit:
    """asyncio's own costs a quarter of a scope (4 against 17 µs, where a whole call takes 50)."""
    if not is_asyncio():
        return _Scope(deadline)
    import asyncio

    return cast("_Limit", asyncio.timeout_at(deadline if deadline < float("inf") else None))


class _Scope:
    """A cancel scope with the manners of `asyncio.timeout_at`."""

    __slots__ = ("_scope",)

    def __init__(self, deadline: float) -> None:
        self._scope = anyio.CancelScope(deadline=deadline)

    def reschedule(self, when: float | None, /) -> None:
        self._scope.deadline = float("inf") if when is None else when

    def expired(self) -> bool:
        return self._scope.cancelled_caught

    async def __aenter__(self) -> object:
        self._scope.__enter__()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        swallows = self._scope.__exit__(*exc)
        if self._scope.cancelled_caught:
            raise TimeoutError
        return swallows
