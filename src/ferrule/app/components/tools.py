"""Tools: functions as ``tools/list`` and ``tools/call``.

A call has three steps: `FunctionSpec.bind` converts the arguments, the function runs, `ResultPlan.project` converts its
result. A tool is compiled on its first call and described on the first list, so that registering is cheap.

How failures are reported ("Tools", error handling):

==============================================  ====================================================================
failure                                         the client receives
==============================================  ====================================================================
arguments that do not fit the parameters        a result with ``isError`` that describes valid arguments
`ToolError`                                     a result with ``isError`` and the error's text
an exception that `ErrorTranslator` translates  the same, with the text of the translation
a result that does not fit the declared type    a result with ``isError``; logged as the author's mistake
`MCPError` and its subclasses                   a protocol error, as raised
any other ``Exception``                         a result with ``isError`` without details; logged in full
a ``BaseException`` that is not a cancellation  the same; see `ferrule.kernel.concurrency.cancellation`
an exception group with one exception           as that exception
an exception group with several                 as any other ``Exception``
an unknown tool                                 -32602
==============================================  ====================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast

from ferrule.app.components.component import Component, SetSettings
from ferrule.app.components.deferred_schema import DeferredSchema
from ferrule.app.components.index import ComponentIndex, shown_name
from ferrule.app.components.options import TaskSupport, ToolDefaults, ToolOptions
from ferrule.app.errors import RegistrationError, ResultError, SignatureError, ToolError
from ferrule.app.execution.context import Context
from ferrule.app.execution.current import current_request
from ferrule.app.execution.invoke import check_dependencies, runner_of, translated
from ferrule.app.execution.limits import Limits, limited
from ferrule.app.results.encoders import encoder_for
from ferrule.app.results.result_plan import ResultPlan, error_result, plan_result, wrap_schema
from ferrule.app.rounds.run import run_body
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.app.signatures.function import FunctionSpec, SchemaMode, compile_function
from ferrule.kernel.concurrency.cancellation import BodyExit
from ferrule.kernel.concurrency.yielding import NEEDS_NO_LOOP
from ferrule.kernel.fast_path.fast_tools import OWNER
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import CapabilityNotDeclared, InvalidParams, MCPError, sole_error
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.wire.codec import Encoded
from ferrule.wire.headers import InvalidHeaderAnnotation, compile_param_plan
from ferrule.wire.patterns import pattern
from ferrule.wire.revisions import Revision
from ferrule.wire.types import (
    InputRequiredResult,
    ListToolsResult,
    Tool,
    ToolAnnotations,
    ToolExecution,
    ToolResult,
)

if TYPE_CHECKING:
    from ferrule.app.authorization.guards import Guard
    from ferrule.app.components.mount_path import MountPath
    from ferrule.kernel.fast_path.fast_tools import FastTool
    from ferrule.kernel.fast_path.middleware import PassingTools

__all__ = ["CallTool", "ToolComponent", "ToolSet"]

logger = logging.getLogger(__name__)

CallTool = Callable[[ServerRequestContext[Any], dict[str, Any] | None], Awaitable[Any]]
"""``await execute(request, arguments)`` returns the result of a tool; see `ToolComponent.execute`."""
MakeResult = Callable[[ServerRequestContext[Any], Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""``await make_result(request, start_body)`` returns the result for the value, or the exception, of the body."""

_NAME = pattern(r"[A-Za-z0-9_.-]{1,128}")
_SAFE_LENGTH = 64
_HEADER_KEYWORD = "x-mcp-header"
_ALWAYS_DESCRIBED = frozenset({"scalar", "enum", "literal", "any"})
_NO_ARGUMENTS: dict[str, Any] = {}
_PLAIN_RETURNS = frozenset({str, int, float, bool, dict, list})


def _along_mount_path(path: MountPath, name: str, execute: CallTool) -> CallTool:
    """Return a function that calls ``execute`` with the request as the tool's own server would have received it."""
    if not path.has_middleware:
        return lambda ctx, arguments: execute(path.with_state(ctx), arguments)

    def run_through_middleware(ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Awaitable[Any]:
        params = {"name": name, "arguments": arguments or {}}
        return path.run(ctx, "tools/call", params, lambda inner, params: execute(inner, params.get("arguments")))

    return run_through_middleware


def _changed(
    project: Callable[[Any, Any], Any], change_result: Callable[[ToolResult], ToolResult]
) -> Callable[[Any, Any], Any]:
    def project_and_change(value: Any, revision: Any) -> Any:
        result = project(value, revision)
        return change_result(result) if isinstance(result, ToolResult) else result

    return project_and_change


class ToolComponent(Component[ToolOptions]):
    """One registered tool.

    Args:
        spec: the compiled function.
        name: the tool's name.
        options: as registered.
        defaults: the server's options for tools, used where ``options`` has ``None``.
        settings: those of the server that it is registered with.

    Attributes:
        annotations: the published annotations.
        task, task_after_s, resumable: whether and when a call becomes a task; see `MCPServer.tool`.
        wrap: an extension's ``(tool, execute) -> execute`` around the body; set by `ferrule.extensions.tasks` before
            the first call.
        change_result: an extension's ``(result) -> result`` for the results that `ResultPlan.project` makes; set before
            the first call. Plain text and plain data skip it on the fast path.
        publish_meta: an extension's ``(tool) -> meta`` in place of the ``meta`` of the options.
        limits: maximum duration and concurrency of calls; ``None`` for no limits.
        plain: the tool for the fast path; ``False``: only the general path calls it; ``None``: `make_plain` was not
            called yet.
        has_own_schema: whether the author wrote the input schema.
        schema_mode: ``"model"`` or ``"exact"``.
        execute: ``await execute(ctx, arguments)`` returns the result. Set to `_execute_first`, which replaces it at the
            first call by the compiled function, wrapped by the extension (`wrap`) if there is one.

    Raises:
        RegistrationError: ``input_schema`` does not describe an object.
        ValueError: a limit is not positive, or there is no such encoder.
    """

    __slots__ = (
        "_check",
        "_encoder",
        "_function",
        "_input_schema",
        "_mask_errors",
        "_max_result_bytes",
        "_plan",
        "_server",
        "_threads",
        "annotations",
        "change_result",
        "execute",
        "has_own_schema",
        "limits",
        "plain",
        "publish_meta",
        "resumable",
        "schema_mode",
        "task",
        "task_after_s",
        "wrap",
    )

    execute: CallTool

    def __init__(
        self, spec: FunctionSpec, name: str, options: ToolOptions, defaults: ToolDefaults, settings: SetSettings
    ) -> None:
        super().__init__(spec, name, options)
        self.annotations = None if options.annotations is None else ToolAnnotations(options.annotations)
        self.schema_mode: SchemaMode = defaults.schema if options.schema is None else options.schema
        self.has_own_schema = options.input_schema is not None
        self._input_schema = (
            None if options.input_schema is None or self.has_deferred_schema else _own_schema(options.input_schema)
        )
        self._encoder = defaults.encoder if options.text is None else encoder_for(options.text)
        given = options.max_result_bytes
        self._max_result_bytes = defaults.max_result_bytes if given is None else given
        self._mask_errors = defaults.mask_errors
        has_limits = options.timeout_s is not None or options.max_concurrent is not None
        self.limits = Limits(options.timeout_s, options.max_concurrent) if has_limits else None
        self.task: TaskSupport = options.task
        self.task_after_s = options.task_after_s
        self.resumable = options.resumable
        self.wrap: Callable[[ToolComponent, CallTool], CallTool] | None = None
        self.change_result: Callable[[ToolResult], ToolResult] | None = None
        self.publish_meta: Callable[[ToolComponent], dict[str, Any] | None] | None = None
        self._plan: ResultPlan | None = None
        self._check: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self._server = settings.server
        self._threads = settings.threads
        self._function: Callable[..., Awaitable[Any]] | None = None
        self.plain: FastTool | Literal[False] | None = None
        self.execute = self._execute_first

    def copy_for_mount(self, key: str, mount_path: MountPath) -> Self:
        """Return a copy; see `Component.copy_for_mount`.

        The copy compiles its own ``run``: its messages contain its own name, and its calls follow its mount path.
        """
        made = super().copy_for_mount(key, mount_path)
        made.execute = made._execute_first
        made._function = made.plain = None
        return made

    def refresh(self) -> None:
        """Copy the changed facts of the original, also those of extensions; see `Component.refresh`."""
        super().refresh()
        original = self.original
        if original is not None:
            self.task, self.task_after_s, self.resumable = original.task, original.task_after_s, original.resumable
            self.publish_meta, self.change_result = original.publish_meta, original.change_result

    # -- describing ------------------------------------------------------------------------------------------------

    @property
    def has_deferred_schema(self) -> bool:
        """Whether the input schema is made when it is first read."""
        return isinstance(self.options.input_schema, DeferredSchema)

    @property
    def plan(self) -> ResultPlan:
        """The plan that converts return values to results; made on first use.

        Raises:
            SignatureError: the return type names something undefined, or has no JSON form.
        """
        if self._plan is None:
            try:
                return self._make_plan()
            except NameError as error:
                raise SignatureError(f"the return type: {error}", function=self.spec.name) from error
        return self._plan

    def _make_plan(self) -> ResultPlan:
        self.spec.finish()
        try:
            self._plan = plan_result(
                self.spec.returns,
                encoder=self._encoder,
                structured=self.options.structured,
                output_schema=self.options.output_schema,
                max_bytes=self._max_result_bytes,
                mode=self.schema_mode,
            )
        except SignatureError as error:
            raise SignatureError(f"the return type: {error.reason}", function=self.spec.name) from error
        return self._plan

    def input_schema(self) -> dict[str, Any]:
        """Return the published JSON schema of the arguments.

        Raises:
            SignatureError: a parameter's type has no JSON form, or a deferred schema cannot be made.
        """
        if self._input_schema is None:
            given = self.options.input_schema
            self._input_schema = self.spec.input_schema(self.schema_mode) if given is None else _own_schema(given)
        return self._input_schema

    def definition(self, revision: Revision | None = None) -> Tool:
        """Return the tool's entry in ``tools/list``.

        Args:
            revision: the revision of the client; ``None`` for the latest.

        Raises:
            SignatureError: the tool's types have no JSON form.
        """
        output = self.plan.output_schema()
        # Up to 2025-11-25 a structured result is an object, so that any other value is wrapped in one.
        needs_object = self.plan.objects_only or (revision is not None and revision.structured_output != "any")
        if output is not None and self.plan.wraps and needs_object:
            output = wrap_schema(output)
        return Tool(
            self.name,
            self.input_schema(),
            description=self.description,
            title=self.options.title,
            output_schema=output,
            annotations=self.annotations,
            icons=self.options.icons,
            execution=None if self.task == "forbidden" else ToolExecution(task_support=self.task),
            meta=self.options.meta if self.publish_meta is None else self.publish_meta(self),
        )

    def can_be_described(self, *, at_last: bool = False) -> bool:
        """Return whether the tool's schemas can be made; ``False`` while a type uses a name that is not defined yet.

        Args:
            at_last: raise instead of returning ``False``.

        Raises:
            SignatureError: a type has no JSON form, or with ``at_last`` a name is not defined.
        """
        spec = self.spec
        try:
            if not self.has_own_schema:
                for part in spec.parameters:
                    if part.shape.kind not in _ALWAYS_DESCRIBED and part.shape.has_opaque_part():
                        self.input_schema()
                        break
            returns = spec.returns
            if (
                not (type(returns) is type and returns in _PLAIN_RETURNS)
                and (plan := self._plan or self._make_plan()).has_opaque_part
            ):
                plan.output_schema()
        except NameError as error:
            self._plan = None
            if at_last:
                raise SignatureError(str(error), function=spec.name) from error
            return False
        except SignatureError as error:
            raise error if error.function else SignatureError(error.reason, function=spec.name) from error
        return True

    def check(self) -> None:
        """Resolve the types that used undefined names when the tool was registered.

        Raises:
            SignatureError: a name is still undefined, or its type has no JSON form.
        """
        self.spec.finish()
        self.can_be_described(at_last=True)

    # -- calling ---------------------------------------------------------------------------------------------------

    @property
    def needs_no_loop(self) -> bool:
        """Whether a thread can call it without an event loop, unless its function asks for one.

        See `ferrule.kernel.concurrency.yielding`. So it is for a sync function, and for an async one with the mark
        `NEEDS_NO_LOOP`, without dependencies, a limit of calls at the same time, or an extension.
        """
        spec = self.spec
        return (
            not (spec.is_async and not getattr(spec.function, NEEDS_NO_LOOP, False))  # a mark of `ferrule.expose`
            and not spec.dependencies
            and self.wrap is None
            and self.mount_path is None
            and (self.limits is None or self.limits.max_concurrent is None)
        )

    async def _execute_first(self, ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Any:
        try:
            execute = self._compile()
        except SignatureError as error:
            if not self.has_deferred_schema:
                raise
            return self.unusable(error)
        self.execute = execute if self.wrap is None else self.wrap(self, execute)
        return await self.execute(ctx, arguments)

    def body(self) -> CallTool:
        """Return a function that runs the tool without the extension's `wrap`."""
        return self._compile()

    def _compile(self) -> CallTool:
        spec, function, make_result = self.spec.finish(), self._call(), self._result_maker()
        context_name = spec.context_parameter
        check = self._argument_check()
        path = self.mount_path
        own_server = None if path is None else path.server
        guard = self.guard
        # The guard is checked before the middleware of mounted servers, which may change the arguments.
        has_changes = path is not None and path.has_middleware and guard is not None and guard.reads_arguments
        judges_again = guard if has_changes else None

        def execute(ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Awaitable[Any]:
            if own_server is not None:
                ctx.component_server = own_server  # `ctx` belongs to this call alone: a nested call gets a copy

            def start_body() -> Awaitable[Any]:
                given = _NO_ARGUMENTS if arguments is None else arguments
                kwargs = spec.bind(given if check is None else check(given))
                if judges_again is not None:
                    judges_again.check(ctx, lambda: dict(kwargs))
                if context_name is not None:
                    kwargs[context_name] = Context(ctx)
                return run_body(ctx, function, kwargs)

            return make_result(ctx, start_body)

        if path is None or not (path.has_middleware or path.has_state):
            return execute
        return _along_mount_path(path, self.name, execute)

    def _call(self) -> Callable[..., Awaitable[Any]]:
        """Return ``async (**kwargs) -> value``: the function with its dependencies, within the limits of all calls."""
        if self._function is None:
            function = runner_of(self.spec, self._threads)
            self._function = limited(self.name, function, self.limits) if self.limits else function
        return self._function

    def _result_maker(self) -> MakeResult:
        """Return a function that awaits ``start_body()`` and converts its value or exception to a result.

        `ResultPlan.project` converts the value, `_failed` an exception.
        """
        project, failed = self.plan.project, self._failed
        if self.change_result is not None:
            project = _changed(project, self.change_result)

        async def make_result(ctx: ServerRequestContext[Any], start_body: Callable[[], Awaitable[Any]]) -> Any:
            token = current_request.set(ctx)
            try:
                value = await start_body()
                return value if type(value) is InputRequiredResult else project(value, ctx.session.connection.revision)
            except Exception as error:
                return failed(error)
            finally:
                current_request.reset(token)

        return make_result

    def make_plain(self) -> FastTool | None:
        """Return the tool for the fast path, made on first use; ``None`` if only the general path can call it."""
        if self.plain is None:
            found: FastTool | None = None
            if self.wrap is None:
                from ferrule.app.components.fast_tools import fast_tool_of

                self.spec.finish()
                # Two of its methods are attributes, so its class does not show that it is a `FastTool`.
                made: Any = fast_tool_of(self, self._call(), self._result_maker(), self._argument_check())
                found = made
            self.plain = found or False
        return self.plain or None

    def bind(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """See `Component.bind`."""
        spec, check = self.spec.finish(), self._argument_check()
        given = _NO_ARGUMENTS if arguments is None else dict(arguments)
        return spec.bind(given if check is None else check(given))

    def _argument_check(self) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Return a function from arguments to those that fit the author's own schema; ``None`` for a derived schema.

        A derived schema needs no validation: the conversion to the parameters' types enforces it.
        """
        if not self.has_own_schema:
            return None
        if self._check is None:
            self._check = self._make_argument_check()
        return self._check

    def _make_argument_check(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        from ferrule.app.signatures.coercion import ArgumentProblem
        from ferrule.app.signatures.validation import problems_by

        problems = problems_by(self.input_schema())
        names = ", ".join(self.input_schema().get("properties", {})) or "see the schema"

        def check(arguments: dict[str, Any]) -> dict[str, Any]:
            found = problems(arguments)
            if not found:
                return arguments
            from ferrule.app.signatures.schema_repairs import repaired

            made = repaired(arguments, self.input_schema())
            found = found if made is arguments else problems(made)
            if found:
                raise InvalidArguments([ArgumentProblem("arguments", line) for line in found], names)
            return made

        return check

    def unusable(self, error: SignatureError) -> ToolResult:
        """Return the error result of a tool whose deferred schema cannot be made."""
        logger.error("Tool %r cannot be used: %s", self.name, error)
        return error_result(f"Tool `{self.name}` cannot be used: {error.reason}")

    def refusal(self, error: InvalidArguments) -> ToolResult:
        """Return the error result for arguments that do not fit ("Tools", error handling: input validation)."""
        return error_result(f"Invalid arguments for tool `{self.name}`:\n{error}")

    def _failed(self, raised: Exception) -> ToolResult:
        """Return the error result for an exception of a call; raise protocol errors."""
        error = sole_error(raised)
        if isinstance(error, ToolError):
            return error_result(error.text)
        if isinstance(error, InvalidArguments):
            return self.refusal(error)
        if isinstance(error, ResultError):
            logger.error("Tool %r returned what it may not: %s", self.name, error)
            return error_result(f"The result of tool `{self.name}` cannot be given: {error}")
        if isinstance(error, MCPError):
            try:
                raise error
            finally:
                del error, raised  # their tracebacks hold this frame
        if isinstance(error, CapabilityNotDeclared):
            return error_result(f"Tool `{self.name}` cannot be used: {error}")
        # Imported here: a tool that asks no questions never loads the rounds.
        from ferrule.app.rounds.errors import InvalidAnswer, QuestionExpired, StepInDoubt

        if isinstance(error, InvalidAnswer | QuestionExpired):
            return error_result(f"Tool `{self.name}` got no answer: {error}")
        refusal = translated(error, self._server)
        if refusal is not None:
            return error_result(refusal.text)
        logger.error("Tool %r failed", self.name, exc_info=raised)
        if isinstance(error, StepInDoubt):  # the caller must know that the effect of the step may have happened
            return error_result(f"Tool `{self.name}` was interrupted: {error}")
        if self._mask_errors:
            return error_result(f"Tool `{self.name}` failed")
        if isinstance(error, BodyExit):  # its text names the original exception
            return error_result(f"Tool `{self.name}` failed: {error}")
        return error_result(f"Tool `{self.name}` failed: {type(error).__name__}: {error}")


class SearchOfTools(Protocol):
    """The tools of a search, which are listed in place of too many tools; `ferrule.app.search.tools.ToolSearch`."""

    def listed(self) -> list[ToolComponent] | None:
        """Return the tools that are listed; ``None`` for all."""
        ...

    def find(self, name: str) -> ToolComponent | None:
        """Return a tool of the search itself; ``None`` for another name."""
        ...

    def replaces(self, count: int) -> bool:
        """Return whether the search replaces the list of a server with so many tools."""
        ...

    def unwrap(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return the request for the tool that a call of the search calls."""
        ...


class ToolSet:
    """The tools of one server, and the two methods that serve them.

    Args:
        settings: the settings of the server.
        on_change: called after every change.
        defaults: options of tools that do not set them.

    Attributes:
        index: the tools by name.
        unchecked: tools whose types used an undefined name when they were registered.
        search: the search that is listed in place of too many tools; ``None`` where all tools are listed.
        fast_calls, general_calls: the number of calls on each path.
        barred: see `ferrule.kernel.fast_path.fast_tools`.
    """

    def __init__(self, settings: SetSettings, on_change: Callable[[], None], defaults: ToolDefaults) -> None:
        self.index: ComponentIndex[ToolComponent] = ComponentIndex("tool", on_change, settings.is_private)
        self.unchecked: list[ToolComponent] = []
        self.search: SearchOfTools | None = None
        self.fast_calls = self.general_calls = 0
        self._defaults = defaults
        self._settings = settings
        self._server = settings.server
        self._page_size = settings.page_size
        self.barred: list[Any] = []
        self._passing: PassingTools | None = None

    def add(
        self,
        function: Callable[..., Any],
        options: ToolOptions,
    ) -> ToolComponent:
        """Return the component of a newly registered function; see `MCPServer.tool`.

        Raises:
            SignatureError: the function cannot be served.
            RegistrationError: the name is taken or malformed, or a schema cannot be used.
        """
        component = self.make(function, options)
        self._mirror_headers(component)
        self.index.guard(component)
        self.index.add(component.name, component)
        self.serve()
        return component

    def make(self, function: Callable[..., Any], options: ToolOptions) -> ToolComponent:
        """Return the component of a function, without registering it; raises as `add`."""
        spec = compile_function(function, allow_keywords=options.input_schema is not None)
        if spec.kind not in ("sync", "async"):
            raise SignatureError("a generator cannot be a tool; return a list", function=spec.name)
        name = spec.name if options.name is None else options.name
        check_name(name)
        component = ToolComponent(spec, name, options, self._defaults, self._settings)
        self._check(component)
        return component

    def offer_search(self, search: SearchOfTools) -> None:
        """List the tools of a search, always or where there are too many tools to list."""
        self.search = search
        self._server.unwrap_request = search.unwrap
        self.serve()

    def serve(self) -> None:
        """Register the handlers of ``tools/list`` and ``tools/call``, unless they are registered."""
        if self._server.get_request_handler("tools/call") is None:
            self._server.add_request_handler("tools/list", self._list, trusted=True)
            self._server.add_request_handler("tools/call", self.handler, trusted=True)

    def _check(self, component: ToolComponent) -> None:
        """Raise errors of the tool's signature at its registration, if finding them needs no schema."""
        spec = component.spec
        check_dependencies(spec)
        if component.options.output_schema is not None:
            from ferrule.app.signatures.validation import check_schema

            check_schema(dict(component.options.output_schema))
        if spec.is_pending or not component.can_be_described():
            self.unchecked.append(component)

    def _mirror_headers(self, component: ToolComponent) -> None:
        """Keep the plan of a tool's headers, in place of the plan of the tool that it replaces.

        Raises:
            RegistrationError: the plan is malformed, or the name is taken.
        """
        plan, mirrored = None, False
        for part in component.spec.parameters:
            if _HEADER_KEYWORD in part.shape.keywords:
                mirrored = True
        if mirrored or (component.has_own_schema and not component.has_deferred_schema):
            try:
                plan = compile_param_plan(component.input_schema())
            except InvalidHeaderAnnotation as error:
                raise RegistrationError(f"Tool {component.name!r}: {error}") from error
        is_replaced = self.index.can_replace(component.name)
        if plan and not is_replaced:
            self.index.check_free(component.name)  # before the plan of another tool is overwritten
        if plan or is_replaced:
            plans = self._server.attachments.made(MirroredHeaders).params
            plans.pop(component.name, None)
            if plan:
                plans[component.name] = plan

    def remove(self, name: str) -> None:
        """Remove a tool.

        Raises:
            KeyError: there is no such tool.
        """
        self.index.remove(name)
        self._server.attachments.made(MirroredHeaders).params.pop(name, None)

    def find(self, name: str) -> ToolComponent:
        """Return the enabled tool of a name.

        Raises:
            InvalidParams: there is no such enabled tool (2026-07-28, "Tools", error handling).
        """
        tool = self.index.live.get(name) or self.index.look_again(name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {shown_name(name)}")
        return tool

    def _pass_guard(
        self, ctx: ServerRequestContext[Any], tool: ToolComponent, arguments: dict[str, Any] | None
    ) -> None:
        """Refuse a tool that does not exist for the sender of this request, or that its token does not allow.

        Raises:
            InvalidParams: the tool does not exist for the sender, or its ``scopes`` function failed.
            InvalidArguments: arguments that decide the scopes do not fit the parameters.
            InsufficientScope: the token lacks a scope.
        """
        guard = cast("Guard", tool.guard)
        if not guard.is_visible(ctx):
            raise self.index.unknown(tool.name, ctx)
        guard.check(ctx, lambda: tool.bind(arguments))

    async def call(self, ctx: ServerRequestContext[Any], name: str, arguments: dict[str, Any] | None) -> ToolResult:
        """Return the result of a tool that is called within another request.

        Raises:
            InvalidParams: there is no such enabled tool, or it does not exist for the sender of the request.
            InsufficientScope: the token lacks a scope.
        """
        tool = self.find(name)
        if tool.guard is None:
            return cast("ToolResult", await tool.execute(ctx, arguments))
        return cast("ToolResult", await self._call_guarded(ctx, tool, arguments))

    def handler(self, ctx: ServerRequestContext[Any], /) -> Awaitable[Any]:
        """Serve ``tools/call``."""
        self.general_calls += 1
        params = ctx.params
        return self.call_as(ctx, params.name, params.arguments)

    def call_as(self, ctx: ServerRequestContext[Any], name: str, arguments: dict[str, Any] | None) -> Awaitable[Any]:
        """Return the result of the tool that a ``tools/call`` request names, after its guard was checked.

        For a tool that is called by another tool, use `call`.

        Raises:
            InvalidParams: there is no such tool that the sender of the request may see.
        """
        tool = self.index.live.get(name)
        if tool is None:
            tool = self._found_otherwise(name)
            if tool is None:
                raise self.index.unknown(name, ctx)
        if tool.guard is not None:
            return self._call_guarded(ctx, tool, arguments)
        return tool.execute(ctx, arguments)

    def _found_otherwise(self, name: str) -> ToolComponent | None:
        """Return a tool that `ComponentIndex.refresh` registers now, or a tool of the search; ``None`` without."""
        tool = self.index.look_again(name)
        return self.search.find(name) if tool is None and self.search is not None else tool

    def find_fast(self, name: str, sender: Any = OWNER, /) -> FastTool | None:
        """See `ferrule.kernel.fast_path.fast_tools.FastTools`."""
        tool = self.index.live.get(name)
        if tool is None or (tool.guard is not None and sender is not OWNER and not tool.guard.admits(sender)):
            return None
        found = tool.plain or tool.make_plain()
        if not self._server.middleware or found is None:
            return found
        if self._passing is None:
            from ferrule.kernel.fast_path.middleware import PassingTools

            self._passing = PassingTools(self._server)
        passing = self._passing.find(found)
        if passing is None:
            self.barred = list(self._server.middleware)
        return passing

    async def _call_guarded(
        self, ctx: ServerRequestContext[Any], tool: ToolComponent, arguments: dict[str, Any] | None
    ) -> Any:
        try:
            self._pass_guard(ctx, tool, arguments)
        except InvalidArguments as error:
            return tool.refusal(error)
        except SignatureError as error:
            if not tool.has_deferred_schema:
                raise
            return tool.unusable(error)
        return await tool.execute(ctx, arguments)

    async def _list(self, ctx: ServerRequestContext[Any]) -> Encoded:
        shown = None if self.search is None else self.search.listed
        return self.index.page(ctx, ctx.params.cursor, self._page_size, _tools_page, shown=shown)


def _tools_page(members: list[ToolComponent], next_cursor: str | None, revision: Revision) -> ListToolsResult:
    listed: list[Tool] = []
    for member in members:
        try:
            listed.append(member.definition(revision))
        except Exception as error:  # registered while the server runs, when no start checks it
            logger.error("Tool %r is left out of the list, since it cannot be described: %s", member.name, error)
    return ListToolsResult(listed, next_cursor=next_cursor)


def check_name(name: str) -> None:
    """Refuse a tool name that the specification forbids; log a warning for one that model APIs refuse.

    Section "Tools", tool names.

    Raises:
        RegistrationError: the name is empty, has more than 128 characters, or has other characters than ASCII letters,
            digits, ``_``, ``-`` and ``.``.
    """
    # No pattern for the names that nearly all tools have: it would be compiled at each start of a process.
    if len(name) <= _SAFE_LENGTH and name.isascii() and name.replace("_", "a").replace("-", "a").isalnum():
        return
    if name == "<lambda>":
        raise RegistrationError("A lambda has no name; give one: app.tool(name=…)")
    if not _NAME.fullmatch(name):
        raise RegistrationError(f"The tool name {name!r} is not 1 to 128 of: letters, digits, '_', '-', '.'")
    logger.warning("The tool name %r has a dot or more than 64 characters, which some model APIs refuse", name)


def _own_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(schema)
    if made.get("type") != "object":
        raise RegistrationError('input_schema describes an object: {"type": "object", …}')
    from ferrule.app.signatures.validation import check_schema

    check_schema(made)
    return made
