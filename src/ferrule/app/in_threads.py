"""The methods of `Context` in a sync function, which runs in a worker thread and cannot await.

What only tells (`tells`) is done there and then. What gives an answer (`answers`) cannot be: it may be one branch among
others that the loop is to run. So it stays an awaitable, for `Context.from_thread` to run, and says so to whoever takes
it for the answer or forgets it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

from ferrule.app.execution.threads import calling_loop

__all__ = ["answers", "tells"]

logger = logging.getLogger("ferrule.app")

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])


def tells(method: F) -> F:
    """An async method of `Context` without a result: called in a worker thread, it runs at once."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if calling_loop() is None:
            return method(self, *args, **kwargs)
        self.from_thread(method, self, *args, **kwargs)
        return _Done()

    return cast("F", call)


def answers(method: F) -> F:
    """An async method of `Context` with a result: called in a worker thread, it tells how to get that."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = method(self, *args, **kwargs)
        return made if calling_loop() is None else _NotYet(made, method.__name__)

    return cast("F", call)


class _Done:
    """Has happened; may be awaited all the same."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


class _NotYet:
    """Has to be run on the loop first."""

    __slots__ = ("_coroutine", "_is_used", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._coroutine = coroutine
        self._name = name
        self._is_used = False

    def __await__(self) -> Generator[Any, Any, Any]:
        self._is_used = True
        return self._coroutine.__await__()

    def close(self) -> None:
        """As of a coroutine that will not run."""
        self._is_used = True
        self._coroutine.close()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"{self._how} (a sync function cannot await)")

    @property
    def _how(self) -> str:
        return f"In a sync function write ctx.from_thread(ctx.{self._name}, …)"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __bool__(self) -> bool:
        self._refuse()

    def __iter__(self) -> Any:
        self._refuse()

    def __del__(self) -> None:
        if not self._is_used:
            self._coroutine.close()
            logger.error("ctx.%s was called and not run. %s", self._name, self._how)
