"""A process that runs tasks without a transport: the server's lifespan, its store and channel, and an executor.

It uses the same application object as the web processes, with the same tools, middleware and lifespan. It opens no
port. On SIGTERM its running tasks are left to other processes (resumable tools), or fail with a reason.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ferrule.extensions.tasks.extension import Tasks
from ferrule.stores.tasks import MemoryTasks
from ferrule.wire.faults import FerruleError

if TYPE_CHECKING:
    from ferrule.app.server import MCPServer

__all__ = ["NotATaskServer", "run_worker", "work"]


class NotATaskServer(FerruleError, ValueError):
    """The server has no tasks for a worker (the operator's mistake); the message names the options to set."""


async def work(app: MCPServer[Any], *, concurrency: int = 16, on_started: Callable[[], object] | None = None) -> None:
    """Run the tasks of a server until cancelled.

    Args:
        app: the server, as the web processes serve it.
        concurrency: tasks at a time.
        on_started: called once, when the process is ready.

    Raises:
        NotATaskServer: it has no tasks, or keeps them in memory.
    """
    tasks = next((extension for extension in app.extensions.values() if isinstance(extension, Tasks)), None)
    if tasks is None:
        raise NotATaskServer(f"The server {app.name!r} has no tool with task=")
    if isinstance(tasks.repository.store, MemoryTasks):
        raise NotATaskServer(f"The server {app.name!r} keeps its tasks in memory: MCPServer(store='redis://…')")
    app.check()
    async with app.lowlevel.lifespan():
        if on_started is not None:
            on_started()
        await tasks.work(concurrency=concurrency)


def run_worker(app: MCPServer[Any], *, concurrency: int = 16, on_started: Callable[[], object] | None = None) -> None:
    """As `work`, with an event loop of its own, until SIGTERM or SIGINT."""

    async def run_until_signal() -> None:
        loop = asyncio.get_running_loop()
        working = loop.create_task(work(app, concurrency=concurrency, on_started=on_started))
        if sys.platform != "win32":
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, working.cancel)
        with suppress(asyncio.CancelledError):
            await working

    asyncio.run(run_until_signal())
