"""Who gives no tools to a model loads nothing of this, and who does loads no provider's package and no database."""

from __future__ import annotations

import subprocess
import sys

GROUP = """
import sys
import anyio
from ferrule import Client, ClientGroup, MCPServer

app = MCPServer("s")
app.add_tool(lambda: "x", name="t", input_schema={"type": "object"})

async def main():
    async with ClientGroup({"a": app}) as group, Client(app) as client:
        await group.list_tools()
        await group.call_tool("a_t")
        await client.call_tool("t")
        print("unused", *(name for name in sys.modules if "bridges" in name))
        for api in ("anthropic", "openai", "openai-chat", "gemini", "json-schema"):
            assert await group.tools_for(api)
        await group.answer([{"name": "a_t", "arguments": {}}])
        packages = {"anthropic", "openai", "google", "langchain_core", "pydantic", "pydantic_ai", "agents", "sqlite3"}
        print("used", *(packages & sys.modules.keys()), *(name for name in sys.modules if "bridges.sampling" in name))

anyio.run(main)
"""


def test_nothing_is_loaded_that_is_not_used() -> None:
    """Counted in a process of its own."""
    done = subprocess.run([sys.executable, "-c", GROUP], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["unused", "used"]
