"""A long job as a task: the client gets a handle at once, watches it, reconnects with the id, or cancels it.

python examples/report.py                         shows it in both eras
python examples/report.py stdio                   serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import anyio

from ferrule import Client, Context, Field, MCPServer
from ferrule.client.calls.tasks import TaskCancelled
from ferrule.extensions.tasks import Tasks

# Only to be asked more often than once a second; `task=` alone turns tasks on. A store lets them outlive the process.
app = MCPServer("report", version="1.0", extensions=[Tasks(poll_interval_ms=200)])


@dataclass
class Report:
    """What comes out."""

    chapters: int
    words: int


@app.tool(task="optional")
async def write_report(
    chapters: Annotated[int, Field(ge=1, le=100)], ctx: Context, pause_s: Annotated[float, Field(ge=0, le=5)] = 0.2
) -> Report:
    """Write a report, chapter by chapter.

    A client without tasks gets the same function as an ordinary call with progress.
    """
    words = 0
    for chapter in range(1, chapters + 1):
        await ctx.progress(chapter - 1, total=chapters, message=f"chapter {chapter}")  # is the task's status, too
        await anyio.sleep(pause_s)  # stands for the work; a cancelled task ends here
        words += 100 * chapter
    return Report(chapters, words)


async def show(client: Client) -> None:
    """Begin two tasks; watch one to its end through a handle found by its id, and cancel the other."""
    first = await client.start_tool("write_report", {"chapters": 3})
    second = await client.start_tool("write_report", {"chapters": 100, "pause_s": 5})
    assert first.task_id is not None
    print("  two handles, before anything is done")
    later = client.task(first.task_id, tool="write_report", result_type=Report)  # as a program started anew would
    async for state in later.events():
        print(f"  {state.status}: {state.message or ''}")
    print(f"  {(await later.result()).data}")
    await second.cancel()
    try:
        await second.result(timeout_s=10)
    except TaskCancelled:
        print("  the other one was cancelled")


if __name__ == "__main__":
    from showing import main

    main(app, show)
