"""The names that other libraries for MCP have for what is called otherwise here.

An `AttributeError` with the name here answers the first question of a program that moves.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ON_CLIENT", "ON_SERVER", "explanation"]

ON_SERVER: Mapping[str, str] = {
    "add_middleware": "`MCPServer(middleware=[...])`",
    "as_proxy": "`ferrule.proxy(target)`",
    "custom_route": "a route of the web application that `asgi()` is mounted in",
    "get_prompts": "`list_prompts()`",
    "get_resources": "`list_resources()`",
    "get_tool": "`list_tools()`",
    "get_tools": "`list_tools()`",
    "http_app": "`asgi()`",
    "import_server": "`mount(other, prefix=...)`",
    "run_http_async": '`run_async("http", port=...)`',
    "run_sse_async": '`run_async("http", port=...)`',
    "run_stdio_async": '`run_async("stdio")`',
    "run_streamable_http_async": '`run_async("http", port=...)`',
    "sse_app": "`asgi()`",
    "streamable_http_app": "`asgi()`",
    "_mcp_server": "`lowlevel`",
}
"""Name on a server of another library → the way here."""

ON_CLIENT: Mapping[str, str] = {
    "call_tool_mcp": "`call_tool(name, arguments)`",
    "close": "`aclose()`",
    "get_server_capabilities": "`server_capabilities`",
    "initialize": "`connect()`, which a context calls",
    "initialize_result": "`discovered`",
    "list_tools_mcp": "`list_tools_page()`",
    "send_ping": "`ping()`",
    "send_roots_list_changed": "`notify_roots_changed()`",
    "set_logging_level": "`set_log_level(level)`",
    "subscribe_resource": "`listen(uris=[...])`",
    "transport": "`target`",
}
"""Name on a client of another library → the way here."""


def explanation(kind: str, name: str, table: Mapping[str, str]) -> str:
    """Return the text of an `AttributeError`.

    Args:
        kind: the class, as its users call it.
        name: the attribute that it lacks.
        table: names of other libraries → what it is here.
    """
    here = table.get(name)
    return f"{kind} has no {name!r}" + (f"; here it is {here}" if here else "")
