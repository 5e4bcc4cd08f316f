"""Tools as the fast path sees them (`ferrule.kernel.fast_path.plain_tools`), compiled from their components.

A `ComponentCall` is made for each tool at its first plain call, out of the parts that the general path uses: the type
of the arguments, the function with its dependencies and limits, the plan of its result. `plain_call_of` says which
tools have one; it is kept with its component and goes with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from msgspec.structs import asdict, astuple

from ferrule.app.execution.context import Context
from ferrule.app.execution.current import current_request
from ferrule.app.results.plain_results import writer_for
from ferrule.app.rounds.run import attach_body, run_body
from ferrule.app.signatures.shapes import decode_hook
from ferrule.kernel.fast_path.plain_tools import PlainCall, WriteResult
from ferrule.kernel.server import Handler, ServerRequestContext
from ferrule.wire.codec import plain_decoder
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.signatures.function import FunctionSpec
    from ferrule.kernel.concurrency.first_step import Begun

__all__ = ["ComponentCall", "plain_call_of"]

_DESCRIBING: Final = frozenset({"name", "title", "description", "icons", "meta", "tags", "annotations"})
_OF_RESULTS: Final = frozenset({"schema", "output_schema", "structured", "text", "max_result_bytes"})  # in the plan
_OF_GUARDS: Final = frozenset({"scopes", "allow"})  # `ToolSet.find_plain` asks the guard
_OF_LIMITS: Final = frozenset({"timeout_s", "max_concurrent"})  # the function that is called has them
_OF_TASKS: Final = frozenset({"task_after_s", "resumable"})  # without `task` they have no effect

_HONOURED: Final = _DESCRIBING | _OF_RESULTS | _OF_GUARDS | _OF_LIMITS | _OF_TASKS
"""The options of a tool that its calls on the fast path respect. A tool with any other option is called by the general
path, so that a new option works at once and is added here when the fast path respects it too."""


class ComponentCall:
    """One tool, as `ferrule.kernel.fast_path.plain_tools.PlainTool` describes.

    Args:
        component: the tool.
        function: ``await function(**kwargs)``: the body, within its limits and with its dependencies.
        finish: gives a result of a call: ``(request, run) -> result`` for ``await run()``.
    """

    __slots__ = ("_component", "_finish", "_function", "decode", "start", "writers")

    decode: Callable[[bytes | Raw], Any]
    start: Callable[[PlainCall], Coroutine[Any, Any, Any]]

    def __init__(
        self,
        component: ToolComponent,
        function: Callable[..., Awaitable[Any]],
        finish: Callable[[ServerRequestContext[Any], Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        spec = component.spec
        self._component = component
        self._function = function
        self._finish = finish
        self.writers: dict[str, WriteResult] = {}
        self.decode = plain_decoder(spec.arguments_type(), decode_hook)
        self.start = _starter(spec, function)

    def make_writer(self, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
        """See `PlainTool`."""
        return writer_for(self._component.plan, revision, finish)

    def request_of(self, call: PlainCall, /) -> ServerRequestContext[Any]:
        """See `PlainTool`."""
        request = call.request
        if request is None:
            request = call.carrier.make_request(call)
            path = self._component.mount_path
            if path is not None:
                request = path.with_state(request)
            attach_body(request.session, call.task, is_over=call.is_over)
            call.request = request
        return request

    def leave(self, call: PlainCall, /) -> None:
        """See `PlainTool`."""
        if call.token is not None:
            current_request.reset(call.token)
            call.token = None

    def go_on(self, call: PlainCall, begun: Begun) -> Handler:
        """See `PlainTool`."""
        component, function = self._component, self._function
        context_name = component.spec.context_parameter
        first: list[Awaitable[Any]] = [begun]

        def run_again(**kwargs: Any) -> Awaitable[Any]:
            return first.pop() if first else function(**kwargs)

        def handler(request: ServerRequestContext[Any]) -> Awaitable[Any]:
            kwargs: dict[str, Any] = asdict(call.arguments)
            if context_name is not None:
                kwargs[context_name] = Context(request)
            request.session.body_task = None  # run_body sets it to the same task
            return self._finish(request, lambda: run_body(request, run_again, kwargs))

        return handler


def _starter(
    spec: FunctionSpec, function: Callable[..., Awaitable[Any]]
) -> Callable[[PlainCall], Coroutine[Any, Any, Any]]:
    """Return what makes the coroutine of a call, by the cheapest way to call the function."""
    enter = current_request.set
    context_name = spec.context_parameter
    called: Any = function
    if called is spec.function and _takes_positions(spec):
        if context_name is None:

            def start(call: PlainCall) -> Any:
                call.token = enter(call)
                return called(*astuple(call.arguments))

            return start
        place = spec.names.index(context_name)
        if place == len(spec.parameters):

            def start_with_context(call: PlainCall) -> Any:
                call.token = enter(call)
                return called(*astuple(call.arguments), Context(call))

            return start_with_context

    def start_by_name(call: PlainCall) -> Any:
        call.token = enter(call)
        kwargs: dict[str, Any] = asdict(call.arguments)
        if context_name is not None:
            kwargs[context_name] = Context(call)
        return called(**kwargs)

    return start_by_name


def _takes_positions(spec: FunctionSpec) -> bool:
    """Whether the function itself, and no wrapper around it, has the parameters in the order of its signature."""
    function: Any = spec.function
    if type(function) is MethodType:
        function = function.__func__
    # A decorator leaves one of these names when the function's signature is not its own.
    if type(function) is not FunctionType or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return False
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    if type(spec.function) is MethodType:
        names = names[1:]
    return not code.co_kwonlyargcount and names == spec.names


def plain_call_of(
    component: ToolComponent,
    function: Callable[..., Awaitable[Any]],
    finish: Callable[[ServerRequestContext[Any], Callable[[], Awaitable[Any]]], Awaitable[Any]],
) -> ComponentCall | None:
    """Return how a tool is called by the fast path; ``None`` for a tool that has to be called by the general path.

    Args:
        component: the tool; nothing wraps it.
        function: the body as the general path calls it.
        finish: as of `ComponentCall`.
    """
    path = component.mount_path
    if component.task != "forbidden" or (path is not None and path.has_middleware):
        return None
    options = component.options
    unset = type(options)()
    for name in options.__struct_fields__:
        if name not in _HONOURED and getattr(options, name) != getattr(unset, name):
            return None
    if not component.spec.decodes_natively:
        return None
    return ComponentCall(component, function, finish)
