"""A server whose tasks run on dramatiq, in processes without a transport.

FERRULE_EXAMPLE_STORE=redis://localhost:6379/0 ferrule run examples/engines/server.py --http
FERRULE_EXAMPLE_STORE=redis://localhost:6379/0 ferrule worker examples/engines/server.py
"""

# --8<-- [start:app]
import os

import anyio

from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Tasks
from ferrule.integrations.dramatiq import DramatiqExecutor

STORE = os.environ.get("FERRULE_EXAMPLE_STORE", "redis://localhost:6379/0")
QUEUE = os.environ.get("FERRULE_EXAMPLE_QUEUE", STORE)

app = MCPServer("mill", store=STORE, extensions=[Tasks(executor=DramatiqExecutor(QUEUE), lease_s=5)])


def order_grain(kind: str) -> str:
    """Stands for an effect in another system."""
    print(f"[worker {os.getpid()}] ordered {kind}", flush=True)
    return f"the {kind} that was ordered once"


@app.tool(task="required", resumable=True)
async def mill(kind: str, ctx: Context) -> str:
    """Order grain, ask how many sacks, and mill them."""
    grain = await ctx.step("order", order_grain, kind)
    answer = await ctx.elicit("How many sacks?", int, key="sacks")
    if not answer.accepted or answer.data is None:
        return "Nothing was milled"
    for sack in range(answer.data):
        await ctx.progress(sack, answer.data, f"milling sack {sack + 1} of {answer.data}")
        await anyio.sleep(0.3)
    return f"{answer.data} sacks of {grain}"


# --8<-- [end:app]
