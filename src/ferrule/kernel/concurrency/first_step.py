"""The first step of a coroutine, run at once and yet inside an asyncio task: most calls end in it.

`asyncio.timeout`, ``TaskGroup`` and `asyncio.current_task` need a task, and starting one in the ordinary way costs more
than all else of a plain call. There are two ways around that:

- From Python 3.12 on, ``asyncio.Task(…, eager_start=True)`` runs the first step while the task is made.
- Before, a *spare* task waits on a future and lends its identity to first steps (`LentTasks`). Where something is left
  to do after the first step, the spare does it, and another spare is made. A spare that the function has kept, named,
  cancelled or given a callback ends with its call, as the task of that call would have.

Each first step runs in a context of its own, as the first step of each task does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any, Final, TypeAlias
from weakref import getweakrefcount

__all__ = ["Begun", "FirstSteps", "LentTasks", "Rest", "first_steps"]

Rest: TypeAlias = "tuple[Coroutine[Any, Any, None], Any]"
"""A coroutine that has been begun, and what it waits for."""

FirstStep: TypeAlias = "Callable[..., Rest | None]"
"""Does the first step of something; returns what is left, ``None`` for nothing."""

_HAS_EAGER_TASKS: Final = sys.version_info >= (3, 12)

# Documented for event loops and tasks of others ("Extending asyncio").
_enter_task: Callable[[Any, Any], None] = asyncio.tasks._enter_task  # pyright: ignore[reportPrivateUsage]
_leave_task: Callable[[Any, Any], None] = asyncio.tasks._leave_task  # pyright: ignore[reportPrivateUsage]


class FirstSteps:
    """Runs first steps in one event loop, each in an eager task (Python 3.12).

    Args:
        loop: the running event loop.
        adopt: called with each task that goes on after its first step, to keep it alive.
    """

    __slots__ = ("_adopt", "_context", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, adopt: Callable[[asyncio.Task[Any]], object]) -> None:
        self._loop = loop
        self._adopt = adopt
        self._context = copy_context()

    def run(self, step: FirstStep, *args: Any) -> None:
        """Call ``step(*args)`` as the first step of a task, in a callback of the loop; the rest follows in that task.

        Raises:
            KeyboardInterrupt, SystemExit: what ``step`` raises goes through; it must not raise anything else.
        """
        make: Any = asyncio.Task  # `eager_start` came with Python 3.12
        task = make(_Steps(step, args), loop=self._loop, context=self._context.copy(), eager_start=True)
        if not task.done():
            self._adopt(task)

    def close(self) -> None:
        """Release what `run` keeps; `run` must not be called any more."""


class LentTasks(FirstSteps):
    """As `FirstSteps`, in the identity of a task that waits: for Python 3.11, which has no eager tasks."""

    __slots__ = ("_spare",)

    def __init__(self, loop: asyncio.AbstractEventLoop, adopt: Callable[[asyncio.Task[Any]], object]) -> None:
        super().__init__(loop, adopt)
        self._spare = _Spare(loop)

    def run(self, step: FirstStep, *args: Any) -> None:
        """See `FirstSteps.run`."""
        loop, spare = self._loop, self._spare
        task = spare.task
        context = self._context.copy()
        _enter_task(loop, task)
        try:
            rest = context.run(step, *args)
        except BaseException:
            _leave_task(loop, task)
            self._replace(spare)
            raise
        _leave_task(loop, task)
        if rest is not None:
            spare.go_on(rest, context)
            self._adopt(task)
            self._spare = _Spare(loop)
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
        self._spare = _Spare(self._loop)

    def close(self) -> None:
        """End the waiting task; `run` must not be called any more."""
        self._spare.end()


_REFERENCES: Final = 4
"""References to the task of a spare that no other code has: its spare, a local variable, an argument of
`getrefcount`, and the callback of its future."""


class _Steps(Coroutine[Any, Any, None]):
    """The coroutine of an eager task: a first step, and then the coroutine that the step returned, if any."""

    __slots__ = ("_args", "_rest", "_step")

    def __init__(self, step: FirstStep, args: tuple[Any, ...]) -> None:
        self._step = step
        self._args = args
        self._rest: Coroutine[Any, Any, None] | None = None

    def send(self, value: Any, /) -> Any:
        if self._rest is not None:
            return self._rest.send(value)
        left = self._step(*self._args)
        self._args = ()
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
        self.gate: asyncio.Future[None] = loop.create_future()
        self.task: Any = asyncio.Task(self, loop=loop)
        self.name = self.task.get_name()

    def go_on(self, rest: Rest, context: Context) -> None:
        """Do the rest, which waits for something, in its context."""
        self._rest, self._pending = rest
        self._context = context
        self._open()

    def end(self) -> None:
        """End the task."""
        self._has_resumed = True
        self._open()

    def _open(self) -> None:
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
    """Return what runs first steps on this version of Python; see `FirstSteps`."""
    return FirstSteps(loop, adopt) if _HAS_EAGER_TASKS else LentTasks(loop, adopt)


class Begun:
    """An awaitable that stands for a coroutine whose first step has been done already.

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
        self._pending: Any = (pending,)
        self._value = value
        self._error = error

    @classmethod
    def returned(cls, value: Any) -> Begun:
        """Return the awaitable of a coroutine that returned a value in its first step."""
        return cls(None, value=value)

    @classmethod
    def raised(cls, error: BaseException) -> Begun:
        """Return the awaitable of a coroutine that raised an exception in its first step."""
        return cls(None, error=error)

    def __await__(self) -> Begun:
        return self

    def __iter__(self) -> Begun:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any, /) -> Any:
        """Run the coroutine to its next wait; the first time return what it already waits for. See `Coroutine.send`."""
        coroutine = self._coroutine
        if coroutine is None:
            if self._error is not None:
                try:
                    raise self._error
                finally:
                    self._error = None  # its traceback holds this frame
            raise StopIteration(self._value)
        if self._pending is not None:
            (pending,), self._pending = self._pending, None
            return pending
        return coroutine.send(value)

    def throw(self, error: Any, value: Any = None, trace: Any = None, /) -> Any:
        """Raise an exception inside the coroutine; see `Coroutine.throw`."""
        try:
            if self._coroutine is None:
                raise error
            self._pending = None
            return self._coroutine.throw(error)
        finally:
            del error  # its traceback holds this frame

    def close(self) -> None:
        """Close the coroutine; see `Coroutine.close`."""
        if self._coroutine is not None:
            self._coroutine.close()
