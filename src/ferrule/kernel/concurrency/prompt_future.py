"""A future of asyncio that continues the task that awaits it at once, and not in the next iteration of its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

__all__ = ["PromptFuture"]


class PromptFuture(asyncio.Future[Any]):
    """A future that one task awaits, and whose outcome arrives in a callback of the event loop.

    `settle` calls what waits for the outcome itself. An iteration of the loop, with its system calls, costs as much as
    many short functions. A cancellation reaches what waits in the next iteration, as with any future.
    """

    _waiting: list[tuple[Callable[[Any], object], Context]] | None = None

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Set the outcome, and call what waits for it; call it in a callback of the loop, not in a task.

        Args:
            result: the result, without ``error``.
            error: the exception; ``None`` for a result.

        Raises:
            InvalidStateError: there is an outcome.
            KeyboardInterrupt, SystemExit: the task raised it.
        """
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)
        waiting, self._waiting = self._waiting, None
        for callback, context in waiting or ():
            context.run(callback, self)

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """See `asyncio.Future.add_done_callback`; `settle` calls the function before it returns."""
        if self.done():
            super().add_done_callback(fn, context=context)
            return
        pair = fn, copy_context() if context is None else context
        if self._waiting is None:
            self._waiting = [pair]
        else:
            self._waiting.append(pair)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """See `asyncio.Future.remove_done_callback`."""
        waiting = self._waiting or []
        self._waiting = [pair for pair in waiting if pair[0] != fn]
        return len(waiting) - len(self._waiting) + super().remove_done_callback(fn)

    def cancel(self, msg: Any = None) -> bool:
        """See `asyncio.Future.cancel`."""
        if not super().cancel(msg):
            return False
        waiting, self._waiting = self._waiting, None
        for callback, context in waiting or ():
            self.get_loop().call_soon(callback, self, context=context)
        return True
