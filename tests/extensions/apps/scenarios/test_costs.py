"""What apps cost a server without pages: no module, no call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule import Client, MCPServer
from tests.profiling import PythonCalls

PROGRAM = """
import asyncio, sys
from ferrule import Client, MCPServer
app = MCPServer("x")
@app.tool
def add(a: int, b: int) -> int:
    return a + b
@app.resource("data://x")
def text() -> str:
    return "x"
async def main():
    async with Client(app) as client:
        await client.list_tools(); await client.list_resources(); await client.call_tool("add", {"a": 1, "b": 2})
asyncio.run(main())
print([name for name in sys.modules if name.startswith("ferrule.extensions")])
"""


def test_a_server_without_pages_loads_nothing_of_apps() -> None:
    """Most servers have none, and each start of a process would pay."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


@pytest.mark.anyio
async def test_a_plain_call_of_a_tool_with_a_page_runs_nothing_of_apps() -> None:
    """The page is the business of lists and reads; typed results and texts have the text that hosts need."""
    app = MCPServer("x")

    @app.ui("<p>")
    def add(a: int, b: int) -> int:
        return a + b

    async with Client(app) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        with PythonCalls() as calls:
            await client.call_tool("add", {"a": 1, "b": 2})
    assert calls.of("ferrule/extensions") == 0
    assert app.tools.general_calls == 0
