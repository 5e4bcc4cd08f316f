"""A task as it is kept, and as each of the two wires writes it.

The 2025-11-25 core and the extension ``io.modelcontextprotocol/tasks`` differ in names, nesting and one meaning: a
tool result with ``isError`` is a *failed* task in the first and a *completed* one in the second. The record keeps what
happened; the wire decides what to call it.

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
        key, digest, refused: of `AskedQuestion`: its place in the body, its content, how often it was refused.
        method, params: the request that asks it.
    """

    key: str
    digest: str
    refused: int
    method: str
    params: dict[str, Any]


class TaskRecord(Struct, kw_only=True, omit_defaults=True):
    """Everything about a task that a process needs to answer for it, or to go on with it.

    Attributes:
        task_id: unguessable.
        tool, arguments: the call.
        protocol_version, capabilities, client_info, meta: of the request that became the task.
        responses: answers that the request brought from rounds before; for bodies that ask by hand.
        principal: who sent it; ``None`` for nobody in particular.
        created_at, updated_at: seconds since the epoch.
        ttl_ms: life from ``created_at``.
        poll_interval_ms: how often to ask.
        status, status_message: now.
        questions: wire key → what is asked now.
        answers: wire key → (journal key, kind, value): answers that the body has not taken over yet.
        asked: journal key → how often it was asked, for wire keys that are never used twice.
        journal: of the rounds engine; ``None`` before the first step or question.
        result: of a completed call, as its revision writes it. error: of a failed one.
        resumable: whether another process may run the body again from the journal.
        runs: how many processes have begun to run it; whoever runs it holds the last number.
        is_queued: it waits for a process that takes it.
        runner: random mark of the process that took it last.
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
        """For the store."""
        return encode(self)


read_record = decoder(TaskRecord)
"""``bytes -> TaskRecord``."""


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def modern_task(record: TaskRecord, result_type: Literal["task"] | None = None) -> DetailedTask:
    """Return the extension's flat form.

    Args:
        result_type: ``"task"`` for the answer to the request that became a task, which shows no outcome.
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
    """Return the answer to ``tasks/get`` and ``tasks/cancel`` in 2025-11-25."""
    task = legacy_task(record)
    facts = {name: getattr(task, name) for name in task.__struct_fields__}
    return type_(**facts)


def legacy_status_of(modern: Mapping[str, Any]) -> dict[str, Any]:
    """Return params of ``notifications/tasks/status`` (2025-11-25), out of those of ``notifications/tasks``."""
    names = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}
    told = {names.get(key, key): value for key, value in modern.items() if key in _TOLD}
    result: Any = modern.get("result")
    if isinstance(result, Mapping) and cast("Mapping[str, Any]", result).get("isError") is True:
        told["status"] = "failed"
    return told


_TOLD: Final = frozenset({"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"})


def related_meta(task_id: str) -> dict[str, Any]:
    """What messages that belong to a task carry in their ``_meta`` (2025-11-25)."""
    return {META_RELATED_TASK: {"taskId": task_id}}
