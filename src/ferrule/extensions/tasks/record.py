"""A task record, and its forms in the 2025-11-25 core and in the extension.

The core and the extension ``io.modelcontextprotocol/tasks`` differ in names, nesting and one meaning: a tool result
with ``isError`` is a *failed* task in the core and a *completed* one in the extension. The record is independent of
both.

Sources: 2025-11-25 "Tasks"; ext-tasks "Tasks" (SEP-2663).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from msgspec import Struct, field

from ferrule.wire.codec import decoder, encode
from ferrule.wire.types.base import META_RELATED_TASK
from ferrule.wire.types.tasks import DetailedTask, GetTaskResult, Task, TaskStatus

__all__ = [
    "TERMINAL",
    "KeptQuestion",
    "TaskRecord",
    "legacy_result",
    "legacy_status_of",
    "legacy_task",
    "modern_task",
    "read_record",
    "related_meta",
]

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})


class KeptQuestion(Struct):
    """A question that waits for its answer.

    Attributes:
        key, digest, refused: see `AskedQuestion`.
        method, params: the method and the params of the request that asks it.
    """

    key: str
    digest: str
    refused: int
    method: str
    params: dict[str, Any]


class TaskRecord(Struct, kw_only=True, omit_defaults=True):
    """All data of a task that a process needs to serve requests about it, or to continue it.

    Attributes:
        task_id: a random id.
        tool, arguments: the tool and the arguments of the call.
        protocol_version, capabilities, client_info, meta: the protocol version, the capabilities, the client info and
            the ``_meta`` of the request that became the task.
        responses: answers of earlier rounds in that request, for bodies that return `InputRequired`.
        principal: id of the sender; ``None`` without authentication.
        created_at, updated_at: seconds since the epoch.
        ttl_ms: milliseconds from ``created_at`` until the record expires.
        poll_interval_ms: recommended milliseconds between two requests for the status.
        status, status_message: the current status.
        questions: wire key → open question.
        answers: wire key → (journal key, kind, value): answers that the body has not received yet.
        asked: journal key → number of times that it was asked, for wire keys that are never used twice.
        journal: the journal of the rounds; ``None`` before the first step or question.
        result: the result of a completed call, in the form of its revision.
        error: the error of a failed call.
        resumable: whether another process may run the body again from the journal.
        runs: number of processes that have begun to run it.
        is_queued: whether it waits for a process to run it.
        runner: random mark of the process that took it over last.
    """

    task_id: str
    tool: str
    arguments: dict[str, Any]
    protocol_version: str
    capabilities: Any = None
    client_info: Any = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    responses: dict[str, Any] | None = None
    principal: str | None = None
    created_at: float
    updated_at: float
    ttl_ms: int
    poll_interval_ms: int
    status: TaskStatus = "working"
    status_message: str | None = None
    questions: dict[str, KeptQuestion] = field(default_factory=dict[str, KeptQuestion])
    answers: dict[str, tuple[str, str, Any]] = field(default_factory=dict[str, tuple[str, str, Any]])
    asked: dict[str, int] = field(default_factory=dict[str, int])
    journal: Any = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    resumable: bool = False
    runs: int = 1
    is_queued: bool = False
    runner: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self.status in TERMINAL

    def to_bytes(self) -> bytes:
        """Return the encoded record, for the store."""
        return encode(self)


read_record = decoder(TaskRecord)
"""``bytes -> TaskRecord``."""


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def modern_task(record: TaskRecord, result_type: Literal["task"] | None = None) -> DetailedTask:
    """Return the flat form of the extension.

    Args:
        record: the task.
        result_type: ``"task"`` for the response to the request that became a task, which has no outcome or questions.
    """
    questions: Any = None
    if record.status == "input_required" and result_type is None:
        questions = {key: {"method": asked.method, "params": asked.params} for key, asked in record.questions.items()}
    return DetailedTask(
        result_type=result_type,
        task_id=record.task_id,
        status=record.status,
        status_message=record.status_message,
        created_at=_time(record.created_at),
        last_updated_at=_time(record.updated_at),
        ttl_ms=record.ttl_ms,
        poll_interval_ms=record.poll_interval_ms,
        input_requests=questions,
        result=record.result if record.status == "completed" else None,
        error=record.error if record.status == "failed" else None,
    )


def _legacy_status(record: TaskRecord) -> TaskStatus:
    failed = record.status == "completed" and record.result is not None and record.result.get("isError") is True
    return "failed" if failed else record.status


def legacy_task(record: TaskRecord) -> Task:
    """Return the 2025-11-25 form."""
    return Task(
        task_id=record.task_id,
        status=_legacy_status(record),
        status_message=record.status_message,
        created_at=_time(record.created_at),
        last_updated_at=_time(record.updated_at),
        ttl_ms=record.ttl_ms,
        poll_interval_ms=record.poll_interval_ms,
    )


def legacy_result(record: TaskRecord, type_: type[GetTaskResult]) -> GetTaskResult:
    """Return the result of ``tasks/get`` and ``tasks/cancel`` in 2025-11-25."""
    task = legacy_task(record)
    facts = {name: getattr(task, name) for name in task.__struct_fields__}
    return type_(**facts)


def legacy_status_of(modern: Mapping[str, Any]) -> dict[str, Any]:
    """Return params of ``notifications/tasks/status`` (2025-11-25) made from those of ``notifications/tasks``."""
    names = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}
    params = {names.get(key, key): value for key, value in modern.items() if key in _STATUS_FIELDS}
    result: Any = modern.get("result")
    if isinstance(result, Mapping) and cast("Mapping[str, Any]", result).get("isError") is True:
        params["status"] = "failed"
    return params


_STATUS_FIELDS: Final = frozenset(
    {"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
)


def related_meta(task_id: str) -> dict[str, Any]:
    """Return the ``_meta`` of messages that belong to a task (2025-11-25)."""
    return {META_RELATED_TASK: {"taskId": task_id}}
