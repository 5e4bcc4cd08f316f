"""A server whose tasks run on an engine: ``engine_program.py web|worker``, started by the tests of the engines.

Environment: ENGINE (``docket`` or ``dramatiq``), ENGINE_REDIS, ENGINE_STORE, ENGINE_FILE (what took effect, a line
each).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio

from ferrule import Context, MCPServer
from ferrule.extensions.tasks import TaskExecutor, Tasks, run_worker


def executor() -> TaskExecutor:
    """The engine that the environment names."""
    url, name = os.environ["ENGINE_REDIS"], os.environ["ENGINE_NAME"]
    if os.environ["ENGINE"] == "docket":
        from ferrule.integrations.docket import DocketExecutor

        return DocketExecutor(url, name=name, redelivery_s=3)
    from ferrule.integrations.dramatiq import DramatiqExecutor

    return DramatiqExecutor(url, name=name, redelivery_s=3)


def effect(name: str) -> str:
    """Something that must not happen twice."""
    with open(os.environ["ENGINE_FILE"], "a") as file:
        file.write(f"{name} {os.getpid()}\n")
    return name


app: MCPServer[Any] = MCPServer(
    "engine",
    store=os.environ["ENGINE_STORE"],
    extensions=[Tasks(executor=executor(), lease_s=1.5, resubmit_s=3, poll_interval_ms=50)],
)


@app.tool(task="optional", resumable=True)
async def work(ctx: Context, rounds: int = 4) -> str:
    """Steps with a pause after each."""
    done: list[str] = []
    for number in range(rounds):
        done.append(await ctx.step(f"step{number}", effect, f"{number}"))
        await ctx.set_status(f"{number} {os.getpid()}")
        await anyio.sleep(0.6)
    return " ".join(done)


@app.tool(task="optional", resumable=True)
async def named(ctx: Context, name: str) -> str:
    """Steps whose result is noted as kept once it is."""
    for number in range(3):
        await ctx.step(f"step{number}", effect, f"effect:{name}/{number}")
        effect(f"kept:{name}/{number}")
        await anyio.sleep(0.3)
    return name


@app.tool(task="optional")
async def fragile(ctx: Context) -> str:
    """Not resumable."""
    await ctx.set_status(f"0 {os.getpid()}")
    await anyio.sleep(60)
    return ""


@app.tool(task="optional")
async def patient(ctx: Context) -> str:
    """Says where its ``finally`` ran."""
    try:
        await ctx.set_status(f"0 {os.getpid()}")
        await anyio.sleep(60)
    finally:
        effect("finally")
    return ""


@app.tool(task="optional")
async def greet(ctx: Context) -> str:
    """Asks, in a process without a transport."""
    answer = await ctx.elicit("name?", str)
    return f"Hello {answer.data} from {os.getpid()}"


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        run_worker(app, concurrency=4, on_started=lambda: print("ready", flush=True))
    else:
        app.run("http", port=0, on_started=lambda host, port: print(port, flush=True))
