"""The fixtures of the suite's ``tasks-*`` scenarios: functions with ``task=``."""

from __future__ import annotations

import anyio
from fixtures import form

from ferrule import Context, MCPError, MCPServer, ToolError

app = MCPServer("tasks")

JOB_S = 1.0


@app.tool
async def greet(name: str) -> str:
    """Answers at once."""
    return f"Hello, {name}!"


@app.tool(task="optional")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Computes for some seconds."""
    await anyio.sleep(seconds)
    return f"{label} done after {seconds:g} s"


@app.tool(task="required")
async def failing_job() -> str:
    """Fails after a second, as a tool does."""
    await anyio.sleep(JOB_S)
    raise ToolError("The job failed")


@app.tool(task="required")
async def protocol_error_job() -> str:
    """Fails as a protocol does."""
    await anyio.sleep(JOB_S / 5)
    raise MCPError("The job broke the protocol", code=-32603)


@app.tool(task="optional")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it deletes."""
    answer = await ctx.elicit(f"Delete {filename}?", form(confirm={"type": "boolean"}), key="confirm")
    return f"{'Deleted' if answer.accepted and answer.data['confirm'] else 'Kept'} {filename}"


@app.tool(task="optional")
async def multi_input(ctx: Context) -> str:
    """Asks two things at once."""
    wanted = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
    first, second = await ctx.gather(ctx.elicit("First?", wanted), ctx.elicit("Second?", wanted))
    return f"first {first.action}, second {second.action}"


@app.tool(task="required", task_after_s=None)
async def test_tool_with_task(ctx: Context) -> str:
    """Asks for a name as a round of the call, then becomes a task."""
    answer = await ctx.elicit("What is your name?", form(name={"type": "string"}), key="user_name")
    await ctx.begin_task()
    await anyio.sleep(JOB_S / 5)
    return f"Hello, {answer.data['name'] if answer.accepted else 'nobody'}!"
