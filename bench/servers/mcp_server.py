"""The measured server, written with the official package."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer  # pyright: ignore[reportMissingImports]
from tools import command_line, echo, extra_tools

transport, count, port = command_line()
app = MCPServer("bench", version="1")
for function in [echo, *extra_tools(count)]:
    app.tool()(function)

if transport == "stdio":
    app.run("stdio")
else:
    app.run("streamable-http", host="127.0.0.1", port=port)
