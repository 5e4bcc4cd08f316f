"""A server whose tools outlive their request, for the tests of ``ferrule tasks``."""

from __future__ import annotations

from pathlib import Path

import anyio

from ferrule import Context, MCPServer, ToolError

app = MCPServer("press")


@app.tool(task="optional")
async def press(ctx: Context, until: str) -> str:
    """Press sheets until a file exists."""
    sheet = 0
    while not Path(until).exists():
        sheet += 1
        await ctx.set_status(f"sheet {sheet}")
        await anyio.sleep(0.05)
    return "pressed"


@app.tool(task="optional")
async def jam() -> str:
    """Fail."""
    raise ToolError("paper jam")


@app.tool(task="optional")
async def confirm(ctx: Context) -> str:
    """Ask while it runs."""
    await ctx.begin_task()
    answer = await ctx.elicit("Go on?", bool)
    return f"{answer.action} {answer.data}"


@app.tool(task="optional")
async def forever() -> str:
    """Wait to be cancelled."""
    await anyio.sleep_forever()
    return "never"


@app.tool
def quick() -> str:
    """Never a task."""
    return "at once"
