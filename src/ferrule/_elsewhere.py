"""Names of other libraries for MCP whose counterpart here has another name.

A program that is ported from such a library gets an `AttributeError` that says the name here.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["IN_PACKAGE", "MODULES", "ON_CLIENT", "ON_CONTEXT", "ON_SERVER", "explanation", "explanation_of_module"]

_RUN_HTTP = '`run_async("http", port=...)`'
_STATE = "`session_state` (legacy), or a `Handles` or `PerPrincipal` parameter"

ON_SERVER: Mapping[str, str] = {
    "add_middleware": "`MCPServer(middleware=[...])`",
    "add_provider": "`mount(other, prefix=...)`",
    "add_resource_fn": "`add_resource(uri, function)`",
    "add_template": "`add_resource(uri, function)` with a URI that has variables",
    "add_tool_transformation": "`tool(name=..., description=...)` on the function",
    "add_transform": "`tool(name=..., description=...)` on the function",
    "as_proxy": "`ferrule.proxy(target)`",
    "completion": "`complete(prompt_or_template, argument)`",
    "custom_route": "a route of the web application that `asgi()` is mounted in",
    "dependencies": "the dependencies in pyproject.toml",
    "exclude_tags": "`disable(tag=...)`",
    "from_client": "`ferrule.proxy(target)`",
    "from_fastapi": "`expose(app, include=...)` of ferrule.expose",
    "get_context": "`ferrule.current_context()`, or a parameter of type `Context`",
    "get_prompts": "`list_prompts()`",
    "get_resource": "`list_resources()`",
    "get_resource_templates": "`list_resource_templates()`",
    "get_resources": "`list_resources()`",
    "get_tool": "`list_tools()`",
    "get_tools": "`list_tools()`",
    "http_app": "`asgi()`",
    "icons": "`lowlevel.server_info.icons`",
    "import_server": "`mount(other, prefix=...)`",
    "include_tags": "`enable(tag=...)`",
    "instructions": "`lowlevel.instructions`",
    "lifespan": "`own_lifespan`",
    "middleware": "`lowlevel.middleware`",
    "mount_http": "`mount(application, server)` of ferrule.integrations.fastapi",
    "mount_sse": "`mount(application, server)` of ferrule.integrations.fastapi",
    "remove_resource_template": "`remove_resource(template)`",
    "resource_template": "`resource(uri)` with a URI that has variables",
    "run_http_async": _RUN_HTTP,
    "run_sse_async": _RUN_HTTP,
    "run_stdio_async": '`run_async("stdio")`',
    "run_streamable_http_async": _RUN_HTTP,
    "session_manager": "`asgi()`, which has its own lifespan",
    "settings": "options of `run` and `MCPServer`",
    "setup_server": "nothing: the next `list_tools()` has routes that were added later",
    "sse_app": "`asgi()`",
    "streamable_http_app": "`asgi()`",
    "title": "`lowlevel.server_info.title`",
    "website_url": "`lowlevel.server_info.website_url`",
    "_mcp_server": "`lowlevel`",
    "_tool_manager": "`tools`",
}
"""Name on a server of another library → the way here."""

ON_CLIENT: Mapping[str, str] = {
    "call_tool_mcp": "`call_tool(name, arguments)`",
    "cancel": "a cancelled task, or a `timeout_s`",
    "close": "`aclose()`",
    "complete_mcp": "`complete(reference, argument, value)`",
    "get_prompt_mcp": "`get_prompt(name, arguments)`",
    "get_server_capabilities": "`server_capabilities`",
    "get_session_id": "`session`",
    "initialize": "`connect()`, which a context calls",
    "initialize_result": "`discovered`",
    "discover_result": "`discovered`",
    "list_prompts_mcp": "`list_prompts_page()`",
    "list_resource_templates_mcp": "`list_resource_templates_page()`",
    "list_resources_mcp": "`list_resources_page()`",
    "list_tools_mcp": "`list_tools_page()`",
    "new": "another `Client(target)`",
    "read_resource_mcp": "`read_resource(uri)`",
    "send_discover": "`connect()`, which a context calls",
    "send_ping": "`ping()`",
    "send_request": "`request(method, params)`",
    "send_roots_list_changed": "`notify_roots_changed()`",
    "set_elicitation_callback": "`Client(elicitation_handler=...)`",
    "set_logging_level": "`set_log_level(level)`",
    "set_roots": "`Client(roots=...)` and `notify_roots_changed()`",
    "set_sampling_callback": "`Client(sampling_handler=...)`",
    "subscribe_resource": "`listen(uris=[...])`",
    "transport": "`target`",
    "unsubscribe_resource": "the end of the context of `listen(uris=[...])`",
    "validate_tool_result": "`call_tool(name, arguments)`, which does it",
}
"""Name on a client of another library → the way here."""

ON_CONTEXT: Mapping[str, str] = {
    "client_id": "`principal`",
    "close_sse_stream": "`close_stream()`",
    "create_message": "`sample(...)`",
    "delete_state": _STATE,
    "disable_components": "`app.disable(...)`",
    "enable_components": "`app.enable(...)`",
    "fastmcp": "`app`",
    "get_http_headers": "`headers`",
    "get_http_request": "`headers`",
    "get_state": _STATE,
    "is_background_task": "`task_id`",
    "lifespan_context": "`lifespan`",
    "list_resources": "`app.list_resources()`",
    "list_roots": "`roots()`",
    "list_tools": "`app.list_tools()`",
    "mcp_server": "`app`",
    "report_progress": "`progress(progress, total, message)`",
    "request_context": "`request`",
    "request_state": "`input_state`",
    "send_log_message": "`log(level, data)`",
    "send_notification": "`notify(method, params)`",
    "send_progress_notification": "`progress(progress, total, message)`",
    "send_prompt_list_changed": "`notify_prompts_changed()`",
    "send_resource_list_changed": "`notify_resources_changed()`",
    "send_resource_updated": "`notify_resource_updated(uri)`",
    "send_tool_list_changed": "`notify_tools_changed()`",
    "set_state": _STATE,
    "warn": "`warning(data)`",
}
"""Name on a context of another library → the name here."""

IN_PACKAGE: Mapping[str, str] = {
    "AudioContent": "Audio",
    "BearerAuth": "Client(auth=...)",
    "ClientSession": "Client",
    "ClientSessionGroup": "ClientGroup",
    "CurrentContext": "Context",
    "EmbeddedResource": "Embedded",
    "FastApiMCP": "expose (from ferrule.expose)",
    "FastMCP": "MCPServer",
    "FastMCPProxy": "proxy",
    "ImageContent": "Image",
    "McpError": "MCPError",
    "McpServer": "MCPServer",
    "MCPConfig": "Client(...), which takes a configuration",
    "NotFoundError": "errors",
    "OAuth": "ferrule.auth.OAuth",
    "PromptError": "ToolError",
    "ResourceError": "ToolError",
    "ResourceLink": "Link",
    "StdioServerParameters": "StdioServer",
    "StdioTransport": "StdioServer",
    "StreamableHttpTransport": "Client(...), which takes a URL",
    "TextContent": "types.ToolContentBlock",
    "ToolAnnotations": "types.ToolAnnotations",
    "create_proxy": "proxy",
    "get_context": "current_context",
    "get_http_headers": "Context.headers",
    "sse_client": "Client(...), which takes a URL",
    "stdio_client": "Client(...), which takes a StdioServer",
    "stdio_server": "run",
    "streamable_http_client": "Client(...), which takes a URL",
    "streamablehttp_client": "Client(...), which takes a URL",
}
"""Name in the package of another library → the name here, in ``ferrule`` unless it says otherwise."""

_FROM_FERRULE = "from ferrule import MCPServer, Context"
MODULES: Mapping[str, str] = {
    "ferrule.client.session": "from ferrule import Client",
    "ferrule.client.sse": "from ferrule import Client",
    "ferrule.client.stdio": "from ferrule import Client, StdioServer",
    "ferrule.client.streamable_http": "from ferrule import Client",
    "ferrule.client.transports": "from ferrule import Client, StdioServer",
    "ferrule.dependencies": "from ferrule import Depends",
    "ferrule.exceptions": "from ferrule.errors import ToolError",
    "ferrule.fastmcp": _FROM_FERRULE,
    "ferrule.prompts": _FROM_FERRULE,
    "ferrule.resources": _FROM_FERRULE,
    "ferrule.server": _FROM_FERRULE,
    "ferrule.shared": "from ferrule.errors import MCPError",
    "ferrule.tools": _FROM_FERRULE,
    "ferrule.utilities": "from ferrule import Image, Audio, File",
}
"""Module of another library with ``ferrule`` in the place of its first word → the import here."""


def explanation(kind: str, name: str, table: Mapping[str, str]) -> str:
    """Return the text of an `AttributeError`.

    Args:
        kind: the class, as its users call it.
        name: the attribute that it lacks.
        table: names of other libraries → what it is here.
    """
    here = table.get(name)
    return f"{kind} has no {name!r}" + (f"; here it is {here}" if here else "")


def explanation_of_module(name: str) -> str | None:
    """Return the text of a `ModuleNotFoundError`; ``None`` if no other library has a module of this name."""
    here = MODULES.get(name)
    return None if here is None else f"There is no module {name!r}; here it is `{here}`"
