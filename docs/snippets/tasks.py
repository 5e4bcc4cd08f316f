"""A call that outlives its request."""

# --8<-- [start:code]
from ferrule import Client, Context, MCPServer

app = MCPServer("press")


@app.tool(task="optional")
async def press(sheets: int, ctx: Context) -> int:
    """Press sheets."""
    for sheet in range(sheets):
        await ctx.set_status(f"sheet {sheet + 1} of {sheets}")
    return sheets


# --8<-- [end:code]


# --8<-- [start:middleware]
import logging
from typing import Any

from ferrule.extensions.tasks import current_task_id
from ferrule.middleware import CallNext, ServerRequestContext
from ferrule.types import ToolResult

log = logging.getLogger("press")


async def note_the_end(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
    result = await call_next(ctx)
    if isinstance(result, ToolResult):
        log.info("%s ended, task %s", ctx.method, current_task_id())
    return result


# --8<-- [end:middleware]
app.lowlevel.middleware.append(note_the_end)


# --8<-- [start:client]
async def use(client: Client) -> int:
    handle = await client.start_tool("press", {"sheets": 3})
    return (await handle.result(timeout_s=30)).data


# --8<-- [end:client]


async def check(mode: str) -> None:
    """In both eras."""
    async with Client(app, mode=mode) as client:
        assert await use(client) == 3
