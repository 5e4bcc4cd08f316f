"""Dependencies: parameters whose values the server provides, and which clients do not see.

``db: Annotated[Db, Depends(connect)]`` (or ``db: Db = Depends(connect)``) calls ``connect`` before the function and
passes its result. A dependency may take a `Context` and further dependencies; each is called once in a call, however
often it is used. A generator yields its value, and the code after the ``yield`` runs after the function, in reverse
order, with the function's exception thrown in.

Dependencies are analysed when the function is registered: a call runs through a flat list. An async dependency may ask
questions as the function may, and like the function it runs once in each round. A sync one runs on the event loop,
where it must not block; ``Depends(read_file, thread=True)`` runs it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msgspec import Struct

from ferrule.app.errors import SignatureError
from ferrule.app.execution.context import Context
from ferrule.app.execution.current import current_request
from ferrule.app.signatures.function import FunctionSpec, compile_function
from ferrule.app.signatures.introspection import FunctionKind
from ferrule.wire.struct import Value

if TYPE_CHECKING:
    from ferrule.app.execution.threads import WorkerThreads

__all__ = ["Dependency", "Depends", "check_plan", "inject"]


class Dependency(Value, frozen=True):
    """The marker of a parameter; made by `Depends`.

    Attributes:
        function: returns the value, or yields it.
        thread: whether a sync function runs in a worker thread.
    """

    __ferrule_dependency__: ClassVar[bool] = True

    function: Callable[..., Any]
    thread: bool = False


def Depends(function: Callable[..., Any], *, thread: bool = False) -> Any:  # noqa: N802 - reads like a declaration
    """Return a marker for a parameter whose value ``function`` provides, as its default or in ``Annotated``.

    Args:
        function: sync or async, plain or generator; may take a `Context` and other dependencies.
        thread: run a sync function in a worker thread (generators cannot be).
    """
    return Dependency(function, thread)


class _Step(Struct, frozen=True):
    """One dependency of a plan.

    Attributes:
        call: the function, or the context manager made from a generator.
        kind: the kind of the function.
        in_thread: whether it runs in a worker thread.
        context_name: its parameter for the `Context`; ``None`` without one.
        sources: for each parameter, the position of its value among the values of the plan.
    """

    call: Callable[..., Any]
    kind: FunctionKind
    in_thread: bool
    context_name: str | None
    sources: tuple[tuple[str, int], ...]


class _Plan:
    """The dependencies of one function in the order of their calls; values are kept by position."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.steps: list[_Step] = []
        self._places: dict[tuple[Callable[..., Any], bool], int] = {}
        self._open: list[Callable[..., Any]] = []
        self.parameters = tuple((name, self._step_of(marker, spec)) for name, marker in spec.dependencies.items())
        self.has_cleanup = any(step.kind in ("generator", "async_generator") for step in self.steps)

    def _step_of(self, marker: Any, owner: FunctionSpec) -> int:
        if not isinstance(marker, Dependency):
            raise SignatureError(f"{marker!r} is not made by Depends", function=owner.name)
        key = marker.function, marker.thread
        found = self._places.get(key)
        if found is not None:
            return found
        if marker.function in self._open:
            raise SignatureError(f"the dependency {owner.name} depends on itself", function=owner.name)
        spec = compile_function(marker.function).finish()
        if needed := [part.name for part in spec.parameters if part.required]:
            raise SignatureError(
                f"the parameter {needed[0]!r} of a dependency is neither a Context nor a dependency and has no default",
                function=spec.name,
            )
        if marker.thread and spec.kind != "sync":
            raise SignatureError("thread=True is for plain sync functions", function=spec.name)
        self._open.append(marker.function)
        sources = tuple((name, self._step_of(inner, spec)) for name, inner in spec.dependencies.items())
        self._open.pop()
        call: Callable[..., Any] = spec.call_with if spec.has_positional_only else spec.function
        if spec.kind == "generator":
            call = contextmanager(call)
        elif spec.kind == "async_generator":
            call = asynccontextmanager(call)
        self.steps.append(_Step(call, spec.kind, marker.thread, spec.context_parameter, sources))
        self._places[key] = len(self.steps) - 1
        return len(self.steps) - 1

    async def resolve(self, threads: WorkerThreads, stack: AsyncExitStack | None) -> list[Any]:
        """Call the dependencies and return their values, in the order of the steps.

        Args:
            threads: runs the dependencies with ``thread=True``.
            stack: closes the generators; ``None`` if there are none.
        """
        values: list[Any] = []
        for step in self.steps:
            kwargs: dict[str, Any] = {name: values[place] for name, place in step.sources}
            if step.context_name is not None:
                kwargs[step.context_name] = Context(current_request.get())
            kind = step.kind
            if step.in_thread:
                value = await threads.run(step.call, kwargs)
            elif kind == "async":
                value = await step.call(**kwargs)
            elif kind == "sync":
                value = step.call(**kwargs)
                if type(value) is CoroutineType:  # a plain function that wraps an async one
                    value = await cast("Awaitable[Any]", value)
            elif kind == "generator":
                value = cast("AsyncExitStack", stack).enter_context(step.call(**kwargs))
            else:
                value = await cast("AsyncExitStack", stack).enter_async_context(step.call(**kwargs))
            values.append(value)
        return values


def inject(
    spec: FunctionSpec, function: Callable[..., Awaitable[Any]], threads: WorkerThreads
) -> Callable[..., Awaitable[Any]]:
    """Return ``function`` with its dependencies as arguments; ``function`` itself if it has none.

    Args:
        spec: the compiled function.
        function: async function that calls it with keyword arguments.
        threads: runs dependencies with ``thread=True``.

    Raises:
        SignatureError: a dependency cannot be called as it is written, or depends on itself.
    """
    if not spec.dependencies:
        return function
    plan = _Plan(spec)
    parameters = plan.parameters
    resolve = plan.resolve

    async def plain(**kwargs: Any) -> Any:
        values = await resolve(threads, None)
        for name, place in parameters:
            kwargs[name] = values[place]
        return await function(**kwargs)

    async def with_cleanup(**kwargs: Any) -> Any:
        async with AsyncExitStack() as stack:
            values = await resolve(threads, stack)
            for name, place in parameters:
                kwargs[name] = values[place]
            return await function(**kwargs)
        raise RuntimeError("A dependency swallowed the exception of its function; raise it again")

    return with_cleanup if plan.has_cleanup else plain


def takes_context(spec: FunctionSpec) -> bool:
    """Return whether a function or a dependency of it takes a `Context`; ``True`` if its types are not known yet."""
    if spec.is_pending or spec.context_parameter is not None:
        return True
    if not spec.dependencies:
        return False
    return any(step.context_name is not None for step in _Plan(spec).steps)


def check_plan(spec: FunctionSpec) -> None:
    """Raise the `SignatureError` that `inject` would raise."""
    _Plan(spec)
