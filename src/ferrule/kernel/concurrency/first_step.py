"""Running the first step of a coroutine at once, but inside an asyncio task: most calls end in their first step.

The first step is the code up to the first wait.

`asyncio.timeout`, ``TaskGroup`` and `asyncio.current_task` need a task, and starting one in the ordinary way costs more
than the rest of a plain call. There are two cheaper ways:

- From Python 3.12 on, ``asyncio.Task(…, eager_start=True)`` runs the first step while the task is made.
- Before, a *spare* task waits on a future, and first steps run while asyncio takes it for the current task
  (`LentTasks`). If a coroutine waits after its first step, the spare continues it, and another spare is made. A spare
  that the function has kept, named, cancelled or given a callback ends with its call, as the task of that call would.

Each first step runs in a context of its own, as the first step of each task does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any, Final, TypeAlias
from weakref import getweakrefcount

__all__ = ["FirstSteps", "LentTasks", "Rest", "StartedCoroutine", "WhenItWaits", "first_steps"]

Rest: TypeAlias = "tuple[Coroutine[Any, Any, None], Any]"
"""A coroutine after its first step, and the value that this step yielded: the future that it waits for."""

WhenItWaits: TypeAlias = "Callable[[Any, Coroutine[Any, Any, Any], Any], Rest | None]"
"""Called with the argument of `FirstSteps.run`, a coroutine that waits after its first step, and what it waits for.
Returns the work that the task continues with; ``None`` if none is left."""

_ENDED: Final = object()
"""Stands for the end of a coroutine, where ``None`` is a value that coroutines yield."""

_HAS_EAGER_TASKS: Final = sys.version_info >= (3, 12)

# Documented for event loops and tasks of others ("Extending asyncio").
_enter_task: Callable[[Any, Any], None] = asyncio.tasks._enter_task  # pyright: ignore[reportPrivateUsage]
_leave_task: Callable[[Any, Any], None] = asyncio.tasks._leave_task  # pyright: ignore[reportPrivateUsage]


class FirstSteps:
    """Runs first steps in one event loop, each in an eager task (Python 3.12).

    Args:
        loop: the running event loop.
        adopt: called with each task that continues after its first step; keeps a reference to it, as asyncio does not.

    Attributes:
        task: runs first steps; ``None`` if each has a task of its own.
    """

    __slots__ = ("_adopt", "_context", "_loop", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop, adopt: Callable[[asyncio.Task[Any]], object]) -> None:
        self._loop = loop
        self._adopt = adopt
        self._context = copy_context()
        self.task: Any = None

    def run(self, work: Coroutine[Any, Any, None], wait: WhenItWaits, arg: Any) -> None:
        """Run the first step of ``work`` as that of a task, in a callback of the loop; the rest follows in that task.

        Args:
            work: the work; its result must be ``None``.
            wait: called in the first step if ``work`` waits.
            arg: passed to ``wait``.

        Raises:
            KeyboardInterrupt, SystemExit: ``work`` raised it; it must not raise anything else in its first step.
        """
        make: Any = asyncio.Task  # `eager_start` came with Python 3.12
        task = make(_Steps(work, wait, arg), loop=self._loop, context=self._context.copy(), eager_start=True)
        if not task.done():
            self._adopt(task)

    def close(self) -> None:
        """Release the task that `run` keeps, if any; `run` must not be called any more."""


class LentTasks(FirstSteps):
    """As `FirstSteps`, with a waiting task as the current task: for Python 3.11, which has no eager tasks."""

    __slots__ = ("_spare",)

    def __init__(self, loop: asyncio.AbstractEventLoop, adopt: Callable[[asyncio.Task[Any]], object]) -> None:
        super().__init__(loop, adopt)
        self._renew()

    def run(self, work: Coroutine[Any, Any, None], wait: WhenItWaits, arg: Any) -> None:
        """See `FirstSteps.run`."""
        loop, spare = self._loop, self._spare
        task = spare.task
        context = self._context.copy()
        _enter_task(loop, task)
        try:
            # Not `send`: it would raise `StopIteration` at the end, which costs as much as the rest of this method.
            pending = context.run(next, work.__await__(), _ENDED)
            rest = None if pending is _ENDED else context.run(wait, arg, work, pending)
        except BaseException:
            _leave_task(loop, task)
            self._replace(spare)
            raise
        _leave_task(loop, task)
        if rest is not None:
            spare.go_on(rest, context)
            self._adopt(task)
            self._renew()
        elif (
            getrefcount(task) != _REFERENCES  # kept
            or spare.gate.done()  # cancelled while it waited, or
            or task._must_cancel  # before its own first step
            or task._callbacks is not None
            or getweakrefcount(task) != 1  # asyncio's own set of all tasks
            or task.get_name() is not spare.name
        ):
            self._replace(spare)

    def _replace(self, spare: _Spare) -> None:
        spare.end()
        self._renew()

    def _renew(self) -> None:
        self._spare = spare = _Spare(self._loop)
        self.task = spare.task

    def close(self) -> None:
        """End the waiting task; `run` must not be called any more."""
        self.task = None
        self._spare.end()


_REFERENCES: Final = 5
"""References to the task of a spare that no other code has: its spare, `FirstSteps.task`, a local variable, an argument
of `getrefcount`, and the callback of its future."""


class _Steps(Coroutine[Any, Any, None]):
    """The coroutine of an eager task: the first step of some work, and then what is to be continued, if anything."""

    __slots__ = ("_first", "_rest")

    def __init__(self, work: Coroutine[Any, Any, None], wait: WhenItWaits, arg: Any) -> None:
        self._first: Any = work, wait, arg
        self._rest: Coroutine[Any, Any, None] | None = None

    def send(self, value: Any, /) -> Any:
        if self._rest is not None:
            return self._rest.send(value)
        (work, wait, arg), self._first = self._first, None
        pending = next(work.__await__(), _ENDED)
        left = None if pending is _ENDED else wait(arg, work, pending)
        if left is None:
            raise StopIteration
        self._rest, pending = left
        return pending

    def throw(self, error: Any, value: Any = None, trace: Any = None, /) -> Any:
        try:
            if self._rest is None:
                raise error
            return self._rest.throw(error)
        finally:
            del error  # its traceback holds this frame

    def close(self) -> None:
        if self._rest is not None:
            self._rest.close()

    def __await__(self) -> Any:
        raise TypeError("This is for a task")


class _Spare(Coroutine[Any, Any, None]):
    """A task that waits for the rest of a call, and the coroutine of that task."""

    __slots__ = ("_context", "_has_resumed", "_pending", "_rest", "gate", "name", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._rest: Coroutine[Any, Any, None] | None = None
        self._context: Context | None = None
        self._pending: Any = None
        self._has_resumed = False
        self.gate: asyncio.Future[None] = asyncio.Future(loop=loop)
        self.task: Any = asyncio.Task(self, loop=loop)
        self.name = self.task.get_name()

    def go_on(self, rest: Rest, context: Context) -> None:
        """Continue a coroutine after its first step.

        Args:
            rest: the coroutine, and what it waits for.
            context: the context variables of its first step.
        """
        self._rest, self._pending = rest
        self._context = context
        self._open()

    def end(self) -> None:
        """End the task."""
        self._has_resumed = True
        self._open()

    def _open(self) -> None:
        self.task = None  # the task holds this coroutine also when it is done: without this, each call leaves a cycle
        if not self.gate.done():
            self.gate.set_result(None)

    def send(self, value: Any, /) -> Any:
        rest = self._rest
        if self._has_resumed:
            if rest is None:
                raise StopIteration
            return self._context.run(rest.send, value)  # type: ignore[union-attr]
        if rest is None:
            if self.gate.done():
                raise StopIteration
            self.gate._asyncio_future_blocking = True  # as `await` does
            return self.gate
        self._has_resumed = True
        pending, self._pending = self._pending, None
        return pending if pending is not None else self._context.run(rest.send, None)  # type: ignore[union-attr]

    def throw(self, error: Any, value: Any = None, trace: Any = None, /) -> Any:
        rest = self._rest
        try:
            if rest is None:
                raise error
            if not self._has_resumed:  # cancelled before it was handed what it waits for: a task would cancel that
                self._has_resumed = True
                pending, self._pending = self._pending, None
                if pending is not None and pending.cancel():
                    return pending
            return self._context.run(rest.throw, error)  # type: ignore[union-attr]
        finally:
            del error  # its traceback holds this frame

    def close(self) -> None:
        if self._rest is not None:
            self._rest.close()

    def __await__(self) -> Any:
        raise TypeError("This is for a task")


def first_steps(loop: asyncio.AbstractEventLoop, adopt: Callable[[asyncio.Task[Any]], object]) -> FirstSteps:
    """Return the runner of first steps for this version of Python; see `FirstSteps` for the arguments."""
    return FirstSteps(loop, adopt) if _HAS_EAGER_TASKS else LentTasks(loop, adopt)


class StartedCoroutine:
    """An awaitable for a coroutine whose first step has been done already.

    Awaiting it continues after that step: it waits for what the coroutine waits for, returns its value, or raises its
    exception.
    """

    __slots__ = ("_coroutine", "_error", "_pending", "_value")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any] | None,
        pending: Any = None,
        *,
        value: Any = None,
        error: BaseException | None = None,
    ) -> None:
        self._coroutine = coroutine
        self._pending = pending
        self._value = value
        self._error = error

    @classmethod
    def returned(cls, value: Any) -> StartedCoroutine:
        """Return the awaitable of a coroutine that returned a value in its first step."""
        return cls(None, value=value)

    @classmethod
    def raised(cls, error: BaseException) -> StartedCoroutine:
        """Return the awaitable of a coroutine that raised an exception in its first step."""
        return cls(None, error=error)

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine: Any = self._coroutine
        if coroutine is None:
            if self._error is not None:
                try:
                    raise self._error
                finally:
                    self._error = None  # its traceback holds this frame
            return self._value
        pending, self._pending = self._pending, None
        thrown: BaseException | None = None
        while True:  # until the coroutine is resumed with nothing thrown in: from there on `yield from` does it
            try:
                yield pending
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                thrown = error
            if thrown is None:
                # A generator, as `types.coroutine` makes it, has no `__await__`.
                rest: Any = coroutine.__await__() if hasattr(coroutine, "__await__") else coroutine
                return (yield from rest)  # pyright: ignore[reportUnknownVariableType]
            try:
                pending = coroutine.throw(thrown)
            except StopIteration as stop:
                return stop.value
            finally:
                thrown = None  # its traceback holds this frame
