"""`MCPServer`: serves Python functions as an MCP server.

The base class `ComponentRegistry` registers the components. This module adds the rest: identity, lifespans, mounts,
extensions and calls in process. The kernel's `Server` (`MCPServer.lowlevel`) handles the protocol.

This module implements no transport: `run` and `asgi` pass the low-level server to one, over HTTP through
`ferrule.app.serving.http`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeVar, Unpack, cast, overload

import anyio

from ferrule._options import check_options, check_values, explains_arguments
from ferrule.app.application import attach_application
from ferrule.app.components.options import ToolDefaults
from ferrule.app.components.registry import ComponentRegistry
from ferrule.app.components.tools import ToolComponent
from ferrule.app.execution.dependencies import takes_context
from ferrule.app.execution.threads import DEFAULT_MAX_THREADS
from ferrule.app.results.encoders import encoder_for
from ferrule.app.results.result_plan import DEFAULT_MAX_RESULT_BYTES
from ferrule.app.rounds.settings import RoundsSettings, StateSettings
from ferrule.app.signatures.function import SchemaMode
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.fast_path.fast_tools import FastTools
from ferrule.kernel.gauges import gauges_of
from ferrule.kernel.server import LifespanT, Server, check_lifespan
from ferrule.stores.store import Store, nothing_is_open, open_store
from ferrule.wire.types import Implementation

if TYPE_CHECKING:
    from ferrule.app.authorization.tenants import TenantOf
    from ferrule.app.components.index import OnDuplicate
    from ferrule.app.components.keywords import SkillKeywords
    from ferrule.app.components.mounting import Mount
    from ferrule.app.results.encoders import Encoder, EncoderName
    from ferrule.app.rounds.sealing import StateKey
    from ferrule.app.serving.card import CardOptions
    from ferrule.app.settings import DeclaredSettings
    from ferrule.auth.server.resource_server import ResourceServer
    from ferrule.auth.server.verifiers import TokenVerifier
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.kernel.protection import ServerProtection
    from ferrule.kernel.server import ServerMiddleware
    from ferrule.protocol.caching import CacheHint
    from ferrule.search.definitions import ToolSearchMode
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.hosting.options import AsgiOptions, RunOptions
    from ferrule.transports.wsgi.endpoint import WSGIEndpoint
    from ferrule.wire.types import (
        GetPromptResult,
        Icon,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        Tool,
        ToolResult,
    )

__all__ = ["MCPServer", "ServerExtension"]


# A name instead of an import: extensions are in a higher layer, and most servers use none.
_TASKS = "ferrule.extensions.tasks:Tasks"
_SKILLS = "ferrule.extensions.skills:Skills"
_FROM_OPENAPI = "ferrule.expose.openapi:from_openapi"

_NONE: Final = type(None)
_TEXT: Final = ("a text or None", (str, _NONE), None)
_SWITCH: Final = ("True or False", (bool,), None)
_RULES: Final[Mapping[str, tuple[str, tuple[Any, ...], float | None]]] = {
    "name": ("a text", (str,), None),
    **dict.fromkeys(("version", "title", "description", "instructions", "website_url"), _TEXT),
    **dict.fromkeys(("mask_errors", "single_use_states", "fast_path"), _SWITCH),
    "logging": ("True, False or None", (bool, _NONE), None),
    "schema": ("'model' or 'exact'", ("model", "exact"), None),
    **dict.fromkeys(("max_result_bytes", "max_threads", "max_rounds"), ("a number", (int,), 1)),
    "page_size": ("a number or None", (int, _NONE), 1),
    "inline_state_bytes": ("a number", (int,), 0),
    "state_ttl_s": ("a number of seconds", (int, float), 0),
}
"""Options of `MCPServer` whose values are checked here; the others by what uses them."""

SettingsT = TypeVar("SettingsT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

Lifespan = Callable[["MCPServer[Any]"], AbstractAsyncContextManager[Any]]


class ServerExtension(Protocol):
    """The methods of an extension that a server calls; to write one, subclass `ferrule.extensions.base.Extension`."""

    identifier: ClassVar[str]
    """``reverse.domain/name``."""

    serves_tasks: ClassVar[bool]
    """Whether it runs tools that are registered with ``task=`` as tasks."""

    def attach(self, app: MCPServer[Any], /) -> None:
        """Register the extension's methods and components with ``app``."""
        ...

    def prepare_tool(self, tool: ToolComponent, /) -> None:
        """Prepare a tool for calls; called once for each tool, before its first call."""
        ...

    def mounted_in(self, parent: MCPServer[Any], /) -> None:
        """Called with each server that the server with this extension is mounted in."""
        ...

    def running(self, server: Server[Any], state: Any, /) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that stays entered while the server runs.

        Args:
            server: the low-level server.
            state: the value that the server's lifespan yielded.
        """
        ...


class MCPServer(ComponentRegistry[LifespanT]):
    """An MCP server made of functions.

    Args:
        name: identifies the server to clients.
        version: the server's own version; ``None`` is ``"0"``.
        title, description, website_url, icons: for display; sent to revisions that define them.
        instructions: for the model: how to use this server as a whole.
        lifespan: ``async with lifespan(app) as state`` while the server runs; ``state`` is ``ctx.lifespan``.
        middleware: outermost first; ``async (ctx, call_next) -> result``.
        cache_hints: method → hint for clients (2026-07-28); ``"*"`` for all.
        schema: ``"model"``: the part of JSON Schema that the APIs of models share; ``"exact"``: all of JSON Schema.
        text: how structured results are written for the model: ``"json"``, ``"toon"``, ``"auto"`` (TOON where it is at
            least 10 % shorter), or a function from data to text.
        max_result_bytes: larger tool results become an error result.
        max_threads: maximum number of sync functions that run at the same time; further ones wait.
        page_size: entries on a page of a list; ``None`` for all.
        tool_search: ``True``: list three tools that find, describe and call the others in place of all tools;
            ``"auto"``: where there are more than 60; a number: where there are more than that. All tools can still be
            called by their names.
        mask_errors: hide unexpected exceptions from the peer; ``False`` shows their type and text.
        logging: announce the logging capability (`Context.log`); ``None``: if some function takes a `Context`.
        state_keys: secrets of at least 32 bytes that seal the state between the rounds of a call, newest first; the
            same in every worker. ``None`` makes a key for this process: a call cannot continue in another process.
        state_ttl_s: seconds that a state may wait for its next round.
        single_use_states: each state opens once, in all processes that share the store. A client that sends a round
            again because the answer was lost must then begin the call again.
        store: keeps the data that more than one request needs, and shares it with all processes that use the same
            store: legacy sessions and their events, messages between processes, tasks, ``once`` steps, large states,
            rates. ``"memory:"`` for this process, ``"sqlite:///path"`` for all processes of this machine,
            ``"redis://host"`` or ``"postgresql://host/database"`` for any number of machines, or a `Store`;
            ``None`` for no store.
        max_rounds: maximum number of rounds of one call.
        auth: authorization of HTTP requests: a `ResourceServer`, an issuer's URL, a token verifier, or a
            `ServerProtection` of one's own; ``None`` for no authorization.
        tenant: where the tenant of a request over HTTP is: ``"claim:NAME"`` of the token, ``"host"``, ``"path"`` (its
            first segment), or a function ``(principal, context) -> tenant | None``. Sessions, tasks, handles, private
            cached results and rates of two tenants are separate; ``None`` from the function is 403.
            no authorization.
        extensions: added at once; see `add_extension`.
        on_duplicate: what registering a taken name or URI of a tool, resource, prompt or completer does: ``"error"``
            raises; ``"replace"`` puts the new one in the place of the old one, for notebooks and reloaded modules;
            ``"warn"`` does the same and logs a warning. A component of a mounted server is never replaced.
        fast_path: serve plain tool calls by a shorter path with the same answers. ``False``, or the environment
            variable ``FERRULE_FAST_PATH=0``, serves all calls by the general path.

    Attributes:
        lowlevel: the kernel's server, for functions that this class does not offer.
        tools, resources, prompts, completions: the component sets.
        mounts: the servers mounted in this one.
        parents: the servers in which this one is mounted.
        own_lifespan: the ``lifespan`` argument.
        lifespan_state: the value that the lifespan yielded, while this server is mounted in one that runs.
        protection: the authorization made from ``auth``; ``None`` without ``auth``.
        store: the `Store` made from the ``store`` argument, or that argument itself.
        extensions: the added extensions by identifier.
        declared_settings: the result of `declare_settings`; ``None`` before it.

    Raises:
        ValueError: ``page_size`` is less than 1, or another argument has an impossible value.
        TypeError: ``lifespan`` is not a function that returns an async context manager.
    """

    @explains_arguments("MCPServer")
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
        lifespan: Callable[[MCPServer[LifespanT]], AbstractAsyncContextManager[LifespanT]] | None = None,
        middleware: Iterable[ServerMiddleware[Any]] = (),
        cache_hints: Mapping[str, CacheHint] | None = None,
        schema: SchemaMode = "model",
        text: EncoderName | Encoder = "json",
        max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES,
        max_threads: int = DEFAULT_MAX_THREADS,
        page_size: int | None = None,
        tool_search: ToolSearchMode = False,
        mask_errors: bool = True,
        logging: bool | None = None,
        state_keys: Iterable[StateKey | bytes | str] | None = None,
        state_ttl_s: float = 600,
        single_use_states: bool = False,
        store: str | Store | None = "memory:",
        max_rounds: int = 32,
        inline_state_bytes: int = 64 * 1024,
        auth: ResourceServer | TokenVerifier | ServerProtection | str | None = None,
        tenant: TenantOf | None = None,
        extensions: Iterable[ServerExtension] = (),
        on_duplicate: OnDuplicate = "error",
        fast_path: bool = True,
    ) -> None:
        check_values(locals(), _RULES)
        check_lifespan(lifespan)
        protection = None
        if auth is not None:
            from ferrule.app.authorization.guards import protection_for

            protection = protection_for(auth, tenant)
        elif tenant is not None:
            raise ValueError("tenant= needs auth=: without a principal nothing separates two tenants")
        super().__init__(
            Server(
                Implementation(
                    name,
                    "0" if version is None else version,
                    title=title,
                    description=description,
                    website_url=website_url,
                    icons=None if icons is None else list(icons),
                ),
                instructions=instructions,
                lifespan=lambda _: self._whole_lifespan(lifespan),
                middleware=middleware,
                cache_hints=cache_hints,
                logging=bool(logging),
                protection=protection,
            ),
            max_threads=max_threads,
            page_size=page_size,
            protection=protection,
            tool_defaults=ToolDefaults(schema, encoder_for(text), max_result_bytes, mask_errors),
            on_duplicate=on_duplicate,
        )
        attach_application(self.lowlevel, self)
        if tool_search:
            from ferrule.app.search.tools import ToolSearch

            self.tools.offer_search(ToolSearch(self.tools, self.tools.make, tool_search))
        if fast_path and os.environ.get("FERRULE_FAST_PATH") != "0":
            self.lowlevel.attachments[FastTools] = self.tools  # type: ignore[type-abstract]
        gauges = gauges_of(self.lowlevel)
        gauges.add("fast_calls", self.tools, lambda tools: tools.fast_calls)
        gauges.add("general_calls", self.tools, lambda tools: tools.general_calls)
        if logging is None:
            self.lowlevel.uses_logging = self._uses_context
        if isinstance(cast("object", state_keys), str | bytes):
            raise TypeError("state_keys is a list of secrets, not one")
        opened = open_store(store) if isinstance(store, str) else store
        if opened is not None and not isinstance(cast("object", opened), Store):
            raise TypeError(f"store is a URL such as 'sqlite:///path', a Store or None, not {type(opened).__name__}")
        # A DPoP proof is valid once (RFC 9449, section 11.1): processes that share the store must share that memory.
        if protection is not None and opened is not None and opened.is_shared:
            from ferrule.app.authorization.guards import Protection

            if isinstance(protection, Protection):
                protection.share(opened.marks)
        self.lowlevel.attachments[RoundsSettings] = RoundsSettings(
            state=StateSettings(
                keys=None if state_keys is None else list(state_keys),
                ttl_s=state_ttl_s,
                is_single_use=single_use_states,
                inline_bytes=inline_state_bytes,
            ),
            max_rounds=max_rounds,
            marks=None if opened is None else opened.marks,
            blobs=None if opened is None else opened.blobs,
        )
        self._local: Any = None
        self.mounts: list[Mount] = []
        self.parents: list[MCPServer[Any]] = []
        self.own_lifespan: Lifespan | None = cast("Any", lifespan)
        self.lifespan_state: Any = {}
        self.store: Store | None = opened
        self._owns_store = isinstance(store, str)
        self._running_lifespans = 0
        self.declared_settings: DeclaredSettings[Any] | None = None
        self.extensions: dict[str, ServerExtension] = {}
        for extension in extensions:
            self.add_extension(extension)

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"

    def _whole_lifespan(
        self, lifespan: Callable[[MCPServer[LifespanT]], AbstractAsyncContextManager[LifespanT]] | None
    ) -> AbstractAsyncContextManager[LifespanT]:
        self.check()
        nothing: AbstractAsyncContextManager[Any] = nullcontext(cast("Any", {}))
        own = nothing if lifespan is None else lifespan(self)
        if self.mounts:
            from ferrule.app.components.mounting import nested_lifespans

            own = nested_lifespans(self, own)
        has_channel = self.store is not None and self.store.channel is not None
        return self._with_extensions(own) if self.extensions or has_channel else own

    @asynccontextmanager
    async def _with_extensions(self, own: AbstractAsyncContextManager[LifespanT]) -> AsyncGenerator[LifespanT]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._open_store())
            state = await stack.enter_async_context(own)
            if self.store is not None and self.store.channel is not None:
                from ferrule.kernel.changes.relay import relayed

                await stack.enter_async_context(relayed(self.lowlevel.bus, self.store.channel))
            for extension in self.extensions.values():
                await stack.enter_async_context(extension.running(self.lowlevel, state))
            yield state

    @asynccontextmanager
    async def _open_store(self) -> AsyncGenerator[None]:
        """Close the store when the last lifespan ends, if this server opened it (from a URL)."""
        self._running_lifespans += 1
        try:
            yield
        finally:
            self._running_lifespans -= 1
            store = self.store if self._owns_store and not self._running_lifespans else None
            if store is not None and store.aclose is not nothing_is_open:
                with anyio.CancelScope(shield=True):  # the files close in a cancelled task too
                    await store.aclose()

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an unknown name; it suggests Ferrule's name for a name of another library."""
            from ferrule._elsewhere import ON_SERVER, explanation

            raise AttributeError(explanation("MCPServer", name, ON_SERVER), name=name, obj=self)

    @property
    def name(self) -> str:
        """The name of the server, as given."""
        return self.lowlevel.server_info.name

    @property
    def version(self) -> str:
        """The version of the server, as given; ``"0"`` by default."""
        return self.lowlevel.server_info.version

    # -- at run time -----------------------------------------------------------------------------------------------

    def mount(self, other: MCPServer[Any], *, prefix: str | None = None) -> None:
        """Serve another server's components as this one's, now and as they change.

        `ferrule.app.components.mounting` describes the rules for names, middleware and lifespans.

        Args:
            other: the server to mount. Its options, lifespan and middleware still apply to its own components.
            prefix: tools and prompts become ``prefix_name``, ``data://x`` becomes ``data://prefix/x``.

        Raises:
            RegistrationError: a name is taken, the prefix is malformed, this server is mounted in ``other``, or
                ``other`` has ``auth=`` and this server has none: mounting never removes protection. If both have
                ``auth=``, this server's applies.
        """
        from ferrule.app.components.mounting import Mount

        self.mounts.append(Mount(self, other, prefix))
        other.parents.append(self)
        for extension in other.extensions.values():
            extension.mounted_in(self)

    def add_extension(self, extension: ServerExtension) -> None:
        """Add an extension; it applies to all tools, also to those registered before.

        Raises:
            ValueError: the extension was added before, or another extension serves the same methods.
        """
        extension.attach(self)
        self.extensions[extension.identifier] = extension
        for tool in self.tools.index:
            extension.prepare_tool(tool)
        for parent in self.parents:
            extension.mounted_in(parent)

    # -- skills ----------------------------------------------------------------------------------------------------

    def add_skills(
        self,
        folder: str | os.PathLike[str],
        *,
        prefix: str = "",
        listed: bool = True,
        **options: Unpack[SkillKeywords],
    ) -> None:
        """Serve the agent skills of a folder: each folder in it with a ``SKILL.md``, or the folder itself.

        Their files are resources, ``skill://<path>/SKILL.md`` and so on, and follow the folder while the server runs.
        Adds the extension `ferrule.extensions.skills.Skills`, whose options change the bounds.

        Args:
            folder: the folder.
            prefix: segments before the paths of the skills, such as ``"acme/billing"``.
            listed: ``False``: neither in ``skills/list`` nor in ``resources/list``; a client that knows the URI of a
                skill can get and read it.
            tags, scopes, allow, ttl_ms, cache_scope: options of each file, as for `resource`. A skill that ``allow``
                hides is in no list.

        Raises:
            RegistrationError: something in the folder cannot be served, or a URI is taken.
            ImportError: PyYAML is not installed (``ferrule[skills]``).
        """
        from ferrule.app.components.keywords import SkillKeywords

        check_options("add_skills()", options, SkillKeywords)
        self._skills().add_folder(folder, prefix=prefix, listed=listed, **options)

    @overload
    def skill(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def skill(
        self,
        name: str | None = None,
        /,
        *,
        description: str | None = None,
        prefix: str = "",
        listed: bool = True,
        frontmatter: Mapping[str, Any] | None = None,
        **options: Unpack[SkillKeywords],
    ) -> Callable[[FunctionT], FunctionT]: ...

    def skill(
        self,
        name: Any = None,
        /,
        *,
        description: str | None = None,
        prefix: str = "",
        listed: bool = True,
        frontmatter: Mapping[str, Any] | None = None,
        **options: Unpack[SkillKeywords],
    ) -> Any:
        """Serve a skill whose instructions a function returns at each read: ``@app.skill``, ``@app.skill("daily")``.

        Clients cannot verify what is made at each read, and some refuse such skills. The function returns the text
        after the frontmatter; it may take a `Context` and dependencies, as a resource.

        Args:
            name: the function's own, with hyphens, if not given.
            description: the first paragraph of the docstring if not given.
            frontmatter: further fields, JSON-shaped.
            prefix, listed, tags, scopes, allow, ttl_ms, cache_scope: as for `add_skills`.

        Returns:
            The function, or a decorator for it.

        Raises:
            RegistrationError: the name or the description cannot be used, or the URI is taken.
            ImportError: PyYAML is not installed (``ferrule[skills]``).
        """
        from ferrule.app.components.keywords import SkillKeywords

        check_options("A skill", options, SkillKeywords)
        if callable(name):
            return self.skill()(name)

        def register(function: FunctionT) -> FunctionT:
            self._skills().add_function(
                function,
                name=name,
                description=description,
                prefix=prefix,
                listed=listed,
                frontmatter=frontmatter,
                **options,
            )
            return function

        return register

    def _skills(self) -> Any:
        kind = _import_attribute(_SKILLS)
        if kind.identifier not in self.extensions:
            self.add_extension(kind())
        return self.extensions[kind.identifier]

    # -- changes ---------------------------------------------------------------------------------------------------

    def _added_tool(self, tool: ToolComponent) -> None:
        if tool.task != "forbidden" and not any(extension.serves_tasks for extension in self.extensions.values()):
            self.add_extension(_import_attribute(_TASKS)())
        for extension in self.extensions.values():
            extension.prepare_tool(tool)
        self.tools.index.touch()

    def notify_resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to ``uri`` that its contents changed.

        Call it in the event loop's thread.
        """
        self.lowlevel.bus.publish(Event.resource_updated(uri))

    @classmethod
    def from_openapi(cls, source: Any, /, *, base_url: str, **options: Any) -> MCPServer[Any]:
        """Return a server whose tools are operations of an API with an OpenAPI description.

        Example: ``MCPServer.from_openapi("openapi.json", base_url="https://api.example.com", include="tag:users")``.

        Args:
            source: the document, its path or its URL.
            base_url: the base URL of the API.
            options: the options of `ferrule.expose.from_openapi`, such as ``include`` for the operations and ``auth``
                for credentials.

        Raises:
            NotADescription: the document cannot be read.
            NothingMatches: a pattern matches no operation.
            TypeError: ``include`` is missing, or an option does not exist.
        """
        made: MCPServer[Any] = _import_attribute(_FROM_OPENAPI)(source, base_url=base_url, **options)
        return made

    def declare_settings(
        self, cls: type[SettingsT], *, prefix: str = "", environ: Mapping[str, str] | None = None
    ) -> DeclaredSettings[SettingsT]:
        """Declare the settings of this server, which are read from environment variables when it starts.

        A start with missing or wrong ones fails with a list of all of them. `ferrule.Setting` describes a field.

        Args:
            cls: the class of the settings: a dataclass, a ``msgspec.Struct``, an attrs class or a pydantic model.
            prefix: stands before the name of each variable, such as ``"WEATHER_"``.
            environ: the variables; ``None`` for those of the process.

        Returns:
            The declaration; its ``value`` is an instance of ``cls``.

        Raises:
            RegistrationError: the server has settings already.
            TypeError: ``cls`` is no class with fields, or a field has a type that cannot be written as text.
            ValueError: a name cannot be one of a variable, or two settings have the same.
        """
        from ferrule.app.errors import RegistrationError
        from ferrule.app.settings import DeclaredSettings

        if self.declared_settings is not None:
            raise RegistrationError(f"{self.name!r} has settings already; declare them in one class")
        self.declared_settings = made = DeclaredSettings(self.name, cls, prefix=prefix, environ=environ)
        return made

    def card(self, **options: Unpack[CardOptions]) -> None:
        """Publish a server card: who this server is and how to reach it, for clients that have not connected yet.

        Each HTTP endpoint made from now on serves it at ``<endpoint>/server-card``, and at
        ``/.well-known/ai-catalog.json`` the catalog of the site, to anyone. What the server announces (version, title,
        description, website, icons, protocol versions) is taken from it.

        Args:
            options: see `CardOptions`: ``name``, ``url``, ``repository`` …

        Raises:
            ValueError: ``name`` or ``url`` is malformed, or ``name`` ends in another name than the server's.
            TypeError: there is no such option.
        """
        from ferrule.app.serving.card import publish_card

        publish_card(self.lowlevel, options)

    # -- in process ------------------------------------------------------------------------------------------------

    def started(self) -> AbstractAsyncContextManager[LifespanT]:
        """Return a context manager that enters the lifespan once for several in-process calls.

        Without it each call enters and leaves the lifespan.
        """
        return cast("AbstractAsyncContextManager[LifespanT]", self._caller().started())

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Call a tool from this program, through middleware, without a transport.

        Args:
            name: the tool's name.
            arguments: by parameter name.
            on_progress: called with each progress notification of the call.

        Returns:
            The result, also one with ``is_error``.

        Raises:
            InvalidParams: there is no enabled tool of that name.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return cast("ToolResult", await self._caller().request("tools/call", params, on_progress))

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Return the contents of a resource, read from this program without a transport.

        Raises:
            ResourceNotFound: no enabled resource or template has this URI.
        """
        return cast("ReadResourceResult", await self._caller().request("resources/read", {"uri": uri}))

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Return the messages of a prompt, requested from this program without a transport.

        Raises:
            InvalidParams: there is no enabled prompt of that name, or its arguments do not fit.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return cast("GetPromptResult", await self._caller().request("prompts/get", params))

    def list_tools(self) -> list[Tool]:
        """Return the definitions of the enabled tools, in the form of the latest revision."""
        self.tools.index.refresh()
        return [tool.definition() for tool in self.tools.index.live.values()]

    def list_resources(self) -> list[Resource]:
        """Return the definitions of the enabled resources."""
        self.resources.fixed.refresh()
        return [component.resource() for component in self.resources.fixed.live.values()]

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return the definitions of the enabled resource templates."""
        self.resources.templates.refresh()
        return [component.resource_template() for component in self.resources.templates.live.values()]

    def list_prompts(self) -> list[Prompt]:
        """Return the definitions of the enabled prompts."""
        self.prompts.index.refresh()
        return [component.definition() for component in self.prompts.index.live.values()]

    def _caller(self) -> Any:
        if self._local is None:
            from ferrule.app.serving.in_process import LocalCaller

            self._local = LocalCaller(self.lowlevel)
        return self._local

    def _uses_context(self) -> bool:
        """Return whether some function may send log messages: if it or a dependency of it takes a `Context`."""
        indexes: tuple[Iterable[Any], ...] = (
            self.tools.index,
            self.resources.fixed,
            self.resources.templates,
            self.prompts.index,
        )
        return any(takes_context(component.spec) for index in indexes for component in index)

    def check(self) -> None:
        """Check the settings, the store, and the signatures with names that were undefined at their registration.

        Every start calls this first.

        Raises:
            SettingsError: settings are missing or wrong.
            SignatureError: a name is still undefined, or its type has no JSON form.
            StoreUrlError: the store cannot be used at its URL.
        """
        if self.declared_settings is not None:
            _ = self.declared_settings.value
        if self.store is not None:
            self.store.check()
        self.lowlevel.attachments[RoundsSettings].warn_of_missing_cipher()
        for component in (*self.resources.fixed, *self.resources.templates, *self.prompts.index):
            if component.spec.is_pending:
                component.spec.finish()
        unchecked = self.tools.unchecked
        while unchecked:  # removed one by one: after an error, the next check starts with the tool that failed
            if self.tools.index.get(unchecked[-1].name) is unchecked[-1]:
                unchecked[-1].check()
            unchecked.pop()
        for mount in self.mounts:
            mount.server.check()

    # -- transports ------------------------------------------------------------------------------------------------

    def asgi(self, **options: Unpack[AsgiOptions]) -> HttpEndpoint:
        """Return an ASGI application that serves both eras of the protocol on one URL.

        Args:
            options: see `HttpOptions`: ``path``, ``allowed_hosts``, ``allowed_origins`` …

        Raises:
            TypeError: there is no such option.
        """
        from ferrule.app.serving.http import make_endpoint
        from ferrule.transports.hosting.options import AsgiOptions

        check_options("asgi()", options, AsgiOptions)

        return make_endpoint(self, cast("dict[str, Any]", options))

    def wsgi(self, **options: Unpack[AsgiOptions]) -> WSGIEndpoint:
        """Return this server as a WSGI callable, for Flask, Django and other hosts without an event loop.

        Both eras, JSON answers, no sessions; see `ferrule.transports.wsgi.endpoint`.

        Args:
            options: as for `asgi`; ``path`` is ``"/"`` below the place where the host mounts it.
        """
        from ferrule.app.serving.http import make_endpoint
        from ferrule.transports.hosting.options import AsgiOptions
        from ferrule.transports.wsgi.endpoint import WSGIEndpoint

        check_options("wsgi()", options, AsgiOptions)
        given: dict[str, Any] = {"path": "/", **options, "stateless": True, "response_mode": "json"}
        return WSGIEndpoint(make_endpoint(self, given))

    def run(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        workers: int = 1,
        **options: Unpack[RunOptions],
    ) -> None:
        """Serve until the input ends (stdio) or a signal comes.

        Args:
            transport: ``"stdio"`` or ``"http"``.
            host, port: the address for HTTP; port 0 selects a free one.
            workers: number of processes that serve HTTP on the same port. Each imports this server again by its file
                and name: it must be a variable of a module, and this call must be under
                ``if __name__ == "__main__":``. Workers share sessions, changes and tasks through ``store``.
            options: the options of `run_stdio`; or those of `HttpOptions` and `run_http`.

        Raises:
            OSError: the address cannot be bound.
            TypeError: this transport has no such option.
            ValueError: there is no such transport.
            SignatureError: an annotation still names something that is not defined.
            StoreUrlError: the store cannot be used at its URL.
        """
        self.check()
        given = cast("dict[str, Any]", options)
        from ferrule.transports.hosting.by_name import transport_named

        found = transport_named(transport)
        found.check("run", given, "workers")
        if workers > 1 and found.has_workers:
            from ferrule.app.serving.http import serve_workers

            serve_workers(self, host, port, workers, given)
        else:
            found.run(self.lowlevel, self.asgi, host, port, given)

    async def run_async(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: Unpack[RunOptions],
    ) -> None:
        """Serve inside a running event loop (a notebook, an async program), until the call is cancelled.

        It serves in this process and installs no signal handlers. Over HTTP the loop is asyncio's or uvloop's.

        Args:
            transport, host, port, options: see `run`.

        Raises:
            OSError: the address cannot be bound.
            TypeError: this transport has no such option.
            ValueError: there is no such transport.
            SignatureError: an annotation still names something that is not defined.
            StoreUrlError: the store cannot be used at its URL.
        """
        self.check()
        given = cast("dict[str, Any]", options)
        from ferrule.transports.hosting.by_name import transport_named

        found = transport_named(transport)
        found.check("run_async", given)
        await found.serve(self.lowlevel, self.asgi, host, port, given)

    def serve_worker(self, sockets: list[Any], payload: dict[str, Any], on_started: Callable[..., None]) -> None:
        """Serve on inherited sockets; called in each worker process of `run`.

        Args:
            sockets: the listening sockets.
            payload: host, port and options, as `ferrule.app.serving.workers` sent them.
            on_started: called when the worker accepts connections.
        """
        from ferrule.app.serving.http import serve_http
        from ferrule.app.serving.workers import take_payload

        host, port, options = take_payload(self, payload)
        self.check()
        serve_http(self, host, port, {**options, "sockets": sockets, "on_started": on_started})


def _import_attribute(name: str) -> Any:
    """Return the attribute that ``"module:attribute"`` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
