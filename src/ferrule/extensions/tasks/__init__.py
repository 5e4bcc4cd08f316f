"""Tasks: tool calls that outlive their request, in the 2025-11-25 core and in ``io.modelcontextprotocol/tasks``."""

from __future__ import annotations

from ferrule.app.execution.running_task import current_task_id
from ferrule.extensions.tasks.executor import Delivery, InProcess, RunTask, TaskExecutor
from ferrule.extensions.tasks.extension import Tasks
from ferrule.extensions.tasks.worker import NotATaskServer, run_worker, work

__all__ = [
    "Delivery",
    "InProcess",
    "NotATaskServer",
    "RunTask",
    "TaskExecutor",
    "Tasks",
    "current_task_id",
    "run_worker",
    "work",
]
