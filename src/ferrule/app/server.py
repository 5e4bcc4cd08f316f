"""`MCPServer`: functions become an MCP server.

Registering is `ComponentRegistry`'s, which this class is; here is what a server has beyond its components: identity,
lifespans, mounts, extensions, calls in process. It is served by the kernel's `Server`, which is `MCPServer.lowlevel`.

Nothing here speaks a transport: `run` and `asgi` hand the low-level server to one, by way of
`ferrule.app.serving.http`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Unpack, cast

import anyio

from ferrule._options import check_options, explains_arguments
from ferrule.app.application import attach_application
from ferrule.app.components.options import ToolDefaults
from ferrule.app.components.registry import ComponentRegistry
from ferrule.app.components.tools import ToolComponent
from ferrule.app.execution.dependencies import takes_context
from ferrule.app.execution.threads import DEFAULT_MAX_THREADS
from ferrule.app.results.encoders import encoder_for
from ferrule.app.results.result_plan import DEFAULT_MAX_RESULT_BYTES
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.app.signatures.function import SchemaMode
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import LifespanT, Server, check_lifespan
from ferrule.stores.store import open_store
from ferrule.wire.types import Implementation

if TYPE_CHECKING:
    from ferrule.app.components.mounting import Mount
    from ferrule.app.results.encoders import Encoder, EncoderName
    from ferrule.app.rounds.sealing import StateKey
    from ferrule.auth.server.resource_server import ResourceServer
    from ferrule.auth.server.verifiers import TokenVerifier
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.kernel.server import ServerMiddleware
    from ferrule.protocol.caching import CacheHint
    from ferrule.stores.store import Store
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.hosting.options import AsgiOptions, RunOptions
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


# Named and not imported: extensions stand above this layer, and most servers use none.
_TASKS = "ferrule.extensions.tasks:Tasks"

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


class MCPServer(ComponentRegistry[LifespanT]):
    """An MCP server made of functions.

    Args:
        name: identifies the server to clients.
        version: of the server, as its author counts; ``None`` is ``"0"``.
        title, description, website_url, icons: for display; sent to revisions that know them.
        instructions: for the model: how to use this server as a whole.
        lifespan: ``async with lifespan(app) as state`` around the server's life; ``state`` is ``ctx.lifespan``.
        middleware: outermost first; ``async (ctx, call_next) -> result``.
        cache_hints: method → hint for clients (2026-07-28); ``"*"`` for all.
        schema: ``"model"``: what the APIs of models share; ``"exact"``: all that JSON Schema can say.
        text: how structured results are written for the model: ``"json"``, ``"toon"``, ``"auto"`` (TOON where it is at
            least 10 % shorter), or a function from data to text.
        max_result_bytes: larger tool results become an error result.
        max_threads: sync functions that run at the same time; more wait their turn.
        page_size: entries on a page of a list; ``None`` for all.
        mask_errors: tell the peer nothing of an unexpected exception; ``False`` shows its type and text.
        logging: announce that log messages may come (`Context.log`); ``None``: if some function takes a `Context`.
        state_keys: secrets of at least 32 bytes that seal the state between the rounds of a call, newest first; the
            same in every worker. ``None`` makes one for this process: calls do not outlive it.
        state_ttl_s: seconds that a state may wait for its next round.
        single_use_states: each state opens once, in all processes that share the store. A client that sends a round
            again because the answer was lost must then begin the call again.
        store: where that is kept which outlives one request, and shared with whoever has the same store: legacy
            sessions and their events, messages between processes, tasks, ``once`` steps, large states, rates.
            ``"memory:"`` for this process, ``"sqlite:///path"`` for all processes of this machine, ``"redis://host"``
            for any number of machines, a `Store`; ``None`` for nowhere.
        max_rounds: rounds that one call may take.
        inline_state_bytes: a larger state is kept in the store.
        auth: who may send HTTP requests: a `ResourceServer`, an issuer's URL, or what judges tokens; ``None`` for all.
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
        mask_errors: bool = True,
        logging: bool | None = None,
        state_keys: Iterable[StateKey | bytes | str] | None = None,
        state_ttl_s: float = 600,
        single_use_states: bool = False,
        store: str | Store | None = "memory:",
        max_rounds: int = 32,
        inline_state_bytes: int = 64 * 1024,
        auth: ResourceServer | TokenVerifier | str | None = None,
        extensions: Iterable[ServerExtension] = (),
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError("page_size is at least 1")
        check_lifespan(lifespan)
        protection = None
        if auth is not None:
            from ferrule.app.authorization.guards import Protection, read_auth

            protection = Protection(read_auth(auth))
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
                lifespan=lambda _: self._life(lifespan),
                middleware=middleware,
                cache_hints=cache_hints,
                logging=bool(logging),
                protection=protection,
            ),
            max_threads=max_threads,
            page_size=page_size,
            protection=protection,
            tool_defaults=ToolDefaults(schema, encoder_for(text), max_result_bytes, mask_errors),
        )
        attach_application(self.lowlevel, self)
        if logging is None:
            self.lowlevel.uses_logging = self._uses_context
        opened = open_store(store) if isinstance(store, str) else store
        if protection is not None and opened is not None and opened.is_shared:
            protection.resource_server.dpop.share(opened.marks)
        self.lowlevel.attachments[RoundsSettings] = RoundsSettings(
            state_keys=state_keys,
            state_ttl_s=state_ttl_s,
            single_use_states=single_use_states,
            max_rounds=max_rounds,
            inline_state_bytes=inline_state_bytes,
            marks=None if opened is None else opened.marks,
            blobs=None if opened is None else opened.blobs,
        )
        self._local: Any = None
        self.mounts: list[Mount] = []
        self.own_lifespan: Lifespan | None = cast("Any", lifespan)
        self.lifespan_state: Any = {}
        self.store: Store | None = opened
        self._owns_store = isinstance(store, str)
        self._lives = 0
        self.extensions: dict[str, ServerExtension] = {}
        for extension in extensions:
            self.add_extension(extension)

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"

    def _life(
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
        """Close the store after the last of those who are inside, unless somebody else made it."""
        self._lives += 1
        try:
            yield
        finally:
            self._lives -= 1
            if self._owns_store and self.store is not None and not self._lives:
                with anyio.CancelScope(shield=True):
                    await self.store.aclose()

    @property
    def name(self) -> str:
        """As given."""
        return self.lowlevel.server_info.name

    @property
    def version(self) -> str:
        """As given."""
        return self.lowlevel.server_info.version

    # -- at run time -----------------------------------------------------------------------------------------------

    def mount(self, other: MCPServer[Any], *, prefix: str | None = None) -> None:
        """Serve another server's components as this one's, now and as they change.

        What becomes of names, middleware and lifespans is said in `ferrule.app.components.mounting`.

        Args:
            other: keeps its functions, options, lifespan and middleware, which run for what is its own.
            prefix: tools and prompts become ``prefix_name``, ``data://x`` becomes ``data://prefix/x``.

        Raises:
            RegistrationError: a name is taken, the prefix is malformed, ``other`` holds this server, or ``other`` has
                ``auth=`` and this one has none: what is protected stays so. With both, this server's decides.
        """
        from ferrule.app.components.mounting import Mount

        self.mounts.append(Mount(self, other, prefix))

    def add_extension(self, extension: ServerExtension) -> None:
        """Turn an extension on, for all tools, those registered before it too.

        Raises:
            ValueError: it is on already, or another one serves the same methods.
        """
        extension.attach(self)
        self.extensions[extension.identifier] = extension
        for tool in self.tools.index:
            extension.prepare_tool(tool)

    def _added_tool(self, tool: ToolComponent) -> None:
        if tool.task != "forbidden" and not any(extension.serves_tasks for extension in self.extensions.values()):
            self.add_extension(_named(_TASKS)())
        for extension in self.extensions.values():
            extension.prepare_tool(tool)
        self.tools.index.touch()

    def notify_resource_updated(self, uri: str) -> None:
        """Tell every client that subscribed to ``uri`` that its contents changed; from the event loop's thread."""
        self.lowlevel.bus.publish(Event.resource_updated(uri))

    # -- in process ------------------------------------------------------------------------------------------------

    def started(self) -> AbstractAsyncContextManager[LifespanT]:
        """``async with app.started():`` enters the lifespan once around several in-process calls."""
        return cast("AbstractAsyncContextManager[LifespanT]", self._caller().started())

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
            from ferrule.app.serving.in_process import LocalCaller

            self._local = LocalCaller(self.lowlevel)
        return self._local

    def _uses_context(self) -> bool:
        """Whether some function may log: only through a `Context`, its own or that of a dependency."""
        indexes: tuple[Iterable[Any], ...] = (
            self.tools.index,
            self.resources.fixed,
            self.resources.templates,
            self.prompts.index,
        )
        return any(takes_context(component.spec) for index in indexes for component in index)

    def check(self) -> None:
        """Resolve every signature that named something undefined when it was registered; every start does this first.

        Raises:
            SignatureError: a name is still undefined, or has no JSON form.
            StoreUrlError: the store could never be used where it is said to be.
        """
        if self.store is not None:
            self.store.check()
        for component in (*self.resources.fixed, *self.resources.templates, *self.prompts.index):
            if component.spec.is_pending:
                component.spec.finish()
        unchecked = self.tools.unchecked
        while unchecked:
            if self.tools.index.get(unchecked[-1].name) is unchecked[-1]:
                unchecked[-1].check()
            unchecked.pop()
        for mount in self.mounts:
            mount.server.check()

    # -- transports ------------------------------------------------------------------------------------------------

    def asgi(self, **options: Unpack[AsgiOptions]) -> HttpEndpoint:
        """This server as an ASGI callable, both eras on one URL.

        Args:
            options: see `HttpOptions`: ``path``, ``allowed_hosts``, ``allowed_origins`` …
        """
        from ferrule.app.serving.http import make_endpoint
        from ferrule.transports.hosting.options import AsgiOptions

        check_options("asgi()", options, AsgiOptions)

        return make_endpoint(self, cast("dict[str, Any]", options))

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
            host, port: for HTTP; port 0 takes a free one.
            workers: processes that serve HTTP on the one port. They import this server anew by its file and name, so
                it is a variable of a module, and this call stands under ``if __name__ == "__main__":``. What they
                must share (sessions, changes, tasks) they share through ``store``.
            options: of `run_stdio`; or of `HttpOptions` and `run_http`.

        Raises:
            OSError: the address cannot be bound.
            TypeError: an option that this transport does not have.
            SignatureError: an annotation still names something that is not defined.
            StoreUrlError: the store could never be used where it is said to be.
        """
        self.check()
        from ferrule.transports.hosting.options import HttpRunOptions, StdioOptions

        given = cast("dict[str, Any]", options)
        if transport == "stdio":
            from ferrule.transports.stdio.server import run_stdio

            check_options('run("stdio")', given, StdioOptions)
            run_stdio(self.lowlevel, **given)
        elif transport == "http":
            from ferrule.app.serving.http import serve_http, serve_workers

            check_options('run("http")', given, HttpRunOptions, "host", "port", "workers")
            if workers > 1:
                serve_workers(self, host, port, workers, given)
            else:
                serve_http(self, host, port, given)
        else:
            raise ValueError(f"transport={transport!r}: expected 'stdio' or 'http'")

    async def run_async(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: Unpack[RunOptions],
    ) -> None:
        """As `run` inside a running event loop (a notebook, an async program), until it is cancelled.

        One process; signals are left to the program around it. Over HTTP the loop is asyncio's or uvloop's.

        Args:
            transport, host, port, options: as for `run`.

        Raises:
            OSError: the address cannot be bound.
            TypeError: an option that this transport does not have.
        """
        self.check()
        from ferrule.transports.hosting.options import HttpRunOptions, StdioOptions

        given = cast("dict[str, Any]", options)
        if transport == "stdio":
            from ferrule.transports.stdio.server import serve_stdio

            check_options('run_async("stdio")', given, StdioOptions)
            await serve_stdio(self.lowlevel, **given)
        elif transport == "http":
            from ferrule.transports.hosting.running import serve_endpoint

            check_options('run_async("http")', given, HttpRunOptions, "host", "port")
            await serve_endpoint(self.asgi, host, port, given)
        else:
            raise ValueError(f"transport={transport!r}: expected 'stdio' or 'http'")

    def serve_worker(self, sockets: list[Any], payload: dict[str, Any], on_started: Callable[..., None]) -> None:
        """Serve on inherited sockets: what a worker process calls; see `run`."""
        from ferrule.app.serving.http import serve_http
        from ferrule.app.serving.workers import take_payload

        host, port, options = take_payload(self, payload)
        self.check()
        serve_http(self, host, port, {**options, "sockets": sockets, "on_started": on_started})


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
