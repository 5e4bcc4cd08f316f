"""The measured server, written with Ferrule."""

from __future__ import annotations

from tools import command_line, echo, extra_tools

from ferrule import MCPServer

transport, count, port = command_line()
app = MCPServer("bench", version="1")
for function in [echo, *extra_tools(count)]:
    app.tool(function)

if transport == "stdio":
    app.run("stdio")
else:
    app.run("http", host="127.0.0.1", port=port)
