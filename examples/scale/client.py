"""A client that survives its own end: the id of its task is in a file, and that is all it needs to go on.

python examples/scale/client.py http://127.0.0.1:8000/mcp task.id
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from ferrule import Client


async def how_many(question: Any, *_: Any) -> dict[str, Any]:
    """Stands for a person."""
    print(f"asked: {question.message}  answered: 3", flush=True)
    return {"action": "accept", "content": {"value": 3}}


def read_id(file: Path) -> str | None:
    """The task of an earlier run."""
    return file.read_text() if file.exists() else None


def write_id(file: Path, task_id: str) -> None:
    """Keep it for the next run."""
    file.write_text(task_id)


async def main(url: str, file: Path) -> None:
    """Begin the task, or go on with the one in the file."""
    task_id = read_id(file)
    async with Client(url, elicitation_handler=how_many) as client:
        if task_id is not None:
            handle = client.task(task_id, tool="cast")
            print(f"goes on with task {task_id}", flush=True)
        else:
            handle = await client.start_tool("cast", {"metal": "brass"})
            write_id(file, str(handle.task_id))
            print(f"has begun task {handle.task_id}", flush=True)
            await asyncio.sleep(3600)  # busy with something else; the task does not mind
        result = await handle.result(timeout_s=60)
        print(f"has got: {result.text}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
