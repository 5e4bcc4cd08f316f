"""The old SDK's low-level ``Server``: functions registered by decorators, served by Ferrule's kernel.

`Server.request_handlers` keeps what the old SDK kept there, from the class of a request to
``async (request) -> result``, because published servers wrap these. `Server.application` is the
Ferrule server that calls them.
"""

from __future__ import annotations

import base64
import inspect
import json
import logging
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from ferrule import MCPServer, __version__
from ferrule.app.rounds.run import run_body
from ferrule.errors import FerruleError
from ferrule.kernel.server import ServerRequestContext
from ferrule.wire.codec import to_builtins
from ferrule.wire.revisions import INTERACTIVE_METHODS
from ferrule_compat.exceptions import UrlElicitationRequiredError, sent
from ferrule_compat.models import Model, plain
from ferrule_compat.session import RequestContext, current, kernel_request, request_ctx
from ferrule_compat.wire_types import find

__all__ = ["NotificationOptions", "Server", "lifespan"]

logger = logging.getLogger(__name__)

_REQUESTS: Final = {
    "tools/list": "ListToolsRequest",
    "tools/call": "CallToolRequest",
    "prompts/list": "ListPromptsRequest",
    "prompts/get": "GetPromptRequest",
    "resources/list": "ListResourcesRequest",
    "resources/templates/list": "ListResourceTemplatesRequest",
    "resources/read": "ReadResourceRequest",
    "resources/subscribe": "SubscribeRequest",
    "resources/unsubscribe": "UnsubscribeRequest",
    "completion/complete": "CompleteRequest",
    "logging/setLevel": "SetLevelRequest",
}
_NOTIFICATIONS: Final = {
    "notifications/initialized": "InitializedNotification",
    "notifications/progress": "ProgressNotification",
    "notifications/roots/list_changed": "RootsListChangedNotification",
}
# Ferrule keeps the state of these; what the server does with them comes after that.
_ALSO_FERRULE: Final = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
_OF_ROUNDS: Final = ("_meta", "inputResponses", "requestState")

Handler = Callable[[Any], Awaitable[Any]]


class NotificationOptions:
    """Which lists are announced as changing."""

    def __init__(
        self, prompts_changed: bool = False, resources_changed: bool = False, tools_changed: bool = False
    ) -> None:
        self.prompts_changed = prompts_changed
        self.resources_changed = resources_changed
        self.tools_changed = tools_changed


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
    """Do nothing; the lifespan of a server without one."""
    yield {}


class Server:
    """A server made of one function for each method.

    Attributes:
        request_handlers, notification_handlers: class of a request or notification → ``async (request) -> result``.
    """

    def __init__(
        self,
        name: str,
        version: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[Any] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] = lifespan,
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self.website_url = website_url
        self.icons = icons
        self.lifespan = lifespan
        self.request_handlers: dict[Any, Handler] = {}
        self.notification_handlers: dict[Any, Handler] = {}
        self._tool_cache: dict[str, Any] = {}

    def __class_getitem__(cls, _: Any) -> type[Server]:
        return cls

    @property
    def request_context(self) -> RequestContext:
        """The request that is being served; raises `LookupError` outside of one."""
        return request_ctx.get()

    # -- what it announces --------------------------------------------------------------------------------------------

    def get_capabilities(
        self, notification_options: NotificationOptions | None = None, experimental_capabilities: Any = None
    ) -> Any:
        """Return the capabilities that follow from the registered functions."""
        options = notification_options or NotificationOptions()
        has = self.request_handlers.__contains__
        made: dict[str, Any] = {"experimental": experimental_capabilities or {}}
        if has(find("ListPromptsRequest")):
            made["prompts"] = {"listChanged": options.prompts_changed}
        if has(find("ListResourcesRequest")):
            made["resources"] = {"subscribe": False, "listChanged": options.resources_changed}
        if has(find("ListToolsRequest")):
            made["tools"] = {"listChanged": options.tools_changed}
        if has(find("SetLevelRequest")):
            made["logging"] = {}
        if has(find("CompleteRequest")):
            made["completions"] = {}
        return find("ServerCapabilities")(**made)

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, experimental_capabilities: Any = None
    ) -> Any:
        """Return what the server tells a client about itself."""
        return find("InitializationOptions")(
            server_name=self.name,
            server_version=self.version or __version__,
            capabilities=self.get_capabilities(notification_options, experimental_capabilities),
            instructions=self.instructions,
            website_url=self.website_url,
            icons=self.icons,
        )

    # -- registering --------------------------------------------------------------------------------------------------

    def _listing(self, request: str, result: str, key: str) -> Callable[[Any], Any]:
        def decorator(function: Any) -> Any:
            call = _with_request(function, find(request))

            async def handler(req: Any) -> Any:
                found = await call(req)
                listed = found if isinstance(found, find(result)) else find(result)(**{key: list(found)})
                if key == "tools":
                    self._tool_cache |= {tool.name: tool for tool in listed.tools}
                return find("ServerResult")(listed)

            self.request_handlers[find(request)] = handler
            return function

        return decorator

    def list_tools(self) -> Callable[[Any], Any]:
        """Register the function that returns the tools."""
        return self._listing("ListToolsRequest", "ListToolsResult", "tools")

    def list_prompts(self) -> Callable[[Any], Any]:
        """Register the function that returns the prompts."""
        return self._listing("ListPromptsRequest", "ListPromptsResult", "prompts")

    def list_resources(self) -> Callable[[Any], Any]:
        """Register the function that returns the resources."""
        return self._listing("ListResourcesRequest", "ListResourcesResult", "resources")

    def list_resource_templates(self) -> Callable[[Any], Any]:
        """Register the function that returns the resource templates."""
        return self._listing("ListResourceTemplatesRequest", "ListResourceTemplatesResult", "resourceTemplates")

    def _simple(self, request: str, call: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any], Any]:
        def decorator(function: Any) -> Any:
            async def handler(req: Any) -> Any:
                result = await call(function, req.params)
                return find("ServerResult")(find("EmptyResult")() if result is None else result)

            self.request_handlers[find(request)] = handler
            return function

        return decorator

    def get_prompt(self) -> Callable[[Any], Any]:
        """Register ``async (name, arguments)``, which returns a prompt's messages."""
        return self._simple("GetPromptRequest", lambda function, params: function(params.name, params.arguments))

    def subscribe_resource(self) -> Callable[[Any], Any]:
        """Register ``async (uri)``, called when a client subscribes to a resource."""
        return self._simple("SubscribeRequest", lambda function, params: function(params.uri))

    def unsubscribe_resource(self) -> Callable[[Any], Any]:
        """Register ``async (uri)``, called when a client ends a subscription."""
        return self._simple("UnsubscribeRequest", lambda function, params: function(params.uri))

    def set_logging_level(self) -> Callable[[Any], Any]:
        """Register ``async (level)``, called when a client sets its log level."""
        return self._simple("SetLevelRequest", lambda function, params: function(params.level))

    def read_resource(self) -> Callable[[Any], Any]:
        """Register ``async (uri)``, which returns text, bytes, or items with ``content`` and ``mime_type``."""

        async def call(function: Any, params: Any) -> Any:
            found = await function(params.uri)
            if isinstance(found, find("ReadResourceResult")):
                return found
            if isinstance(found, str | bytes):
                items = [(found, None, None)]
            else:
                items = [(item.content, item.mime_type, getattr(item, "meta", None)) for item in found]
            return find("ReadResourceResult")(contents=[_contents(params.uri, *item) for item in items])

        return self._simple("ReadResourceRequest", call)

    def completion(self) -> Callable[[Any], Any]:
        """Register ``async (ref, argument, context)``, which completes an argument."""

        async def call(function: Any, params: Any) -> Any:
            found = await function(params.ref, params.argument, params.context)
            return find("CompleteResult")(completion=find("Completion")(values=[]) if found is None else found)

        return self._simple("CompleteRequest", call)

    def progress_notification(self) -> Callable[[Any], Any]:
        """Register ``async (token, progress, total, message)`` for progress that the client sends."""

        def decorator(function: Any) -> Any:
            async def handler(note: Any) -> None:
                params = note.params
                await function(params.progressToken, params.progress, params.total, params.message)

            self.notification_handlers[find("ProgressNotification")] = handler
            return function

        return decorator

    def call_tool(self, *, validate_input: bool = True) -> Callable[[Any], Any]:
        """Register ``async (name, arguments)``, which calls a tool.

        It returns content, data, ``(content, data)`` or a ``CallToolResult``; an exception becomes a result with its
        text. Arguments and data are checked against the schemas of the listed tool.
        """

        def decorator(function: Any) -> Any:
            async def handler(req: Any) -> Any:
                try:
                    return find("ServerResult")(await self._called(function, req.params, validate_input))
                except UrlElicitationRequiredError:
                    raise
                except Exception as error:
                    return find("ServerResult")(_failed(str(error)))

            self.request_handlers[find("CallToolRequest")] = handler
            return function

        return decorator

    async def _called(self, function: Any, params: Any, validate_input: bool) -> Any:
        name, arguments = params.name, params.arguments or {}
        listing = self.request_handlers.get(find("ListToolsRequest"))
        if name not in self._tool_cache and listing is not None:
            await listing(find("ListToolsRequest")())
        tool = self._tool_cache.get(name)
        if validate_input and tool is not None and (problem := _problem(tool.inputSchema, arguments)):
            return _failed(f"Input validation error: {problem}")
        found = await function(name, arguments)
        if isinstance(found, find("CallToolResult")):
            return found
        data: Any = None
        if isinstance(found, tuple) and len(found) == 2:
            content, data = found
        elif isinstance(found, dict):
            content, data = [find("TextContent")(text=json.dumps(plain(found, mode="json"), indent=2))], found
        elif hasattr(found, "__iter__"):
            content = found
        else:
            return _failed(f"Unexpected return type from tool: {type(found).__name__}")
        content = list(content)
        unfit = next((item for item in content if not isinstance(item, Mapping | Model)), None)
        if unfit is not None:  # also each letter of a text
            return _failed(f"Unexpected content from tool: a {type(unfit).__name__} is no content block")
        if tool is not None and tool.outputSchema is not None:
            if data is None:
                return _failed("Output validation error: outputSchema defined but no structured output returned")
            if problem := _problem(tool.outputSchema, plain(data, mode="json")):
                return _failed(f"Output validation error: {problem}")
        return find("CallToolResult")(content=content, structuredContent=data, isError=False)

    # -- serving ------------------------------------------------------------------------------------------------------

    def application(self, options: Any = None) -> MCPServer[Any]:
        """Return a Ferrule server that calls the registered functions.

        Args:
            options: what to tell clients, as `create_initialization_options` returns it; ``None`` for that.
        """
        options = self.create_initialization_options() if options is None else options
        capabilities = options.capabilities.to_wire()
        made = MCPServer(
            options.server_name,
            version=options.server_version,
            instructions=options.instructions or self.instructions,
            website_url=options.website_url or self.website_url,
            icons=plain(options.icons or self.icons, mode="json", by_alias=True, exclude_none=True),
            lifespan=lambda _: self.lifespan(self),
            logging="logging" in capabilities,
            fast_path=False,
        )
        kernel = made.lowlevel
        changing = [
            kind for kind in ("tools", "prompts", "resources") if (capabilities.get(kind) or {}).get("listChanged")
        ]
        kernel.list_changed.update(changing)
        if experimental := capabilities.get("experimental"):
            kernel.capability_sources.append(lambda _: {"experimental": experimental})
        kernel.resource_updates = find("SubscribeRequest") in self.request_handlers
        kernel.has_resource = None  # only the function that reads them knows which resources there are
        for method, name in _REQUESTS.items():
            if find(name) in self.request_handlers:
                self._serve(made, method, find(name))
        for method, name in _NOTIFICATIONS.items():
            if find(name) in self.notification_handlers:
                self._hear(made, method, find(name))
        return made

    def _serve(self, application: MCPServer[Any], method: str, cls: Any) -> None:
        before = application.lowlevel.get_request_handler(method) if method in _ALSO_FERRULE else None

        async def answer(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
            params = {key: value for key, value in (to_builtins(ctx.params) or {}).items() if key not in _OF_ROUNDS}
            if ctx.meta:
                params["_meta"] = dict(ctx.meta)
            tokens = kernel_request.set(ctx), request_ctx.set(current(ctx))
            try:
                result = await self.request_handlers[cls](cls(params=params))
            except FerruleError:
                raise
            except Exception as error:
                if not isinstance(error, UrlElicitationRequiredError):
                    logger.info("%s failed", method, exc_info=True)
                raise sent(error) from error
            finally:
                kernel_request.reset(tokens[0])
                request_ctx.reset(tokens[1])
            return _result(getattr(result, "root", result))

        async def handler(ctx: ServerRequestContext[Any]) -> Any:
            if method in INTERACTIVE_METHODS:
                return await run_body(ctx, answer, {"ctx": ctx})
            if before is not None:
                await before.handler(ctx)
            return await answer(ctx)

        application.lowlevel.add_request_handler(method, handler)

    def _hear(self, application: MCPServer[Any], method: str, cls: Any) -> None:
        async def handler(ctx: ServerRequestContext[Any]) -> None:
            await self.notification_handlers[cls](cls(params=to_builtins(ctx.params)))

        application.lowlevel.add_notification_handler(method, handler)

    async def run(
        self,
        read_stream: Any,
        write_stream: Any,
        initialization_options: Any = None,
        raise_exceptions: bool = False,
        stateless: bool = False,
    ) -> None:
        """Serve one client until it leaves.

        Args:
            read_stream, write_stream: the pair of one of the transports of `ferrule_compat.transports`.
            initialization_options: what to tell the client.
            raise_exceptions: has no effect.
            stateless: accepted for a transport that sets it.

        Raises:
            TypeError: the streams are those of another transport.
        """
        serve = getattr(read_stream, "serve", None)
        if serve is None:
            raise TypeError(
                "ferrule-compat serves the streams of stdio_server() and SseServerTransport, and not a "
                f"{type(read_stream).__name__}"
            )
        await serve(self, initialization_options)


def _with_request(function: Any, cls: Any) -> Callable[[Any], Awaitable[Any]]:
    """Return a call of a listing function: with the request, if a parameter is annotated with its class."""
    try:
        hints = typing.get_type_hints(function)
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError, NameError):
        return lambda _: function()
    for name, parameter in parameters.items():
        if hints.get(name) is cls and parameter.default is parameter.empty:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                return lambda request: function(request)
            return lambda request: function(**{name: request})
    return lambda _: function()


def _contents(uri: Any, data: str | bytes, mime_type: str | None, meta: Any) -> Any:
    more = {} if meta is None else {"_meta": meta}
    if isinstance(data, str):
        return find("TextResourceContents")(uri=uri, text=data, mimeType=mime_type or "text/plain", **more)
    blob = base64.b64encode(data).decode()
    return find("BlobResourceContents")(uri=uri, blob=blob, mimeType=mime_type or "application/octet-stream", **more)


def _failed(text: str) -> Any:
    return find("CallToolResult")(content=[find("TextContent")(text=text)], isError=True)


def _problem(schema: Any, value: Any) -> str | None:
    """Return what is wrong with a value, in words for a model; ``None`` if it fits its schema."""
    from ferrule.app.signatures.validation import problems_by

    try:
        problems: Iterable[str] = problems_by(plain(schema, mode="json"))(value)
    except ValueError as error:  # the schema itself
        return str(error)
    return "; ".join(problems) or None


def _result(result: Any) -> dict[str, Any]:
    return dict(plain(result, mode="json", by_alias=True, exclude_none=True) or {})
