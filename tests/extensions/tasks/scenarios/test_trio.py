"""On trio there are no tasks: an optional task is an ordinary call, and a required one gets a clear error."""

from __future__ import annotations

import anyio
import pytest

from ferrule import Client, MCPServer
from ferrule.protocol.errors import RemoteError


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_optional_tasks_are_calls_and_required_ones_say_why_not(mode: str) -> None:
    """A server must not break on another loop because one of its tools may be a task."""
    app = MCPServer("x")

    @app.tool(task="optional")
    async def optional() -> str:
        return "done"

    @app.tool(task="required")
    async def required() -> str:
        return "never"

    async def use() -> None:
        async with Client(app, mode=mode) as client:
            assert (await client.call_tool("optional")).text == "done"
            handle = await client.start_tool("optional")
            assert handle.task_id is None
            assert (await handle.result()).text == "done"
            with pytest.raises(RemoteError, match="tasks need asyncio"):
                await client.call_tool("required")

    anyio.run(use, backend="trio")
