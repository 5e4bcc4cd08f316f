"""One outbound request that waits for its response: its time-outs and its progress.

Progress callbacks run in order. A callback that waits runs in a task and not in the reading loop, since it may itself
send a request to the peer. The response is returned after the callbacks of all earlier progress have ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import anyio

from ferrule.kernel.concurrency.plain_requests import MAX_PROGRESS_BACKLOG
from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.kernel.dispatch import CallOptions, OnProgress
from ferrule.protocol.errors import RequestTimeout

if TYPE_CHECKING:
    from ferrule.kernel.concurrency.plain_requests import PlainScope

__all__ = ["MAX_PROGRESS_BACKLOG", "OutboundRequest", "pause_timeout_during_progress"]

logger = logging.getLogger(__name__)

_Progress: TypeAlias = tuple[Any, Any, Any]


class OutboundRequest:
    """A request that was sent to the peer and waits for its response, with its time-outs and its progress.

    Attributes:
        result: the ``result`` of the response, once it has arrived.
        error: the error to raise instead.
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
        self._limit: _Limit | None = None  # the attributes below are valid only while this is set
        self._cap_at = self._deadline = float("inf")
        self._wait_s: float | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the response has arrived, or none can arrive."""
        return self._event.is_set()

    def settle(self, result: Any = None, error: Exception | None = None) -> None:
        """Set the result or the error, and wake the waiting caller."""
        self.result, self.error = result, error
        self._event.set()
        # The response is there: time that its callbacks need does not count against `timeout_s`.
        if self._limit is not None:
            self._move(self._cap_at)

    # -- waiting --------------------------------------------------------------------------------------------------

    async def wait(self, method: str, options: CallOptions, sending: Awaitable[object] | None = None) -> None:
        """Wait for the response, and for the end of the progress callbacks before it.

        ``timeout_s`` limits the time until the request is sent and its response arrives; callbacks that run after that
        do not count. ``max_total_s`` limits the whole time.

        Args:
            method: the method of the request, for the error.
            options: time-outs in seconds.
            sending: sends the request; awaited first, within the time-outs.

        Raises:
            RequestTimeout: no response arrived in time.
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
            # A `TimeoutError` of the code inside, not of this limit.
            if not limit.expired():
                raise
            if self.is_settled and self._idle is None:
                return  # the response arrived in the same iteration of the event loop
            is_cap = cap_s is not None and self._deadline == cap_at
            raise RequestTimeout(method, cast("float", cap_s) if is_cap else wait_s, is_cap=is_cap) from None
        finally:
            self._limit = None

    async def _wait(self, sending: Awaitable[object] | None) -> None:
        if sending is not None:
            await sending
        if not self.is_settled:
            await self._event.wait()
        # In a loop: while this waits, a callback may start for progress that arrived before the response.
        while self._idle is not None:
            await self._idle.wait()

    def _move(self, deadline: float) -> None:
        if self._limit is not None and not self._limit.expired() and deadline != self._deadline:
            self._deadline = deadline
            self._limit.reschedule(deadline if deadline < float("inf") else None)

    # -- progress -------------------------------------------------------------------------------------------------

    def receive_progress(self, params: Mapping[str, Any]) -> Coroutine[Any, Any, None] | None:
        """Handle a progress notification.

        Returns:
            A coroutine to run in a task, if the callback waits; ``None`` otherwise.
        """
        # Progress may restart the time-out, but not the maximum ("Timeouts" in "Lifecycle" and "Cancellation").
        if self._limit is not None and self._wait_s is not None and not self.is_settled:
            self._move(min(anyio.current_time() + self._wait_s, self._cap_at))
        if self._on_progress is None:
            return None
        progress = (params.get("progress", 0.0), params.get("total"), params.get("message"))
        # One callback at a time, or values could reach the user out of order.
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

    def drop_progress(self) -> None:
        """Drop the waiting progress and all later progress, because the caller no longer waits."""
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


def pause_timeout_during_progress(
    scope: anyio.CancelScope | PlainScope, timeout_s: float, cap_at: float, resets: bool, callback: OnProgress | None
) -> OnProgress:
    """Return a progress callback that stops the time-out of its call while the caller's callback runs.

    Args:
        scope: the cancel scope with the deadline of the call.
        timeout_s: the time-out of the call in seconds.
        cap_at: the time of the event loop at which the call ends in any case.
        resets: whether progress restarts the time-out.
        callback: the caller's callback.
    """

    def on_progress(progress: float, total: float | None, message: str | None) -> Awaitable[None] | None:
        if resets:
            scope.deadline = min(cap_at, anyio.current_time() + timeout_s)
        waiting = None if callback is None else callback(progress, total, message)
        return None if waiting is None else with_paused_timeout(waiting)

    async def with_paused_timeout(waiting: Awaitable[None]) -> None:
        left_s = scope.deadline - anyio.current_time()
        scope.deadline = cap_at
        try:
            await waiting
        finally:
            scope.deadline = min(cap_at, anyio.current_time() + (timeout_s if resets else left_s))

    return on_progress


class _Limit(Protocol):
    """A time-out as a context manager, which raises `TimeoutError` when it expires."""

    def reschedule(self, when: float | None, /) -> None: ...
    def expired(self) -> bool: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(self, *exc: Any) -> bool | None: ...


def _new_limit(deadline: float) -> _Limit:
    """Return a time-out for the running event loop."""
    if not is_asyncio():
        return _Scope(deadline)
    # asyncio's own time-out costs a quarter of an anyio scope (4 against 17 µs, where a whole call takes 50).
    import asyncio

    return cast("_Limit", asyncio.timeout_at(deadline if deadline < float("inf") else None))


class _Scope:
    """A cancel scope with the interface of `asyncio.timeout_at`."""

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
            # As `asyncio.timeout_at` does; an anyio scope ends without an exception.
            raise TimeoutError
        return swallows
