"""Servers and clients where an event loop runs already."""

from __future__ import annotations

# --8<-- [start:server]
from ferrule import MCPServer

app = MCPServer("notebook", on_duplicate="replace")  # a cell may run again


@app.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


# --8<-- [end:server]

# --8<-- [start:try]
from ferrule import Client


async def cell() -> int:
    async with Client(app) as client:
        return (await client.call_tool("add", {"a": 2, "b": 40})).data


# --8<-- [end:try]

# --8<-- [start:serve]
import asyncio
from contextlib import suppress


async def serve_beside(work, port: int) -> None:
    """Serve while other work of the same event loop goes on, and end with it."""
    serving = asyncio.create_task(app.run_async("http", port=port))
    try:
        await work()
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


# --8<-- [end:serve]


async def check(mode: str) -> None:
    """In a loop that runs, as in a notebook."""
    import pytest

    from tests.processes import free_port

    assert await cell() == 42
    with pytest.raises(RuntimeError, match=r"use await app\.run_async"):
        app.run("http")
    app.add_tool(add)  # the cell, run again

    port = free_port()
    seen: list[int] = []

    async def work() -> None:
        for _ in range(600):
            try:
                async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode, proxy=None) as client:
                    seen.append((await client.call_tool("add", {"a": 1, "b": 1})).data)
                return
            except OSError:
                await asyncio.sleep(0.05)

    await serve_beside(work, port)
    assert seen == [2]
