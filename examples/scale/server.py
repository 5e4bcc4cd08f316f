"""A server for many workers: a long task that asks a question and takes its steps once, whatever happens.

FERRULE_EXAMPLE_STORE=redis://localhost:6379/0 python examples/scale/server.py 8000
"""

from __future__ import annotations

import os
import sys

import anyio

from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Tasks

STORE = os.environ.get("FERRULE_EXAMPLE_STORE", "redis://localhost:6379/0")

# Seconds after which a task of a worker that fell silent is taken over; 15 if not said.
app = MCPServer("foundry", store=STORE, extensions=[Tasks(lease_s=3)])


def order_metal(metal: str) -> str:
    """Stands for an effect in another system."""
    print(f"[worker {os.getpid()}] ordered {metal}", flush=True)
    return f"order of {metal}"


@app.tool(task="required", resumable=True)
async def cast(metal: str, ctx: Context) -> str:
    """Order metal, ask how many rings, and cast them; takes some seconds."""
    order = await ctx.step("order", order_metal, metal)
    answer = await ctx.elicit("How many rings?", int, key="count")
    if not answer.accepted or answer.data is None:
        return "Nothing was cast"
    for ring in range(answer.data):
        await ctx.progress(ring, answer.data, f"casting ring {ring + 1} of {answer.data}")
        await anyio.sleep(0.5)
    return f"{answer.data} rings from the {order}, by worker {os.getpid()}"


if __name__ == "__main__":
    app.run(
        "http",
        port=int(sys.argv[1]) if len(sys.argv) > 1 else 0,
        workers=4,
        on_started=lambda host, port: print(f"serving http://{host}:{port}/mcp", flush=True),
    )
