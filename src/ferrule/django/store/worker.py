"""A process that runs the tasks of a project and serves no requests: the function behind ``manage.py mcp worker``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ferrule.extensions.tasks import Tasks
from ferrule.extensions.tasks.worker import NotATaskServer
from ferrule.extensions.tasks.worker import run_worker as run_any_worker

if TYPE_CHECKING:
    from ferrule.django.server import DjangoServer

__all__ = ["run_worker"]


def run_worker(server: DjangoServer, *, concurrency: int = 16, on_started: Callable[[], object] | None = None) -> None:
    """Run the tasks of a project until SIGTERM or SIGINT.

    Args:
        server: the server, with the setting ``MCP["TASK_WORKER"]``.
        concurrency: tasks at a time; each plain function takes a thread and a connection.
        on_started: called once, when the process is ready.

    Raises:
        NotATaskServer: its tasks run in the processes that serve requests.
    """
    tasks = next((each for each in server.extensions.values() if isinstance(each, Tasks)), None)
    if tasks is None or tasks.executor.is_local:
        raise NotATaskServer(
            "The tasks of this project run in the processes that serve requests; a worker runs them with "
            "MCP = {'TASK_WORKER': True}"
        )
    run_any_worker(server, concurrency=concurrency, on_started=on_started)
