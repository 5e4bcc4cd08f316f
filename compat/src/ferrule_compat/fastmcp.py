"""The old SDK's ``FastMCP``: functions as tools, resources and prompts, over `ferrule_compat.lowlevel.Server`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from ferrule_compat.components import Prompt, PromptManager, ToolManager
from ferrule_compat.content import Audio, Image
from ferrule_compat.context import Context
from ferrule_compat.exceptions import ResourceError
from ferrule_compat.lowlevel import Server
from ferrule_compat.lowlevel import lifespan as no_lifespan
from ferrule_compat.models import Model
from ferrule_compat.resources import FunctionResource, ResourceManager
from ferrule_compat.session import request_ctx
from ferrule_compat.transports import SseServerTransport, StreamableHTTPSessionManager, TransportSecuritySettings
from ferrule_compat.wire_types import ReadResourceContents, find

__all__ = ["Audio", "Context", "FastMCP", "Image", "Settings"]

logger = logging.getLogger(__name__)

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TRANSPORTS = ("stdio", "sse", "streamable-http")


class Settings(Model):
    """The settings of a `FastMCP`, which a server may change before it runs."""

    debug: bool = False
    log_level: str = "INFO"
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = "/"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    max_request_body_size: int = 4 * 1024 * 1024
    session_idle_timeout: float | None = 1800.0
    max_sessions: int | None = None
    warn_on_duplicate_resources: bool = True
    warn_on_duplicate_tools: bool = True
    warn_on_duplicate_prompts: bool = True
    dependencies: ClassVar[list[str]] = []
    lifespan: Any = None
    auth: Any = None
    transport_security: Any = None


class FastMCP:
    """A server made of functions.

    Args:
        name: identifies the server.
        instructions: for the model.
        tools: made before.
        settings: see `Settings`; an unknown one is kept and has no effect.
    """

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[Any] | None = None,
        auth_server_provider: Any = None,
        token_verifier: Any = None,
        event_store: Any = None,
        retry_interval: int | None = None,
        *,
        tools: list[Any] | None = None,
        **settings: Any,
    ) -> None:
        if settings.get("auth") or auth_server_provider or token_verifier:
            raise NotImplementedError(
                "ferrule-compat serves no authorization of the old SDK (auth=, token_verifier=): see ferrule's "
                "MCPServer(auth=…)"
            )
        # Of releases before 1.10: the version of the server.
        version = settings.pop("version", None)
        self.settings = Settings(**settings)
        if self.settings.transport_security is None and self.settings.host in _LOOPBACK:
            self.settings.transport_security = TransportSecuritySettings(
                allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
                allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
            )
        self._mcp_server = Server(
            name or "FastMCP",
            version=version,
            instructions=instructions,
            website_url=website_url,
            icons=icons,
            lifespan=no_lifespan if self.settings.lifespan is None else lambda _: self.settings.lifespan(self),
        )
        self._tool_manager = ToolManager(self.settings.warn_on_duplicate_tools, tools=tools)
        self._resource_manager = ResourceManager(self.settings.warn_on_duplicate_resources)
        self._prompt_manager = PromptManager(self.settings.warn_on_duplicate_prompts)
        self._custom_starlette_routes: list[Any] = []
        self._session_manager: StreamableHTTPSessionManager | None = None
        self.dependencies = self.settings.dependencies
        server = self._mcp_server
        server.list_tools()(self.list_tools)
        server.call_tool(validate_input=False)(self.call_tool)
        server.list_resources()(self.list_resources)
        server.list_resource_templates()(self.list_resource_templates)
        server.read_resource()(self.read_resource)
        server.list_prompts()(self.list_prompts)
        server.get_prompt()(self.get_prompt)
        # On stderr, as everything that is no message.
        logging.basicConfig(level=self.settings.log_level, format="%(message)s")

    def __class_getitem__(cls, _: Any) -> type[FastMCP]:
        return cls

    @property
    def name(self) -> str:
        """The server's name."""
        return self._mcp_server.name

    @property
    def instructions(self) -> str | None:
        """What the model gets to know about the server."""
        return self._mcp_server.instructions

    @property
    def website_url(self) -> str | None:
        """The server's page."""
        return self._mcp_server.website_url

    @property
    def icons(self) -> Any:
        """The server's icons."""
        return self._mcp_server.icons

    def get_context(self) -> Context:
        """Return the context of the request that is being served; outside of one most of its methods raise."""
        return Context(request_context=request_ctx.get(None), fastmcp=self)

    # -- tools --------------------------------------------------------------------------------------------------------

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, *more: Any, **options: Any) -> None:
        """Register a function as a tool: ``title``, ``description``, ``annotations``, ``icons``, ``meta`` …"""
        self._tool_manager.add_tool(fn, name, *more, **options)

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ToolError: there is no such tool.
        """
        self._tool_manager.remove_tool(name)

    def tool(self, name: str | None = None, *more: Any, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a tool; for the options see `add_tool`."""
        _refuse_function(name, "tool")

        def decorator(function: Any) -> Any:
            self.add_tool(function, name, *more, **options)
            return function

        return decorator

    async def list_tools(self) -> list[Any]:
        """Return the definitions of the tools."""
        return [tool.definition() for tool in self._tool_manager.list_tools()]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the content of a tool's result, with its structured data if it has any."""
        return await self._tool_manager.call_tool(name, arguments, context=self.get_context(), convert_result=True)

    # -- resources ----------------------------------------------------------------------------------------------------

    def add_resource(self, resource: Any) -> None:
        """Register a resource, such as a ``TextResource``."""
        self._resource_manager.add_resource(resource)

    def resource(self, uri: str, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a resource, or with ``{name}`` in the URI as a template."""
        _refuse_function(uri, "resource")

        def decorator(function: Any) -> Any:
            parameters = inspect.signature(function).parameters
            if ("{" in uri and "}" in uri) or parameters:
                self._resource_manager.add_template(function, uri, **options)
            else:
                self.add_resource(FunctionResource.from_function(function, uri, **options))
            return function

        return decorator

    async def list_resources(self) -> list[Any]:
        """Return the definitions of the resources."""
        return [resource.definition() for resource in self._resource_manager.list_resources()]

    async def list_resource_templates(self) -> list[Any]:
        """Return the definitions of the resource templates."""
        return [template.definition() for template in self._resource_manager.list_templates()]

    async def read_resource(self, uri: Any) -> list[ReadResourceContents]:
        """Return the contents of a resource.

        Raises:
            ResourceError: it cannot be read.
        """
        resource = await self._resource_manager.get_resource(uri, context=self.get_context())
        try:
            return [ReadResourceContents(await resource.read(), resource.mime_type, resource.meta)]
        except Exception as error:
            logger.exception("Error reading resource %s", uri)
            raise ResourceError(str(error)) from error

    # -- prompts ------------------------------------------------------------------------------------------------------

    def add_prompt(self, prompt: Prompt) -> None:
        """Register a prompt."""
        self._prompt_manager.add_prompt(prompt)

    def prompt(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Any] | None = None,
    ) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a prompt."""
        _refuse_function(name, "prompt")

        def decorator(function: Any) -> Any:
            self.add_prompt(Prompt.from_function(function, name, title, description, icons))
            return function

        return decorator

    async def list_prompts(self) -> list[Any]:
        """Return the definitions of the prompts."""
        return [prompt.definition() for prompt in self._prompt_manager.list_prompts()]

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return the messages of a prompt.

        Raises:
            ValueError: there is no such prompt, or its function failed.
        """
        try:
            prompt = self._prompt_manager.get_prompt(name)
            if prompt is None:
                raise ValueError(f"Unknown prompt: {name}")
            messages = await prompt.render(arguments, context=self.get_context())
        except Exception as error:
            logger.exception("Error getting prompt %s", name)
            raise ValueError(str(error)) from error
        made = [find("PromptMessage")(role=each.role, content=each.content) for each in messages]
        return find("GetPromptResult")(description=prompt.description, messages=made)

    def completion(self) -> Callable[[Any], Any]:
        """Return a decorator for ``async (ref, argument, context)``, which completes arguments."""
        return self._mcp_server.completion()

    # -- serving ------------------------------------------------------------------------------------------------------

    def run(self, transport: str = "stdio", mount_path: str | None = None) -> None:
        """Serve until the input ends or a signal comes.

        Args:
            transport: ``"stdio"``, ``"sse"`` or ``"streamable-http"``.
            mount_path: where the application is mounted, for ``"sse"``.

        Raises:
            ValueError: there is no such transport.
        """
        if transport not in _TRANSPORTS:
            raise ValueError(f"Unknown transport: {transport}")
        if transport == "stdio":
            self._mcp_server.application().run("stdio")
            return
        from ferrule.transports.hosting.uvicorn_server import run_http

        app = self.sse_app(mount_path) if transport == "sse" else self.streamable_http_app()
        run_http(app, host=self.settings.host, port=self.settings.port, log_level=self.settings.log_level.lower())

    async def run_stdio_async(self) -> None:
        """Serve over stdio in the running event loop."""
        await self._mcp_server.application().run_async("stdio")

    async def run_sse_async(self, mount_path: str | None = None) -> None:
        """Serve the transport of 2024-11-05 in the running event loop."""
        await self._serve(self.sse_app(mount_path))

    async def run_streamable_http_async(self) -> None:
        """Serve Streamable HTTP in the running event loop."""
        await self._serve(self.streamable_http_app())

    async def _serve(self, app: Any) -> None:
        from ferrule.transports.hosting.uvicorn_server import serve_http

        await serve_http(app, host=self.settings.host, port=self.settings.port)

    def _starlette(self, routes: list[Any], lifespan: Any = None) -> Any:
        from starlette.applications import Starlette

        return Starlette(debug=self.settings.debug, routes=[*routes, *self._custom_starlette_routes], lifespan=lifespan)

    def sse_app(self, mount_path: str | None = None) -> Any:
        """Return a Starlette application with the transport of 2024-11-05."""
        from starlette.responses import Response
        from starlette.routing import Mount, Route

        prefix = (mount_path or self.settings.mount_path).rstrip("/")
        transport = SseServerTransport(
            prefix + self.settings.message_path,
            security_settings=self.settings.transport_security,
            max_request_body_size=self.settings.max_request_body_size,
        )

        async def stream(request: Any) -> Any:
            async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
                await self._mcp_server.run(*streams, self._mcp_server.create_initialization_options())
            return Response()

        routes = [
            Route(self.settings.sse_path, endpoint=stream, methods=["GET"]),
            Mount(self.settings.message_path, app=transport.handle_post_message),
        ]
        return self._starlette(routes)

    @property
    def session_manager(self) -> StreamableHTTPSessionManager:
        """The session manager of `streamable_http_app`.

        Raises:
            RuntimeError: that was not called yet.
        """
        if self._session_manager is None:
            raise RuntimeError("Session manager can only be accessed after calling streamable_http_app().")
        return self._session_manager

    def streamable_http_app(self) -> Any:
        """Return a Starlette application that serves both eras over Streamable HTTP."""
        from starlette.routing import Route

        if self._session_manager is None:
            self._session_manager = StreamableHTTPSessionManager(
                self._mcp_server,
                json_response=self.settings.json_response,
                stateless=self.settings.stateless_http,
                security_settings=self.settings.transport_security,
                session_idle_timeout=self.settings.session_idle_timeout,
                max_sessions=self.settings.max_sessions,
                max_request_body_size=self.settings.max_request_body_size,
            )
        manager = self._session_manager

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncGenerator[None]:
            async with manager.run():
                yield

        return self._starlette([Route(self.settings.streamable_http_path, endpoint=_Endpoint(manager))], lifespan)

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Callable[[Any], Any]:
        """Return a decorator that adds a route of Starlette to the applications."""

        def decorator(function: Any) -> Any:
            from starlette.routing import Route

            route = Route(path, endpoint=function, methods=methods, name=name, include_in_schema=include_in_schema)
            self._custom_starlette_routes.append(route)
            return function

        return decorator


class _Endpoint:
    """The session manager as the endpoint of a route: an object, which Starlette calls as an ASGI application."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)


def _refuse_function(name: Any, decorator: str) -> None:
    if callable(name):
        raise TypeError(
            f"The @{decorator} decorator was used incorrectly. Did you forget to call it? Use @{decorator}() instead "
            f"of @{decorator}"
        )
