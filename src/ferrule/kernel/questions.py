"""One request to the peer that waits for its answer: its time-outs and its progress.

Progress callbacks run in order and never in the reading loop when they wait for something: a callback may itself ask
the peer. The answer is handed out only after the callbacks that came before it have ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

import anyio

from ferrule.kernel.dispatch import CallOptions, OnProgress
from ferrule.protocol.errors import RequestTimeout

__all__ = ["MAX_PROGRESS_BACKLOG", "Question"]

logger = logging.getLogger(__name__)

MAX_PROGRESS_BACKLOG: Final = 256
"""Progress values that may wait for a slow callback; beyond it the oldest are dropped, as each replaces the last."""

_Progress: TypeAlias = tuple[Any, Any, Any]


class Question:
    """See the module.

    Attributes:
        result: the answer's ``result`` once it has come.
        error: what to raise instead.
    """

    __slots__ = ("_backlog", "_event", "_idle", "_on_progress", "error", "result", "touched")

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._backlog: deque[_Progress] | None = None
        self._idle: anyio.Event | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self.touched = False
        self._event = anyio.Event()

    @property
    def is_settled(self) -> bool:
        """Whether the answer has come, or never will."""
        return self._event.is_set()

    def settle(self, result: Any = None, error: Exception | None = None) -> None:
        """Hand over the answer."""
        self.result, self.error = result, error
        self._event.set()

    # -- waiting --------------------------------------------------------------------------------------------------

    async def wait(self, method: str, options: CallOptions) -> None:
        """Return once the answer is here and the progress callbacks before it have ended.

        Raises:
            RequestTimeout: it did not come in time.
        """
        timeout_s, cap_s = options.get("timeout_s"), options.get("max_total_s")
        if timeout_s is None and cap_s is None:
            while not self.is_settled:
                await self._event.wait()
        else:
            await self._wait_until(method, timeout_s, cap_s, options.get("reset_on_progress", False))
        while self._idle is not None:
            await self._idle.wait()

    async def _wait_until(self, method: str, timeout_s: float | None, cap_s: float | None, resets: bool) -> None:
        started = anyio.current_time()
        cap_at = float("inf") if cap_s is None else started + cap_s
        wait_s = float("inf") if timeout_s is None else timeout_s
        deadline = min(started + wait_s, cap_at)
        while not self.is_settled:
            if self.touched:
                self.touched = False
                if resets:
                    deadline = min(anyio.current_time() + wait_s, cap_at)
            with anyio.CancelScope(deadline=deadline):
                await self._event.wait()
            if not (self.touched or self._event.is_set()):
                raise RequestTimeout(method, cap_s if cap_s is not None and deadline == cap_at else wait_s)

    # -- progress -------------------------------------------------------------------------------------------------

    def take_progress(self, params: Mapping[str, Any]) -> Coroutine[Any, Any, None] | None:
        """Note progress; what has to run in a task of its own, if the callback waits for something."""
        self.touched = True
        event, self._event = self._event, anyio.Event()
        event.set()
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
