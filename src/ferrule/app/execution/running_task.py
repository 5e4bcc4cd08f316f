"""The task of the running code, which is the task's body, or middleware around the body.

It is in this layer and not in the tasks extension, because middleware of this layer uses it too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["current_task_id", "is_task_body", "running_task"]

running_task: Final[ContextVar[str | None]] = ContextVar("ferrule_running_task", default=None)
"""Set by the code that runs a task."""


def current_task_id() -> str | None:
    """Return the id of the task that this code is part of; ``None`` in a request.

    A tool call that becomes a task passes the middleware twice: as the request, which is answered by a handle, and
    around the task's body, whose result the client gets later. The id distinguishes the two.
    """
    return running_task.get()


def is_task_body(ctx: ServerRequestContext[Any]) -> bool:
    """Return whether middleware is called around a task's body, and not for a request.

    `current_task_id` alone does not say it: a body may call another server of this process, whose middleware inherits
    the context variable with the request that it must judge.
    """
    running = running_task.get()
    if running is None:
        return False
    carrier = ctx.session.interruptible
    return carrier is not None and carrier.served_task_id == running
