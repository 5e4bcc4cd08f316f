"""The measured server, written with fastmcp."""

from __future__ import annotations

from fastmcp import FastMCP  # pyright: ignore[reportMissingImports]
from tools import command_line, echo, extra_tools

transport, count, port = command_line()
app = FastMCP("bench", version="1")
for function in [echo, *extra_tools(count)]:
    app.tool(function)

if transport == "stdio":
    app.run("stdio", show_banner=False)
else:
    app.run("http", host="127.0.0.1", port=port, show_banner=False)
