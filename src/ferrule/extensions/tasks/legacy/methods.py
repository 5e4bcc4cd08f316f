"""Tasks of revision 2025-11-25: its four methods, and the questions of a task to its client.

A question is sent on the stream of ``tasks/result``, which a client should open when a task needs input. A client that
only calls ``tasks/get`` gets the question on its connection's own stream, at the second call that returns it.

Source: 2025-11-25 "Tasks".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ferrule.extensions.tasks.legacy.notifications import LegacyTaskNotifier
from ferrule.extensions.tasks.record import (
    KeptQuestion,
    TaskRecord,
    legacy_result,
    legacy_task,
    read_record,
    related_meta,
)
from ferrule.extensions.tasks.repository import owner_of
from ferrule.kernel.changes.bus import Listener
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import InvalidParams, LocalError, MCPError, RemoteError
from ferrule.wire.types.tasks import CancelTaskResult, GetTaskResult, ListTasksResult

if TYPE_CHECKING:
    from ferrule.extensions.tasks.extension import Tasks

__all__ = ["LegacyTasks"]

logger = logging.getLogger("ferrule.tasks")

_Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

_LOOK_EVERY_S: Final = 1.0
"""Seconds between two reads of a task by a waiting request, if the store has no channel."""

_LOOK_ANYWAY_S: Final = 5.0
"""Seconds between two reads with a channel, whose messages may be lost."""

_PAGE: Final = 50
_MAX_SEEN: Final = 1000
"""Questions that ``tasks/get`` has returned once; the oldest are dropped, and then sent one call later."""


class LegacyTasks:
    """Serves the four task methods of revision 2025-11-25, and sends a task's questions to the client."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._asking: set[tuple[str, str]] = set()
        self._seen: dict[tuple[str, str], None] = {}
        self._standalone: set[asyncio.Task[None]] = set()

    def get(self, ctx: ServerRequestContext[Any], record: TaskRecord) -> GetTaskResult:
        """Return the answer to ``tasks/get``."""
        for wire_key, asked in record.questions.items():
            key = (record.task_id, wire_key)
            if key in self._asking:
                continue
            if key not in self._seen:  # most clients open tasks/result now
                self._seen[key] = None
                while len(self._seen) > _MAX_SEEN:
                    del self._seen[next(iter(self._seen))]
                continue
            self._asking.add(key)
            question = asyncio.ensure_future(self._ask_standalone(ctx, record, wire_key, asked))
            self._standalone.add(question)
            question.add_done_callback(self._standalone.discard)
        return legacy_result(record, GetTaskResult)

    async def _ask_standalone(
        self, ctx: ServerRequestContext[Any], record: TaskRecord, wire_key: str, asked: KeptQuestion
    ) -> None:
        """Ask on the connection, once for all processes that share the store."""
        left_s = (record.created_at + record.ttl_ms / 1000) - self._tasks.repository.clock()
        try:
            mine = await self._tasks.claim(f"task-question/{record.task_id}/{wire_key}", ttl_s=max(left_s, 1.0))
        except BaseException:
            self._asking.discard((record.task_id, wire_key))
            raise
        if mine:
            connection = ctx.session.connection

            def ask(method: str, params: dict[str, Any]) -> Awaitable[dict[str, Any]]:
                return connection.send_raw_request(method, params, {"timeout_s": max(left_s, 1.0)})

            await self._ask(ask, record.task_id, wire_key, asked)
        else:
            self._asking.discard((record.task_id, wire_key))

    def notify_of(self, ctx: ServerRequestContext[Any], record: TaskRecord) -> None:
        """Send the changes of a task that runs in another process to the client that began it."""
        LegacyTaskNotifier(ctx, record)

    def cancelled(self, ctx: ServerRequestContext[Any], record: TaskRecord) -> CancelTaskResult:
        """Return the answer to ``tasks/cancel``."""
        result = legacy_result(record, CancelTaskResult)
        assert isinstance(result, CancelTaskResult)
        return result

    async def list(self, ctx: ServerRequestContext[Any]) -> ListTasksResult:
        """Serve ``tasks/list``: the caller's own tasks, newest first."""
        owner = owner_of(ctx)
        if not owner:
            return ListTasksResult(tasks=[])
        try:
            found = await self._tasks.repository.store.page(owner, ctx.params.cursor, _PAGE + 1)
        except KeyError as error:
            raise InvalidParams("The cursor is unknown; it may have expired") from error
        tasks = [legacy_task(read_record(stored.body)) for stored in found[:_PAGE]]
        return ListTasksResult(tasks=tasks, next_cursor=found[_PAGE - 1].task_id if len(found) > _PAGE else None)

    async def result(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        """Serve ``tasks/result``: wait for the end, and send the task's questions on this request's stream."""
        task_id = ctx.params.task_id
        repository = self._tasks.repository
        questions: set[asyncio.Task[None]] = set()
        with repository.changes(ctx, task_id) as changes:
            try:
                while True:
                    record = await repository.seen_by(ctx, task_id)
                    if record.is_over:
                        return self._outcome(record)
                    for wire_key, asked in record.questions.items():
                        if (task_id, wire_key) not in self._asking:
                            self._asking.add((task_id, wire_key))
                            question = asyncio.ensure_future(
                                self._ask(ctx.session.send_request, task_id, wire_key, asked)
                            )
                            questions.add(question)
                            question.add_done_callback(questions.discard)
                    changes = await self._until_change(ctx, changes, task_id)
            finally:
                changes.end()
                for question in list(questions):
                    question.cancel()

    async def _until_change(self, ctx: ServerRequestContext[Any], changes: Listener, task_id: str) -> Listener:
        try:
            async with asyncio.timeout(_LOOK_ANYWAY_S if self._tasks.receives_all_changes else _LOOK_EVERY_S):
                await changes.next()
        except TimeoutError:
            return changes
        changes.drain()
        return self._tasks.repository.changes(ctx, task_id) if changes.ended else changes

    async def _ask(self, ask: _Ask, task_id: str, wire_key: str, asked: KeptQuestion) -> None:
        params = {**asked.params, "_meta": related_meta(task_id)}
        try:
            raw = await ask(asked.method, params)
        except RemoteError as error:
            if asked.method == "elicitation/create":  # there the user's refusal has a form of its own
                await self._tasks.answer(task_id, {wire_key: ("answer", {"action": "cancel"})})
            else:
                await self._tasks.answer(task_id, {wire_key: ("invalid", f"The client refused: {error.message}")})
        except LocalError as error:  # this stream has gone; the next ``tasks/result`` asks again
            logger.debug("A question of task %s could not be asked: %s", task_id, error)
        else:
            await self._tasks.answer(task_id, {wire_key: ("answer", raw)})
        finally:
            self._asking.discard((task_id, wire_key))

    @staticmethod
    def _outcome(record: TaskRecord) -> dict[str, Any]:
        """Return what the request would have been answered, with the task's id in ``_meta`` (2025-11-25, "Tasks")."""
        if record.result is not None:
            own: dict[str, Any] = record.result.get("_meta") or {}
            meta = {**own, **related_meta(record.task_id)}
            return {**record.result, "_meta": meta}
        if record.error is not None:
            error = record.error
            if "data" in error:
                raise MCPError(error["message"], code=error["code"], data=error["data"])
            raise MCPError(error["message"], code=error["code"])
        raise InvalidParams(f"The task is {record.status} and has no result")
