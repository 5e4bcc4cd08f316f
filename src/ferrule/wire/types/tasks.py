"""Tasks: requests that continue after their response, in two wire formats.

Revision 2025-11-25 has tasks in its core (`Task`, nested in a `CreateTaskResult`); later they are the extension
``io.modelcontextprotocol/tasks`` (`DetailedTask`, without nesting, with its outcome). The Python names are the same,
but the wire names differ (``ttl`` and ``ttlMs``), so that one set of types cannot have both.

``input_required`` is a *status* here, and a ``resultType`` in other modules.
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
"""The status of a task; the last three are final."""


class RelatedTaskMetadata(WireStruct):
    """2025-11-25: the value of ``_meta["io.modelcontextprotocol/related-task"]``."""

    task_id: str


class Task(WireStruct):
    """A task in the form of revision 2025-11-25. Times are ISO 8601; ``ttl_ms`` (wire: ``ttl``): ``None``: no end."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = field(name="ttl")
    poll_interval_ms: int | None = field(name="pollInterval", default=None)
    status_message: str | None = None


class CreateTaskResult(Result):
    """2025-11-25: the request runs as the task ``task``. For the form of the extension, see `DetailedTask`."""

    task: Task


class GetTaskResult(Task):
    """2025-11-25: the result of ``tasks/get``: the members of the task, and ``_meta``."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CancelTaskResult(GetTaskResult):
    """2025-11-25: the result of ``tasks/cancel``: the cancelled task."""


class ListTasksResult(Result):
    """2025-11-25: one page of ``tasks/list``."""

    tasks: list[Task]
    next_cursor: str | None = None


class GetTaskRequestParams(RequestParams):
    """Params of ``tasks/get`` in both formats."""

    task_id: str


class GetTaskPayloadRequestParams(RequestParams):
    """2025-11-25: params of ``tasks/result``, which waits for the end of a task and returns its request's result."""

    task_id: str


class CancelTaskRequestParams(RequestParams):
    """Params of ``tasks/cancel`` in both formats."""

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
    """A task in the form of the extension: the result of ``tasks/get``, and of a request that became a task.

    The latter has ``result_type="task"``. It has ``input_requests`` while the status is ``input_required``, ``result``
    (as JSON) if it is ``completed``, and ``error`` (a JSON-RPC error) if it is ``failed``. ``ttl_ms`` counts from
    ``created_at``; ``None``: no end.
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
    """Params of the extension's ``tasks/update``: answers to questions of a task."""

    task_id: str
    input_responses: dict[str, dict[str, Any]]


class TaskNotificationParams(NotificationParams, kw_only=True):
    """Params of the extension's ``notifications/tasks``: the whole task, for a subscription with its id."""

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
