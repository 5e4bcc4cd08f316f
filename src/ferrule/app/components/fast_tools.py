"""Tools as the fast path sees them (`ferrule.kernel.fast_path.fast_tools`), compiled from their components.

A `ComponentFastTool` is made for each tool at its first plain call, out of the parts that the general path uses: the
type of the arguments, the function with its dependencies and limits, the plan of its result. `fast_tool_of` says which
tools have one; it is kept with its component and goes with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from msgspec import Raw
from msgspec.structs import asdict, astuple

from ferrule.app.execution.context import Context
from ferrule.app.execution.current import current_request
from ferrule.app.results.fast_results import writer_for
from ferrule.app.rounds.run import adopt_running_body, hand_over_body, run_body
from ferrule.app.signatures.shapes import decode_hook
from ferrule.kernel.concurrency.from_thread import from_thread, runs_in
from ferrule.kernel.fast_path.fast_tools import FastCall, WriteResult
from ferrule.kernel.server import Handler, ServerRequestContext
from ferrule.wire.codec import decode, plain_decoder
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.signatures.function import FunctionSpec
    from ferrule.kernel.concurrency.first_step import StartedCoroutine

__all__ = ["ComponentFastTool", "fast_tool_of"]

_DESCRIBING: Final = frozenset({"name", "title", "description", "icons", "meta", "tags", "annotations"})
_OF_RESULTS: Final = frozenset({"schema", "output_schema", "structured", "text", "max_result_bytes"})  # in the plan
_OF_GUARDS: Final = frozenset({"scopes", "allow"})  # `ToolSet.find_fast` asks the guard
_OF_LIMITS: Final = frozenset({"timeout_s", "max_concurrent"})  # the function that is called has them
_OF_ARGUMENTS: Final = frozenset({"input_schema"})  # validated before they are decoded to their types
_OF_TASKS: Final = frozenset({"task_after_s", "resumable"})  # without `task` they have no effect

_HONOURED: Final = _DESCRIBING | _OF_RESULTS | _OF_GUARDS | _OF_LIMITS | _OF_ARGUMENTS | _OF_TASKS
"""The options of a tool that its calls on the fast path respect. A tool with any other option is called by the general
path, so that a new option works at once and is added here when the fast path respects it too."""


class ComponentFastTool:
    """One tool, as `ferrule.kernel.fast_path.fast_tools.FastTool` describes.

    Args:
        component: the tool.
        function: ``await function(**kwargs)``: the body, within its limits and with its dependencies.
        finish: ``await finish(request, run)`` returns the result for the value, or the exception, of ``await run()``;
            see `ferrule.app.components.tools.MakeResult`.
        check: returns arguments that fit the author's own schema, or raises; ``None`` without one.

    Attributes:
        start: makes the coroutine of a call; set to a function of `_starter`.
        decode: converts the bytes of arguments; set to a decoder of `ferrule.wire.codec.plain_decoder`, or to a
            function of `_general_decoder`.
    """

    __slots__ = ("_component", "_finish", "_function", "_kwargs_of", "decode", "name", "start", "writers")

    admits: Final = None
    waits_plainly: ClassVar[bool] = False
    decode: Callable[[bytes | Raw], Any]
    start: Callable[[FastCall], Coroutine[Any, Any, Any]]

    def __init__(
        self,
        component: ToolComponent,
        function: Callable[..., Awaitable[Any]],
        finish: Callable[[ServerRequestContext[Any], Callable[[], Awaitable[Any]]], Awaitable[Any]],
        check: Callable[[dict[str, Any]], dict[str, Any]] | None,
    ) -> None:
        spec = component.spec
        self._component = component
        self.name = component.name
        self._function = function
        self._finish = finish
        self.writers: dict[str, WriteResult] = {}
        if check is None and spec.decodes_natively:
            self.decode = plain_decoder(spec.arguments_type(), decode_hook)
            self._kwargs_of: Callable[[Any], dict[str, Any]] = asdict
            self.start = _starter(spec, function)
        else:
            self.decode = _general_decoder(spec, check)
            self._kwargs_of = dict
            self.start = _starter_by_name(spec, function, dict)

    def make_writer(self, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
        """See `FastTool`."""
        return writer_for(self._component.plan, revision, finish)

    def request_of(self, call: FastCall, /) -> ServerRequestContext[Any]:
        """See `FastTool`."""
        request = call.request
        if request is None:
            if not runs_in(call.loop):  # a worker thread, which may be ahead of the call's own task
                return from_thread(call.loop, lambda: self.request_of(call))
            request = call.carrier.make_request(call)
            path = self._component.mount_path
            if path is not None:
                request = path.with_state(request)
            adopt_running_body(request.session, call.task, is_over=call.is_over)
            call.request = request
        return request

    def leave(self, call: FastCall, /) -> None:
        """See `FastTool`."""
        if call.token is not None:
            current_request.reset(call.token)
            call.token = None

    def go_on(self, call: FastCall, begun: StartedCoroutine) -> Handler:
        """See `FastTool`."""
        component, function = self._component, self._function
        context_name = component.spec.context_parameter
        first: list[Awaitable[Any]] = [begun]

        def run_again(**kwargs: Any) -> Awaitable[Any]:
            return first.pop() if first else function(**kwargs)

        def handler(request: ServerRequestContext[Any]) -> Awaitable[Any]:
            kwargs = self._kwargs_of(call.arguments)
            if context_name is not None:
                kwargs[context_name] = Context(request)
            hand_over_body(request.session)
            return self._finish(request, lambda: run_body(request, run_again, kwargs))

        return handler


def _general_decoder(
    spec: FunctionSpec, check: Callable[[dict[str, Any]], dict[str, Any]] | None
) -> Callable[[bytes | Raw], dict[str, Any]]:
    """Return what reads arguments in the steps of the general path; it raises for those that this has to refuse."""

    def read(arguments: bytes | Raw) -> dict[str, Any]:
        given = decode(bytes(arguments))
        if type(given) is not dict:
            raise TypeError("arguments are an object")
        found = cast("dict[str, Any]", given)
        return spec.bind(found if check is None else check(found))

    return read


def _starter(
    spec: FunctionSpec, function: Callable[..., Awaitable[Any]]
) -> Callable[[FastCall], Coroutine[Any, Any, Any]]:
    """Return the function that makes the coroutine of a call, with the fewest Python calls for this signature."""
    enter = current_request.set
    context_name = spec.context_parameter
    called: Any = function
    if called is spec.function and _takes_positions(spec):
        if context_name is None:

            def start(call: FastCall) -> Any:
                call.token = enter(call)
                return called(*astuple(call.arguments))

            return start
        place = spec.names.index(context_name)
        if place == len(spec.parameters):

            def start_with_context(call: FastCall) -> Any:
                call.token = enter(call)
                return called(*astuple(call.arguments), Context(call))

            return start_with_context

    return _starter_by_name(spec, function, asdict)


def _starter_by_name(
    spec: FunctionSpec, function: Callable[..., Any], kwargs_of: Callable[[Any], dict[str, Any]]
) -> Callable[[FastCall], Coroutine[Any, Any, Any]]:
    """Return what makes the coroutine of a call, with keyword arguments."""
    enter = current_request.set
    context_name = spec.context_parameter

    def start_by_name(call: FastCall) -> Any:
        call.token = enter(call)
        kwargs = kwargs_of(call.arguments)
        if context_name is not None:
            kwargs[context_name] = Context(call)
        return function(**kwargs)

    return start_by_name


def _takes_positions(spec: FunctionSpec) -> bool:
    """Return whether the function can be called by position: it is not wrapped, and has the same parameters."""
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


def fast_tool_of(
    component: ToolComponent,
    function: Callable[..., Awaitable[Any]],
    finish: Callable[[ServerRequestContext[Any], Callable[[], Awaitable[Any]]], Awaitable[Any]],
    check: Callable[[dict[str, Any]], dict[str, Any]] | None,
) -> ComponentFastTool | None:
    """Return the tool for the fast path; ``None`` for a tool that only the general path can call.

    Args:
        component: the tool; no extension wraps it.
        function: the body as the general path calls it.
        finish, check: see `ComponentFastTool`.
    """
    path = component.mount_path
    if component.task != "forbidden" or (path is not None and path.has_middleware):
        return None
    options = component.options
    unset = type(options)()
    for name in options.__struct_fields__:
        if name not in _HONOURED and getattr(options, name) != getattr(unset, name):
            return None
    return ComponentFastTool(component, function, finish, check)
