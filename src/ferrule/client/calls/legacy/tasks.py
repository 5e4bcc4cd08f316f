"""Tasks of 2025-11-25: a call asks for one by ``task`` in its params, and ``tasks/result`` waits for its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from ferrule.client.calls.tasks import TaskCancelled
from ferrule.protocol.errors import RemoteError
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.client.connection.connector import Session

__all__ = ["may_ask_for_task", "result_of", "task_param"]


def may_ask_for_task(session: Session) -> bool:
    """Return whether the server of a legacy session runs calls of tools as tasks."""
    if not session.revision.task_methods:
        return False
    tasks: Any = session.raw.get("capabilities", {}).get("tasks")
    return is_mapping(tasks) and "tools" in (tasks.get("requests") or {})


def task_param(ttl_s: float | None) -> dict[str, Any]:
    """Return the ``task`` of a call's params.

    Args:
        ttl_s: seconds for which the server should keep the task; ``None`` lets the server choose.
    """
    return {} if ttl_s is None else {"ttl": int(ttl_s * 1000)}


async def result_of(
    task_id: str | None, request: Awaitable[Any], status: Callable[[], Awaitable[str]]
) -> dict[str, Any]:
    """Return the result of a task.

    Args:
        task_id: the id of the task, for the error.
        request: awaits the response to ``tasks/result``, which the server sends at the end of the task.
        status: returns the status of the task.

    Raises:
        TaskCancelled: the task was cancelled.
        RemoteError: the task failed or expired.
    """
    try:
        return cast("dict[str, Any]", await request)
    except RemoteError:
        if await status() == "cancelled":
            raise TaskCancelled(f"The task {task_id} was cancelled") from None
        raise
