"""Four workers on Redis, a long task with a question, a client that is restarted and a worker that is killed meanwhile.

    python examples/scale/run.py [redis://…]        without an address it needs FERRULE_TEST_REDIS_URL or a local Redis

What you see: the handle comes at once; the first client goes away; the worker that ran the task is killed; another
worker takes the task over without ordering the metal twice; a new client finds the task by its id and answers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ferrule import Client

SERVER = Path(__file__).with_name("server.py")


async def how_many(question: Any, *_: Any) -> dict[str, Any]:
    """The user of the second client."""
    print(f"the server asks: {question.message}  -> 3")
    return {"action": "accept", "content": {"value": 3}}


def worker_that_ordered(lines: Any) -> int:
    """The process that runs the task says so."""
    for line in lines:
        print(line, end="")
        if line.startswith("[worker"):
            return int(line.split()[1].rstrip("]"))
    raise SystemExit("the server ended")


async def story(url: str, server: subprocess.Popen[str]) -> None:
    """See the module."""
    async with Client(url, elicitation_handler=how_many) as client:  # the task may ask what this client declares
        handle = await client.start_tool("cast", {"metal": "brass"})
        print(f"the first client has a handle: {handle.task_id}")
    task_id = handle.task_id
    assert task_id is not None
    print("the first client is gone")
    pid = await asyncio.to_thread(worker_that_ordered, server.stdout)
    await asyncio.sleep(0.5)  # its step is kept
    os.kill(pid, signal.SIGKILL)
    print(f"worker {pid} is killed")
    async with Client(url, elicitation_handler=how_many) as client:
        result = await client.task(task_id, tool="cast").result(timeout_s=60)
        print(f"the second client got: {result.text}")


def main() -> None:
    """Start the server, play the story, end the server."""
    store = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("FERRULE_TEST_REDIS_URL", "redis://localhost:6379/0")
    environment = {**os.environ, "FERRULE_EXAMPLE_STORE": store}
    command = [sys.executable, str(SERVER), "0"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        print(f"four workers serve {url}")
        asyncio.run(story(url, server))
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


if __name__ == "__main__":
    main()
