"""Decorators of `Context` methods that make them usable in a sync function.

A sync function runs in a worker thread and cannot await. A method without a result (`without_result`) runs at once on
the event loop. A method with a result (`with_result`) cannot: the function may want to run it concurrently with others.
It returns an object that `Context.from_thread` runs, and that raises `TypeError` if the function uses it as the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

from ferrule.app.execution.threads import calling_loop

__all__ = ["with_result", "without_result"]

logger = logging.getLogger("ferrule.app")

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])


def without_result(method: F) -> F:
    """Decorate an async method of `Context` without a result: called in a worker thread, it runs at once."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if calling_loop() is None:
            return method(self, *args, **kwargs)
        self.from_thread(method, self, *args, **kwargs)
        return _Done()

    return cast("F", call)


def with_result(method: F) -> F:
    """Decorate an async method of `Context` with a result: in a worker thread `Context.from_thread` must run it."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = method(self, *args, **kwargs)
        return made if calling_loop() is None else _NotYet(made, method.__name__)

    return cast("F", call)


class _Done:
    """The result of a method that has run; code written for the event loop may await it."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


class _NotYet:
    """A call that has not run yet; any use as its result raises `TypeError` with the way to run it."""

    __slots__ = ("_coroutine", "_is_used", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._coroutine = coroutine
        self._name = name
        self._is_used = False

    def __await__(self) -> Generator[Any, Any, Any]:
        self._is_used = True
        return self._coroutine.__await__()

    def close(self) -> None:
        """Close the coroutine without running it."""
        self._is_used = True
        self._coroutine.close()

    def _refuse(self) -> NoReturn:
        self.close()  # the error says what happened; a coroutine that is collected in a cycle would warn beside it
        raise TypeError(f"{self._how} (a sync function cannot await)")

    @property
    def _how(self) -> str:
        return f"In a sync function write ctx.from_thread(ctx.{self._name}, …)"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # `inspect`, `copy` and debuggers probe for special methods
            raise AttributeError(name)
        self._refuse()

    def __bool__(self) -> bool:
        self._refuse()

    def __iter__(self) -> Any:
        self._refuse()

    def __del__(self) -> None:
        if not self._is_used:  # the coroutine's own "never awaited" warning would not name `from_thread`
            self._coroutine.close()
            logger.error("ctx.%s was called and not run. %s", self._name, self._how)
