"""The server of bench/soak.py, with four workers: STORE."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio

from ferrule import Context, MCPServer, ToolError
from ferrule.extensions.tasks import Tasks

if __name__ == "__main__":
    os.environ["FERRULE_SOAK_STORE"] = sys.argv[1]  # for the workers, which import this file

# A task of a worker that was killed is taken over after three seconds.
app: MCPServer[Any] = MCPServer(
    "soak", store=os.environ["FERRULE_SOAK_STORE"], extensions=[Tasks(lease_s=3, ttl_s=60, poll_interval_ms=200)]
)


@app.tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@app.tool
def add(numbers: list[int]) -> int:
    """Add numbers, in a thread."""
    return sum(numbers)


@app.tool
async def remember(ctx: Context, value: str) -> str:
    """Keep a value in the session (legacy) and return the one before."""
    before = str(ctx.session_state.get("value", ""))
    ctx.session_state["value"] = value
    return before


@app.tool
async def ask(ctx: Context, question: str) -> str:
    """Ask the user."""
    answer = await ctx.elicit(question, str)
    return f"{question} {answer.data}"


@app.tool
async def steps(ctx: Context, count: int) -> int:
    """Report progress."""
    for number in range(count):
        await ctx.progress(number + 1, count)
        await anyio.sleep(0.01)
    return count


@app.tool
async def fail(text: str) -> str:
    """Fail, in a way that the model may read and that no log needs."""
    raise ToolError(text)


@app.tool
async def change(ctx: Context, key: str) -> str:
    """Tell subscribers that a resource has changed."""
    await ctx.notify_resource_updated(f"soak://{key}")
    return key


@app.resource("soak://{key}")
def entry(key: str) -> str:
    """An entry."""
    return key


@app.tool(task="required", resumable=True)
async def work(ctx: Context, number: int) -> int:
    """Work in three steps, of which a worker that takes over repeats none that has ended."""
    for step in range(3):
        await ctx.step(f"step-{step}", anyio.sleep, 0.2)
    return number * 2


if __name__ == "__main__":
    app.run("http", port=0, workers=4, on_started=lambda host, port: print(port, flush=True))
