"""`MCPServer`: functions become an MCP server.

The decorators give the function back as it is: it stays callable, typed and testable. Everything they know is kept in
the `ToolSet`, `ResourceSet` and `PromptSet`, and served by the kernel's `Server`, which is `MCPServer.lowlevel`.

Nothing here speaks a transport: `run` and `asgi` hand the low-level server to one.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, overload

from ferrule.app.completion import CompletionSet
from ferrule.app.context import APP_ATTRIBUTE
from ferrule.app.encoders import encoder_for
from ferrule.app.errors import RegistrationError
from ferrule.app.limits import Limits
from ferrule.app.prompts import PromptComponent, PromptSet
from ferrule.app.resources import ResourceComponent, ResourceSet
from ferrule.app.results import DEFAULT_MAX_RESULT_BYTES
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.app.signature import SchemaMode
from ferrule.app.threads import DEFAULT_MAX_THREADS, WorkerThreads
from ferrule.app.tools import TaskSupport, ToolComponent, ToolSet
from ferrule.kernel.bus import Event
from ferrule.kernel.server import Server
from ferrule.stores.store import open_store

if TYPE_CHECKING:
    from ferrule.app.components import Component, ComponentIndex
    from ferrule.app.encoders import Encoder, EncoderName
    from ferrule.app.mounting import Mount
    from ferrule.app.protection import Allow, Protection, Scopes
    from ferrule.app.rounds.sealing import StateKey
    from ferrule.auth.server.resource_server import ResourceServer
    from ferrule.auth.server.verifiers import TokenVerifier
    from ferrule.kernel.context import ServerMiddleware
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.protocol.caching import CacheHint
    from ferrule.stores.store import Store
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.wire.types import (
        Annotations,
        GetPromptResult,
        Icon,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        Tool,
        ToolAnnotations,
        ToolResult,
    )

__all__ = ["MCPServer", "ServerExtension"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
StateT = TypeVar("StateT")

# Named and not imported: extensions stand above this layer, and most servers use none.
_TASKS = "ferrule.extensions.tasks:Tasks"

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

Lifespan = Callable[["MCPServer[Any]"], AbstractAsyncContextManager[Any]]


class ServerExtension(Protocol):
    """What a server needs of an extension; `ferrule.extensions.base.Extension` is the base to write one on."""

    identifier: ClassVar[str]
    """``reverse.domain/name``."""

    serves_tasks: ClassVar[bool]
    """Whether it makes tasks of tools that ask for it (``task=``)."""

    def attach(self, app: MCPServer[Any], /) -> None:
        """Register what it adds."""
        ...

    def prepare_tool(self, tool: ToolComponent, /) -> None:
        """Look at a tool, once."""
        ...

    def running(self, server: Server[Any], state: Any, /) -> AbstractAsyncContextManager[Any]:
        """Held while the server runs."""
        ...


class MCPServer(Generic[StateT]):
    """An MCP server made of functions.

    Args:
        name: identifies the server to clients.
        version: of the server, as its author counts; ``None`` is ``"0"``.
        title, description, website_url, icons: for display; sent to revisions that know them.
        instructions: for the model: how to use this server as a whole.
        lifespan: ``async with lifespan(app) as state`` around the server's life; ``state`` is ``ctx.lifespan``.
        middleware: outermost first; ``async (ctx, call_next) -> result``.
        cache_hints: method → hint for clients (2026-07-28); ``"*"`` for all.
        schema: ``"model"``: schemas that every model API accepts; ``"exact"``: all that JSON Schema can say.
        text: how structured results are written for the model: ``"json"``, ``"toon"``, ``"auto"`` (TOON where it is at
            least 10 % shorter), or a function from data to text.
        max_result_bytes: larger tool results become an error result.
        max_threads: sync functions that run at the same time; more wait their turn.
        page_size: entries on a page of a list; ``None`` for all.
        mask_errors: tell the peer nothing of an unexpected exception; ``False`` shows its type and text.
        logging: announce that log messages may come (`Context.log`).
        state_keys: secrets of at least 32 bytes that seal the state between the rounds of a call, newest first; the
            same in every worker. ``None`` makes one for this process: calls do not outlive it.
        state_ttl_s: seconds that a state may wait for its next round.
        store: where ``once`` steps are marked and large states kept: ``"memory:"`` for this process,
            ``"sqlite:///path"`` for all processes of this machine, a `Store`; ``None`` for nowhere.
        max_rounds: rounds that one call may take.
        inline_state_bytes: a larger state is kept in the store.
        extensions: turned on at once; see `add_extension`.

    Attributes:
        lowlevel: the kernel's registry, for what has no name here.
        tools, resources, prompts, completions: the component sets.
        mounts: the servers mounted in this one.
        own_lifespan: as given.
        lifespan_state: what it yielded, while this server is mounted in one that runs.
        protection: what ``auth`` became; ``None`` without.
        store: what ``store`` became.
        extensions: those that are on, by identifier.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str | None = None,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Iterable[Icon] | None = None,
        lifespan: Callable[[MCPServer[StateT]], AbstractAsyncContextManager[StateT]] | None = None,
        middleware: Iterable[ServerMiddleware[Any]] = (),
        cache_hints: Mapping[str, CacheHint] | None = None,
        schema: SchemaMode = "model",
        text: EncoderName | Encoder = "json",
        max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES,
        max_threads: int = DEFAULT_MAX_THREADS,
        page_size: int | None = None,
        mask_errors: bool = True,
        logging: bool = True,
        state_keys: Iterable[StateKey | bytes | str] | None = None,
        state_ttl_s: float = 600,
        store: str | Store | None = "memory:",
        max_rounds: int = 32,
        inline_state_bytes: int = 64 * 1024,
        auth: ResourceServer | TokenVerifier | str | None = None,
        extensions: Iterable[ServerExtension] = (),
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError("page_size is at least 1")
        self._encoder = encoder_for(text)
        self._schema: SchemaMode = schema
        self._max_result_bytes = max_result_bytes
        self._mask_errors = mask_errors
        self.lowlevel: Server[StateT] = Server(
            name,
            version="0" if version is None else version,
            title=title,
            description=description,
            website_url=website_url,
            icons=icons,
            instructions=instructions,
            lifespan=lambda _: self._life(lifespan),
            middleware=middleware,
            cache_hints=cache_hints,
            logging=logging,
        )
        setattr(self.lowlevel, APP_ATTRIBUTE, self)
        opened = open_store(store) if isinstance(store, str) else store
        self.lowlevel.attachments[RoundsSettings] = RoundsSettings(
            state_keys=state_keys,
            state_ttl_s=state_ttl_s,
            max_rounds=max_rounds,
            inline_state_bytes=inline_state_bytes,
            marks=None if opened is None else opened.marks,
            blobs=None if opened is None else opened.blobs,
        )
        self.threads = WorkerThreads(max_threads)
        self.tools = ToolSet(
            self.lowlevel, self.threads, page_size=page_size, on_change=lambda: self._list_changed("tools")
        )
        self.resources = ResourceSet(
            self.lowlevel, self.threads, page_size=page_size, on_change=lambda: self._list_changed("resources")
        )
        self.prompts = PromptSet(
            self.lowlevel, self.threads, page_size=page_size, on_change=lambda: self._list_changed("prompts")
        )
        self.completions = CompletionSet(self.lowlevel, self.prompts, self.resources, self.threads)
        self._local: Any = None
        self.mounts: list[Mount] = []
        self.own_lifespan: Lifespan | None = cast("Any", lifespan)
        self.lifespan_state: Any = {}
        self.store: Store | None = opened
        self.extensions: dict[str, ServerExtension] = {}
        self.protection: Protection | None = None
        if auth is not None:
            from ferrule.app.protection import Protection, read_auth

            self.protection = Protection(read_auth(auth))
            for index in (self.tools.index, self.resources.fixed, self.resources.templates, self.prompts.index):
                index.is_private = True

        for extension in extensions:
            self.add_extension(extension)

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"

    def _life(
        self, lifespan: Callable[[MCPServer[StateT]], AbstractAsyncContextManager[StateT]] | None
    ) -> AbstractAsyncContextManager[StateT]:
        nothing: AbstractAsyncContextManager[Any] = nullcontext(cast("Any", {}))
        own = nothing if lifespan is None else lifespan(self)
        if self.mounts:
            from ferrule.app.mounting import nested_lifespans

            own = nested_lifespans(self, own)
        has_channel = self.store is not None and self.store.channel is not None
        return self._with_extensions(own) if self.extensions or has_channel else own

    @asynccontextmanager
    async def _with_extensions(self, own: AbstractAsyncContextManager[StateT]) -> AsyncGenerator[StateT]:
        async with AsyncExitStack() as stack:
            state = await stack.enter_async_context(own)
            if self.store is not None and self.store.channel is not None:
                from ferrule.kernel.relay import relayed

                await stack.enter_async_context(relayed(self.lowlevel.bus, self.store.channel))
            for extension in self.extensions.values():
                await stack.enter_async_context(extension.running(self.lowlevel, state))
            yield state

    @property
    def name(self) -> str:
        """As given."""
        return self.lowlevel.server_info.name

    @property
    def version(self) -> str:
        """As given."""
        return self.lowlevel.server_info.version

    def _list_changed(self, kind: str) -> None:
        self.lowlevel.list_changed.add(kind)
        if kind == "resources":
            self.lowlevel.resource_updates = True
        self.lowlevel.bus.publish(Event.list_changed(kind))

    def _guard(self, component: Component, index: ComponentIndex[Any], scopes: Scopes, allow: Allow | None) -> None:
        if scopes or allow is not None:
            from ferrule.app.protection import make_guard

            component.guard = make_guard(scopes, allow, self.protection)
            index.is_guarded = index.is_guarded or component.guard is not None
            index.touch()

    # -- tools -----------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def tool(
        self,
        name: str | None = None,
        /,
        *,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | Mapping[str, Any] | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        scopes: Scopes = (),
        allow: Allow | None = None,
        schema: SchemaMode | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        structured: bool = True,
        text: EncoderName | Encoder | None = None,
        max_result_bytes: int | None = None,
        timeout_s: float | None = None,
        max_concurrent: int | None = None,
        task: TaskSupport = "forbidden",
        task_after_s: float | None = 0.0,
        resumable: bool = False,
    ) -> Callable[[FunctionT], FunctionT]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Serve a function as a tool: ``@app.tool``, ``@app.tool("name", title=…)``, or ``app.tool(function)``.

        The function is given back unchanged. Its parameters become the input schema, its docstring the descriptions,
        its return annotation the output schema.

        Args:
            name: the tool's name; the function's own if not given.
            title: for display.
            description: for the model; the docstring up to its first section if not given.
            annotations: hints, such as ``{"readOnlyHint": True}``.
            icons, meta: published as they stand.
            tags: free words, kept here and not published.
            scopes: that a token must allow for using it (HTTP); or ``(principal, arguments) -> scopes``. Without them
                the answer is 403 with a challenge for exactly these.
            allow: a function of the principal (HTTP); where it says no, the tool does not exist.
            schema: ``"model"`` or ``"exact"``; the server's if not given.
            input_schema: your own 2020-12 schema, published untouched and enforced; the function may then take
                ``**kwargs``.
            output_schema: your own schema of the result, published untouched and enforced.
            structured: ``False``: no output schema, results are text only.
            text: the server's if not given.
            max_result_bytes: the server's if not given.
            timeout_s: seconds that one run may take, without the time in which a question waits for its answer.
            max_concurrent: runs at the same time in this process; more wait their turn.
            task: ``"optional"``: a call becomes a task where client and era allow it; ``"required"``: it is refused
                otherwise. Either turns the tasks extension on (`add_extension` to set it up).
            task_after_s: when a call becomes a task (2026-07-28): 0 at once; after so many seconds, until which the
                client waits for the result; ``None`` only when the function calls ``ctx.begin_task()``. A legacy
                client decides itself.
            resumable: after a crash another process may run the function again: its recorded steps and answers are
                replayed, and all else happens once more.

        Raises:
            SignatureError: the function cannot be served.
            RegistrationError: the name is taken or malformed, or a schema cannot be used.
        """
        if function is None or isinstance(function, str):

            def register(target: FunctionT) -> FunctionT:
                self.add_tool(target, name=function, **options)
                return target

            return register
        self.add_tool(function, **options)
        return function

    def add_tool(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | Mapping[str, Any] | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        scopes: Scopes = (),
        allow: Allow | None = None,
        schema: SchemaMode | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        structured: bool = True,
        text: EncoderName | Encoder | None = None,
        max_result_bytes: int | None = None,
        timeout_s: float | None = None,
        max_concurrent: int | None = None,
        task: TaskSupport = "forbidden",
        task_after_s: float | None = 0.0,
        resumable: bool = False,
    ) -> ToolComponent:
        """`tool` without the decorator: gives the component."""
        component = self.tools.add(
            function,
            name=name,
            title=title,
            description=description,
            annotations=annotations,
            icons=icons,
            meta=meta,
            tags=frozenset(tags),
            schema=self._schema if schema is None else schema,
            input_schema=input_schema,
            output_schema=output_schema,
            structured=structured,
            encoder=self._encoder if text is None else encoder_for(text),
            max_result_bytes=self._max_result_bytes if max_result_bytes is None else max_result_bytes,
            mask_errors=self._mask_errors,
            limits=None if timeout_s is None and max_concurrent is None else Limits(timeout_s, max_concurrent),
        )
        self._guard(component, self.tools.index, scopes, allow)
        component.task, component.task_after_s, component.resumable = task, task_after_s, resumable
        if task != "forbidden" and not any(extension.serves_tasks for extension in self.extensions.values()):
            self.add_extension(_named(_TASKS)())
        for extension in self.extensions.values():
            extension.prepare_tool(component)
        self.tools.index.touch()
        return component

    def add_extension(self, extension: ServerExtension) -> None:
        """Turn an extension on, for all tools, those registered before it too.

        Raises:
            ValueError: it is on already, or another one serves the same methods.
        """
        extension.attach(self)
        self.extensions[extension.identifier] = extension
        for tool in self.tools.index:
            extension.prepare_tool(tool)

    def remove_tool(self, name: str) -> None:
        """Take a tool away; clients that listen are told.

        Raises:
            KeyError: there is none.
        """
        self.tools.remove(name)

    # -- resources -------------------------------------------------------------------------------------------------

    def resource(
        self,
        uri: str,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        scopes: Scopes = (),
        allow: Allow | None = None,
        guard_paths: bool = True,
        ttl_ms: int | None = None,
        cache_scope: Literal["public", "private"] | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Serve a function as a resource: ``@app.resource("data://stock")`` or ``@app.resource("data://{metal}")``.

        The variables of a template are the function's parameters. It may return text, bytes, JSON-shaped data,
        `ResourceContents`, `File` or `Embedded`, or a list of them; ``None`` means that there is no such resource.

        Args:
            uri: a URI, or an RFC 6570 template.
            name: the function's own if not given.
            title, description, icons, annotations, meta, tags, scopes, allow: as for a tool.
            mime_type: ``text/plain``, ``application/json`` or ``application/octet-stream`` by what is returned, if not
                given; announced only when given.
            size: in bytes, when known.
            guard_paths: refuse variables that hold ``..`` segments, absolute paths or NUL.
            ttl_ms, cache_scope: how long, and by whom, the contents may be cached (2026-07-28).

        Raises:
            SignatureError: the parameters are not the template's variables.
            RegistrationError: the URI is malformed or taken.
        """
        if not isinstance(cast("Any", uri), str):
            raise RegistrationError("@app.resource needs a URI: @app.resource('data://…')")

        def register(function: FunctionT) -> FunctionT:
            self.add_resource(
                uri,
                function,
                name=name,
                title=title,
                description=description,
                mime_type=mime_type,
                size=size,
                annotations=annotations,
                icons=icons,
                meta=meta,
                tags=tags,
                scopes=scopes,
                allow=allow,
                guard_paths=guard_paths,
                ttl_ms=ttl_ms,
                cache_scope=cache_scope,
            )
            return function

        return register

    def add_resource(
        self,
        uri: str,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        scopes: Scopes = (),
        allow: Allow | None = None,
        guard_paths: bool = True,
        ttl_ms: int | None = None,
        cache_scope: Literal["public", "private"] | None = None,
    ) -> ResourceComponent:
        """`resource` without the decorator: gives the component."""
        component = self.resources.add(
            uri,
            function,
            name=name,
            title=title,
            description=description,
            mime_type=mime_type,
            size=size,
            annotations=annotations,
            icons=icons,
            meta=meta,
            tags=frozenset(tags),
            guard_paths=guard_paths,
            ttl_ms=ttl_ms,
            cache_scope=cache_scope,
        )
        self._guard(component, self.resources.index_of(uri), scopes, allow)
        if component.template is not None:
            self.completions.notice(component.spec)
        return component

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template away; clients that listen are told.

        Raises:
            KeyError: there is none.
        """
        self.resources.index_of(uri).remove(uri)

    # -- prompts ---------------------------------------------------------------------------------------------------

    @overload
    def prompt(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def prompt(
        self,
        name: str | None = None,
        /,
        *,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        scopes: Scopes = (),
        allow: Allow | None = None,
    ) -> Callable[[FunctionT], FunctionT]: ...

    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Serve a function as a prompt: ``@app.prompt``, ``@app.prompt("name", title=…)``, or ``app.prompt(function)``.

        It may return text (one message of the user), a `PromptMessage`, ``(role, text)``, a content helper, or a list
        of them. For the arguments see `tool`.

        Raises:
            SignatureError: the function cannot be served.
            RegistrationError: the name is taken or empty.
        """
        if function is None or isinstance(function, str):

            def register(target: FunctionT) -> FunctionT:
                self.add_prompt(target, name=function, **options)
                return target

            return register
        self.add_prompt(function, **options)
        return function

    def add_prompt(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        scopes: Scopes = (),
        allow: Allow | None = None,
    ) -> PromptComponent:
        """`prompt` without the decorator: gives the component."""
        component = self.prompts.add(
            function, name=name, title=title, description=description, icons=icons, meta=meta, tags=frozenset(tags)
        )
        self._guard(component, self.prompts.index, scopes, allow)
        self.completions.notice(component.spec)
        return component

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away; clients that listen are told.

        Raises:
            KeyError: there is none.
        """
        self.prompts.index.remove(name)

    def complete(self, owner: str | Callable[..., Any], argument: str, /) -> Callable[[FunctionT], FunctionT]:
        """Complete one argument of a prompt, or one variable of a template.

        The decorated function takes what has been typed and gives values; it may also take ``arguments`` (those already
        filled in) and a `Context`. ``Literal`` and enum parameters complete themselves.

        Args:
            owner: the prompt's name or function, or the template's text.
            argument: the parameter's name.

        Raises:
            RegistrationError: there is no such prompt, template or argument, or it has a completer.
        """
        name = self._completed_name(owner, argument)

        def register(function: FunctionT) -> FunctionT:
            self.completions.add(name, argument, function)
            return function

        return register

    def _completed_name(self, owner: str | Callable[..., Any], argument: str) -> str:
        components: list[tuple[str, Any]] = [(prompt.name, prompt.spec) for prompt in self.prompts.index]
        components += [(template.uri, template.spec) for template in self.resources.templates]
        for name, spec in components:
            if owner == name or owner is spec.function:
                if any(part.name == argument for part in spec.finish().parameters):
                    return name
                raise RegistrationError(f"{name!r} has no argument {argument!r}")
        raise RegistrationError(f"There is no prompt and no template {owner!r} to complete")

    # -- at run time -----------------------------------------------------------------------------------------------

    def mount(self, other: MCPServer[Any], *, prefix: str | None = None) -> None:
        """Serve another server's components as this one's, now and as they change; see `ferrule.app.mounting`.

        Args:
            other: keeps its functions, options and lifespan; its middleware does not run here.
            prefix: tools and prompts become ``prefix_name``, ``data://x`` becomes ``data://prefix/x``.

        Raises:
            RegistrationError: a name is taken, the prefix is malformed, or ``other`` holds this server.
        """
        from ferrule.app.mounting import Mount

        self.mounts.append(Mount(self, other, prefix))

    def enable(
        self,
        *,
        tool: str | None = None,
        resource: str | None = None,
        prompt: str | None = None,
        tag: str | None = None,
    ) -> None:
        """Show a component, or all that have a tag, again; clients that listen are told.

        Raises:
            KeyError: there is none of that name.
        """
        self._set_enabled(True, tool, resource, prompt, tag)

    def disable(
        self,
        *,
        tool: str | None = None,
        resource: str | None = None,
        prompt: str | None = None,
        tag: str | None = None,
    ) -> None:
        """Neither list nor serve a component, or all that have a tag, until enabled again; listeners are told.

        Raises:
            KeyError: there is none of that name.
        """
        self._set_enabled(False, tool, resource, prompt, tag)

    def _set_enabled(
        self, enabled: bool, tool: str | None, resource: str | None, prompt: str | None, tag: str | None
    ) -> None:
        if tag is not None:
            indexes: list[ComponentIndex[Any]] = [
                self.tools.index,
                self.resources.fixed,
                self.resources.templates,
                self.prompts.index,
            ]
            for index in indexes:
                for key, component in index.items():
                    if tag in component.tags:
                        index.set_enabled(key, enabled)
        if tool is not None:
            self.tools.index.set_enabled(tool, enabled)
        if resource is not None:
            self.resources.index_of(resource).set_enabled(resource, enabled)
        if prompt is not None:
            self.prompts.index.set_enabled(prompt, enabled)

    def notify_resource_updated(self, uri: str) -> None:
        """Tell every client that subscribed to ``uri`` that its contents changed; from the event loop's thread."""
        self.lowlevel.bus.publish(Event.resource_updated(uri))

    # -- in process ------------------------------------------------------------------------------------------------

    def started(self) -> AbstractAsyncContextManager[StateT]:
        """``async with app.started():`` enters the lifespan once around several in-process calls."""
        return cast("AbstractAsyncContextManager[StateT]", self._caller().started())

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Call a tool from this program, through middleware, without a transport.

        Raises:
            InvalidParams: there is no such tool.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return cast("ToolResult", await self._caller().request("tools/call", params, on_progress))

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource from this program.

        Raises:
            ResourceNotFound: there is none.
        """
        return cast("ReadResourceResult", await self._caller().request("resources/read", {"uri": uri}))

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Fill in a prompt from this program.

        Raises:
            InvalidParams: no such prompt, or its arguments do not fit.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return cast("GetPromptResult", await self._caller().request("prompts/get", params))

    def list_tools(self) -> list[Tool]:
        """The enabled tools as the latest revision lists them."""
        return [tool.definition() for tool in self.tools.index.live.values()]

    def list_resources(self) -> list[Resource]:
        """The enabled resources."""
        return [component.resource() for component in self.resources.fixed.live.values()]

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """The enabled templates."""
        return [component.resource_template() for component in self.resources.templates.live.values()]

    def list_prompts(self) -> list[Prompt]:
        """The enabled prompts."""
        return [component.definition() for component in self.prompts.index.live.values()]

    def _caller(self) -> Any:
        if self._local is None:
            from ferrule.app.local import LocalCaller

            self._local = LocalCaller(self.lowlevel)
        return self._local

    def check(self) -> None:
        """Resolve every signature that named something undefined when it was registered; `run` does this first.

        Raises:
            SignatureError: a name is still undefined, or has no JSON form.
        """
        for tool in self.tools.index:
            if tool.spec.is_pending:
                _ = tool.plan
        for component in (*self.resources.fixed, *self.resources.templates, *self.prompts.index):
            component.spec.finish()

    # -- transports ------------------------------------------------------------------------------------------------

    def asgi(self, **options: Any) -> HttpEndpoint:
        """This server as an ASGI callable, both eras on one URL.

        Args:
            options: see `HttpOptions`: ``path``, ``allowed_hosts``, ``allowed_origins`` …
        """
        from ferrule.transports.asgi.endpoint import HttpEndpoint
        from ferrule.transports.asgi.options import HttpOptions

        if self.store is not None and self.store.sessions is not None and self.store.channel is not None:
            options.setdefault("shared", self.store)
            options.setdefault("event_store", self.store.events)
        settings = HttpOptions(**options)
        if self.protection is not None:
            settings = self.protection.protect(settings)
        return HttpEndpoint(self.lowlevel, settings)

    def run(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        workers: int = 1,
        **options: Any,
    ) -> None:
        """Serve until the input ends (stdio) or a signal comes.

        Args:
            transport: ``"stdio"`` or ``"http"``.
            host, port: for HTTP; port 0 takes a free one.
            workers: processes that serve HTTP on the one port. They import this server anew by its file and name, so
                it is a variable of a module, and this call stands under ``if __name__ == "__main__":``. What they
                must share (sessions, changes, tasks) they share through ``store``.
            options: of `run_stdio`; or of `HttpOptions` and `run_http`.

        Raises:
            OSError: the address cannot be bound.
            SignatureError: an annotation still names something that is not defined.
        """
        self.check()
        if transport == "stdio":
            from ferrule.transports.stdio import run_stdio

            run_stdio(self.lowlevel, **options)
        elif transport == "http":
            if workers > 1:
                self._run_workers(host, port, workers, options)
            else:
                self._run_http(host, port, options)
        else:
            raise ValueError(f"transport={transport!r}: expected 'stdio' or 'http'")

    def _run_workers(self, host: str, port: int, workers: int, options: dict[str, Any]) -> None:
        from ferrule.app.scaling import check_can_scale, make_payload
        from ferrule.transports.http_server import HttpLimits, bind
        from ferrule.transports.workers import find_target, run_workers

        check_can_scale(self, options)
        on_started = options.pop("on_started", None)
        limits = options.get("limits") or HttpLimits()
        sockets = bind(host, port)
        port = sockets[0].getsockname()[1]
        try:
            run_workers(
                find_target(self),
                workers,
                sockets,
                make_payload(self, host, port, options),
                drain_s=limits.drain_s,
                on_started=None if on_started is None else lambda: on_started(host, port),
            )
        finally:
            for sock in sockets:
                sock.close()

    def serve_worker(self, sockets: list[Any], payload: dict[str, Any], on_started: Callable[..., None]) -> None:
        """Serve on inherited sockets: what a worker process calls; see `run`."""
        from ferrule.app.scaling import take_payload

        host, port, options = take_payload(self, payload)
        self.check()
        self._run_http(host, port, {**options, "sockets": sockets, "on_started": on_started})

    def _run_http(self, host: str, port: int, options: dict[str, Any]) -> None:
        from ferrule.transports.http_server import run_http

        names = inspect.signature(run_http).parameters
        serving = {name: options.pop(name) for name in list(options) if name in names}
        options.setdefault("loopback", host in _LOOPBACK_HOSTS and options.get("allowed_hosts") is None)
        endpoint = self.asgi(**options)
        serving.setdefault("on_drain", endpoint.drain)
        run_http(endpoint, host=host, port=port, **serving)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
