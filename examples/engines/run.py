"""A web process, two workers on dramatiq, a task that asks, and a worker that is killed while it runs the task.

python examples/engines/run.py [redis://…]      without an address it needs FERRULE_TEST_REDIS_URL or a local Redis
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from ferrule import Client

SERVER = str(Path(__file__).with_name("server.py"))


async def how_many(question: Any, *_: Any) -> dict[str, Any]:
    """The user."""
    print(f"the task asks: {question.message}  -> 3")
    return {"action": "accept", "content": {"value": 3}}


def worker_that_ordered(said: IO[str]) -> int:
    """The worker that runs the task says so on its standard output; both have the same."""
    for line in said:
        print(line, end="")
        if line.startswith("[worker"):
            return int(line.split()[1].rstrip("]"))
    raise SystemExit("no worker began the task")


async def until_up(port: int) -> None:
    """The web process is there when its port is open."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def story(port: int, said: IO[str]) -> None:
    """See the module."""
    await until_up(port)
    async with Client(f"http://127.0.0.1:{port}/mcp", elicitation_handler=how_many) as client:
        handle = await client.start_tool("mill", {"kind": "rye"})
        print(f"the client has a handle: {handle.task_id}")
        pid = await asyncio.to_thread(worker_that_ordered, said)
        async for state in handle.events():
            if state.status == "input_required":  # its step is kept
                break
        os.kill(pid, signal.SIGKILL)
        print(f"worker {pid} is killed")
        result = await handle.result(timeout_s=60)
        print(f"the other worker has: {result.text}")


def main() -> None:
    """Start the processes, run the steps of the example, end them."""
    if find_spec("dramatiq") is None:
        raise SystemExit("dramatiq is not installed: pip install 'ferrule[dramatiq]'")
    store = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("FERRULE_TEST_REDIS_URL", "redis://localhost:6379/0")
    environment = {
        **os.environ,
        "FERRULE_EXAMPLE_STORE": f"{store}?prefix=mill-{secrets.token_hex(4)}",
        "FERRULE_EXAMPLE_QUEUE": store,
    }
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ferrule = [sys.executable, "-m", "ferrule"]
    web = subprocess.Popen([*ferrule, "run", SERVER, "--http", "--port", str(port)], env=environment)
    read, write = os.pipe()
    workers = [subprocess.Popen([*ferrule, "worker", SERVER], env=environment, stdout=write) for _ in range(2)]
    os.close(write)
    try:
        with os.fdopen(read) as said:
            asyncio.run(story(port, said))
    finally:
        for process in (web, *workers):
            process.terminate()
        for process in (web, *workers):
            process.wait(20)


if __name__ == "__main__":
    main()
