"""Tasks on several workers of which one after the other is killed: nothing that was kept happens twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule import Client
from ferrule.protocol.errors import ConnectionClosed

pytestmark = pytest.mark.anyio

PROGRAM = """
import os, sys
import anyio
from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Tasks

app = MCPServer("chaos", store=os.environ["CHAOS_STORE"], extensions=[Tasks(lease_s=1, poll_interval_ms=50)])

def effect(name: str) -> str:
    with open(os.environ["CHAOS_FILE"], "a") as file:
        file.write(name + "\\n")
    return name

@app.tool(task="required", resumable=True)
async def work(ctx: Context) -> str:
    done = []
    for number in range(4):
        done.append(await ctx.step(f"step{number}", effect, f"{number}"))
        await ctx.set_status(f"{number} {os.getpid()}")
        await anyio.sleep(0.4)
    return " ".join(done)

if __name__ == "__main__":
    app.run("http", port=0, workers=2, on_started=lambda host, port: print(port, flush=True))
"""


async def test_a_task_survives_each_worker_that_runs_it(server_store: Callable[[], str], tmp_path: Path) -> None:
    """``kill -9`` after every kept step but the last; each step takes effect once."""
    script, effects = tmp_path / "program.py", tmp_path / "effects"
    script.write_text(PROGRAM)
    environment = {
        **os.environ,
        "CHAOS_STORE": server_store(),
        "CHAOS_FILE": str(effects),
    }
    server = subprocess.Popen([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        killed: set[int] = set()
        async with Client(url, mode="2026-07-28") as client, asyncio.timeout(60):
            handle = await client.start_tool("work")
            for number in range(3):
                while True:
                    try:
                        state = await handle.status()
                    except ConnectionClosed:  # the connection was to the one that was killed
                        continue
                    at, _, pid = (state.message or "").partition(" ")
                    if at == str(number) and int(pid) not in killed:
                        break
                    await asyncio.sleep(0.02)
                os.kill(int(pid), signal.SIGKILL)
                killed.add(int(pid))
            result = await handle.result()
        assert result.text == "0 1 2 3"
        assert len(killed) == 3
        assert effects.read_text().split() == ["0", "1", "2", "3"]
    finally:
        server.terminate()
        server.wait(30)
        if server.stdout is not None:
            server.stdout.close()
