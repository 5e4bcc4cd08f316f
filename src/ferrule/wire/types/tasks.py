"""Tasks: a request that outlives its answer, in two wires.

Revision 2025-11-25 has them in its core (`Task`, nested in a `CreateTaskResult`); later they are the extension
``io.modelcontextprotocol/tasks`` (`DetailedTask`, flat, with the outcome inside). Python names are the same for both;
the wire names differ (``ttl`` / ``ttlMs``), which is why these are two families and not one superset.

The rule a newcomer would break: ``input_required`` is a *status* here and a ``resultType`` elsewhere.
"""

from typing import Any, Literal, TypeAlias

from msgspec import field

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import NotificationParams, RequestParams, Result
from ferrule.wire.types.rounds import InputRequest

__all__ = [
    "CancelTaskRequestParams",
    "CancelTaskResult",
    "CreateTaskResult",
    "DetailedTask",
    "GetTaskPayloadRequestParams",
    "GetTaskRequestParams",
    "GetTaskResult",
    "ListTasksResult",
    "RelatedTaskMetadata",
    "Task",
    "TaskNotificationParams",
    "TaskStatus",
    "TaskStatusNotificationParams",
    "UpdateTaskRequestParams",
]

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The last three are final."""


class RelatedTaskMetadata(WireStruct):
    """2025-11-25: the value of ``_meta["io.modelcontextprotocol/related-task"]``."""

    task_id: str


class Task(WireStruct):
    """A task as revision 2025-11-25 writes it. Times are ISO 8601; ``ttl_ms`` is ``ttl``, ``None`` is for ever."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = field(name="ttl")
    poll_interval_ms: int | None = field(name="pollInterval", default=None)
    status_message: str | None = None


class CreateTaskResult(Result):
    """2025-11-25: the request runs as ``task``. For the extension's flat form, see `DetailedTask`."""

    task: Task


class GetTaskResult(Task):
    """2025-11-25: the answer to ``tasks/get``: the task itself, with room for ``_meta``."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CancelTaskResult(GetTaskResult):
    """2025-11-25: the answer to ``tasks/cancel``: the task, now cancelled."""


class ListTasksResult(Result):
    """2025-11-25: one page of ``tasks/list``."""

    tasks: list[Task]
    next_cursor: str | None = None


class GetTaskRequestParams(RequestParams):
    """Params of ``tasks/get``, both wires."""

    task_id: str


class GetTaskPayloadRequestParams(RequestParams):
    """2025-11-25: params of ``tasks/result``, which waits for the end and answers with the request's own result."""

    task_id: str


class CancelTaskRequestParams(RequestParams):
    """Params of ``tasks/cancel``, both wires."""

    task_id: str


class TaskStatusNotificationParams(NotificationParams, kw_only=True):
    """2025-11-25: a task changed (``notifications/tasks/status``)."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = field(name="ttl")
    poll_interval_ms: int | None = field(name="pollInterval", default=None)
    status_message: str | None = None


class DetailedTask(Result, kw_only=True):
    """A task as the extension writes it, flat: the result of ``tasks/get`` and, with ``result_type="task"``, of the
    request that became a task.

    ``input_requests`` are there while the status is ``input_required``, ``result`` (as JSON) once it is ``completed``,
    ``error`` (a JSON-RPC error) once it is ``failed``. ``ttl_ms`` counts from ``created_at``, ``None`` is for ever.
    """

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None
    input_requests: dict[str, InputRequest] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class UpdateTaskRequestParams(RequestParams):
    """The extension's ``tasks/update``: answers to some of the task's questions."""

    task_id: str
    input_responses: dict[str, dict[str, Any]]


class TaskNotificationParams(NotificationParams, kw_only=True):
    """The extension's ``notifications/tasks``: the whole task, on a listen stream that asked for it."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None
    input_requests: dict[str, InputRequest] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
