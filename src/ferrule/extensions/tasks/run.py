"""One body that is, or may become, a task, in the process that runs it.

The body runs in an asyncio task of its own from the start, so that it can outlive its request. Until it is *promoted*
(at once, after ``task_after_s``, or when the body calls ``begin_task``) the request waits for it and questions are
rounds of the call. The promotion answers the request with the task's handle. From then on the status and the questions
are in the record.

There are two asyncio tasks: the *body*, and from the promotion on the *life* around it, which runs the server's
middleware, so that the outcome of a task passes it like the result of a direct call.

A promoted run sends nothing on the request any more, and a run that is not promoted does not use the store. Every
change is made by `TaskRun._change`, which fails after another process has taken the task over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ferrule.app.execution.running_task import running_task
from ferrule.app.rounds.body import CallBody
from ferrule.app.rounds.journal import Journal
from ferrule.app.rounds.settings import settings_of
from ferrule.app.rounds.state import open_state
from ferrule.app.rounds.suspension import AskedQuestion, WaitingRounds
from ferrule.extensions.tasks.context import TaskDispatch
from ferrule.extensions.tasks.record import KeptQuestion, TaskRecord, modern_task, related_meta
from ferrule.extensions.tasks.repository import TaskGone, TaskRepository, legacy_status_params
from ferrule.kernel.concurrency.cancellation import run_interruptible
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import DispatchContext
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import ServerRequestContext
from ferrule.kernel.session import ServerSession
from ferrule.protocol.errors import InternalError, LocalError, MCPError, error_from_exception
from ferrule.wire.codec import to_builtins
from ferrule.wire.faults import EncodeError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.types import InputRequiredResult
from ferrule.wire.types.tasks import DetailedTask

if TYPE_CHECKING:
    from ferrule.app.components.tools import CallTool
    from ferrule.stores.tasks import StoredTask

Promote: TypeAlias = "Callable[[Journal], Awaitable[tuple[StoredTask, TaskRecord]]]"
"""Makes the record of a call that becomes a task."""

__all__ = ["TaskRun"]

logger = logging.getLogger("ferrule.tasks")

_EXPIRY_MARGIN_S: Final = 0.02
"""Seconds to wait after the expiry of a record. The clocks of event loop and store differ, and the record is read once,
so that it must have expired by then."""

_STATUS_EVERY_S: Final = 0.2
"""Least seconds between two writes of progress; the last progress is always written."""


class TaskRun:
    """One body that is, or may become, a task, in the process that runs it.

    Args:
        repository: the records.
        tool: name of the tool.
        inner: runs the tool's body: ``await inner(ctx, arguments)``.
        arguments: the arguments of the call.
        ctx: the context of the request, or rebuilt from a record.
        dispatch: the dispatch context of the request; ``None`` for a resumed task.
        on_end: called once when the body has ended and its outcome is kept.

    Attributes:
        body: the asyncio task of the body; ``None`` before it starts.
        ended: done when the body has ended and its outcome is kept.
        promoted: set when the run has become a task.
        legacy: the client's connection in the legacy era; ``None`` in the modern one.
        is_elsewhere: whether another process has that connection, or had.
        record: the record as last written; ``None`` before the promotion.
    """

    def __init__(
        self,
        repository: TaskRepository,
        tool: str,
        inner: CallTool,
        arguments: dict[str, Any],
        ctx: ServerRequestContext[Any],
        dispatch: DispatchContext | None,
        *,
        on_end: Callable[[TaskRun], None],
    ) -> None:
        self.tool = tool
        self.arguments = arguments
        self.record: TaskRecord | None = None
        self.promoted = asyncio.Event()
        self.body: asyncio.Task[Any] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._number = 0
        self._renewed_at = 0.0
        self._repository = repository
        self._inner = inner
        self._on_end = on_end
        self._stored: StoredTask | None = None
        self._rounds: WaitingRounds | None = None
        self._journal: Journal | None = None
        self._lock = asyncio.Lock()
        self._answers: dict[str, Any] = {}
        self._promote: Promote | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._update_task: asyncio.Task[None] | None = None
        self._pending_status: tuple[str | None] | None = None
        self._status_task: asyncio.Task[None] | None = None
        self._status_at = 0.0
        self._is_cancelled = False
        self._gives_up = False
        transport = ctx.transport
        self._dispatch = TaskDispatch(self, dispatch, transport)
        connection = ctx.session.connection
        self.legacy = connection if connection.revision.has_sessions else None
        self.is_elsewhere = dispatch is None
        if self.legacy is None:  # its own ends with the request
            connection = Connection.from_envelope(
                connection.protocol_version,
                connection.client_info_raw,
                connection.client_capabilities_raw,
                outbound=self._dispatch,
            )
        self.ctx = ServerRequestContext(
            ServerSession(connection, self._dispatch, ctx.meta),
            ctx.lifespan_context,
            ctx.method,
            ctx.params,
            ctx.request_id,
            ctx.meta,
            ctx.protocol_version,
            transport,
            ctx.server,
        )

    # -- its life -------------------------------------------------------------------------------------------------

    async def prepare(self, promote: Promote) -> None:
        """Read the state and the answers of earlier rounds in the request; call it before `begin` and `start`.

        Args:
            promote: makes the record at the promotion.

        Raises:
            StateRefused: the request has a state that may not be used.
        """
        self._promote = promote
        params = self.ctx.params
        settings = settings_of(self.ctx.server)
        if params.request_state is None:
            self._journal = WaitingRounds.new_journal(settings)
            return
        self._journal = await open_state(self.ctx, settings, params.request_state)
        self._answers = params.input_responses or {}

    def resume(self, stored: StoredTask, record: TaskRecord) -> None:
        """Take over a task that another process began; instead of `prepare` and `begin`."""
        self._stored, self.record = stored, record
        self._journal = Journal.from_json(record.journal)
        self._is_promoted()

    def start(self) -> None:
        """Start the body: of a task inside the middleware, of a call that is not a task (yet) without it."""
        if self.record is None:
            self._start_body()
        else:
            self._start_life()

    def _start_body(self) -> asyncio.Task[Any]:
        self.body = asyncio.get_running_loop().create_task(self._run(), name=f"ferrule-task-{self.tool}")
        return self.body

    def _start_life(self) -> None:
        if self._life is None:
            self._life = asyncio.get_running_loop().create_task(self._live(), name=f"ferrule-task-life-{self.tool}")

    async def begin(self) -> str:
        """Make the call a task, unless it is one already, and return its id.

        Raises:
            MCPError: there are too many tasks.
            LocalError: the round has ended already.
        """
        async with self._lock:
            if self.record is None:
                rounds = self._rounds
                if rounds is not None and rounds.suspending:
                    raise LocalError("The round of this call has ended; it cannot become a task any more")
                assert self._promote is not None
                assert self._journal is not None
                if rounds is not None:
                    rounds.hold()
                try:
                    self._stored, self.record = await self._promote(self._journal)
                finally:
                    if rounds is not None:
                        rounds.release()
                self._is_promoted()
            return self.record.task_id

    @property
    def task_id(self) -> str | None:
        """The task's id; ``None`` while the call is not a task."""
        return None if self.record is None else self.record.task_id

    @property
    def is_task(self) -> bool:
        """Whether it has a record."""
        return self.record is not None

    def handle(self) -> DetailedTask:
        """Return the answer to the request that became this task; after `begin`."""
        assert self.record is not None
        return modern_task(self.record, "task")

    def _is_promoted(self) -> None:
        assert self.record is not None
        self._number = self.record.runs
        self._renewed_at = asyncio.get_running_loop().time()
        self._dispatch.inner = None
        self._stop_listening = self._repository.on_notify(self.record.task_id, self.notify)
        left_s = self.record.created_at + self.record.ttl_ms / 1000 - self._repository.clock()
        self._expiry = asyncio.get_running_loop().call_later(max(0.0, left_s) + _EXPIRY_MARGIN_S, self.notify)
        if self._rounds is not None:
            self._rounds.attach(self)
        self.promoted.set()
        if self._pending_status is not None:
            self._status_task = asyncio.get_running_loop().create_task(self._write_status_in(0))
        if self.body is not None:
            self._start_life()

    async def _live(self) -> None:
        """Run the task inside the middleware, and record its outcome."""
        assert self.record is not None
        running_task.set(self.record.task_id)
        here: list[TaskRun] = [self]
        _run_here.set(here)
        ctx = self.ctx
        params: dict[str, Any] = {"name": self.tool, "arguments": self.arguments}
        if ctx.meta:
            params["_meta"] = dict(ctx.meta)
        outside = replace(ctx, params=params)
        try:
            result = await ctx.server.chain(_innermost)(outside)
        except BaseException as error:
            await self._end_body()
            await self._ended_by(error)
        else:
            await self._end_body()
            await self._completed(result)
        finally:
            here.clear()
            self._over()

    async def finished_body(self) -> Any:
        """Return the body's finished result.

        The body starts here, so that it gets the context variables that middleware has set.

        The arguments are those of the call when it became a task: middleware has changed them with the request, and
        must not change them again.
        """
        value = await (self.body or self._start_body())
        if type(value) is InputRequiredResult:  # the round ended at the same moment as the promotion
            raise InternalError
        return finish_result(self.ctx.server, self.ctx.session.connection, self.ctx.method, value)

    async def _end_body(self) -> None:
        """Cancel a body that is not needed, since a middleware has returned a result without waiting for it."""
        body = self.body
        if body is not None and not body.done():
            self._dispatch.cancel_requested = True
            body.cancel()
            await asyncio.wait([body])

    async def _run(self) -> Any:
        body_task = asyncio.current_task()
        settings = settings_of(self.ctx.server)
        assert self._journal is not None
        assert body_task is not None
        rounds = self._rounds = WaitingRounds(self.ctx, settings, self._journal, body_task)
        rounds.task = self
        self.ctx.session.body = CallBody(body_task, rounds=rounds)
        rounds.accept({key: ("answer", value) for key, value in self._answers.items()})
        if self.record is not None:
            rounds.attach(self)
            if self.record.answers:
                self.notify()
        try:
            try:
                value = await run_interruptible(self._inner(self.ctx, self.arguments), self._dispatch)
            except BaseException as error:
                return await rounds.settle_error(error)
            return await rounds.settle(value)
        except Exception:
            raise
        except BaseException as error:
            raise self.ctx.session.failure_of(error)  # noqa: B904 - it has its cause
        finally:
            if self.record is None:
                self._over()

    def _over(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        if self._expiry is not None:
            self._expiry.cancel()
        for task in (self._status_task, self._update_task):
            if task is not None:
                task.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
        self._on_end(self)

    async def _completed(self, value: Any) -> None:
        try:
            result: dict[str, Any] = to_builtins({} if value is None else value)
        except Exception as error:
            await self._ended_by(error)
            return

        def complete(record: TaskRecord) -> bool:
            self.close(record, "completed")
            record.result = result
            return True

        try:
            await self._settle(complete)
        except EncodeError as error:  # with the record around it, the result is nested too deep
            await self._ended_by(error)

    async def _ended_by(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            await self._interrupted()
            return
        if not isinstance(error, MCPError):
            logger.error("Task %s of tool %r failed", self.record and self.record.task_id, self.tool, exc_info=error)
        shown = error_from_exception(error)
        try:
            await self._failed(to_builtins(shown))
        except EncodeError:
            logger.exception("The data of an error of tool %r cannot be written as JSON", self.tool)
            await self._failed({"code": int(shown.code), "message": shown.message})

    async def _interrupted(self) -> None:
        """Record that the body was cancelled: by the client (recorded already), or because this process ends."""
        if self._is_cancelled:
            return  # the record says so already, or another process has it
        if self._gives_up and self.record is not None and self.record.resumable:
            await self._settle(self._hand_over, release=True)
            return
        why = "The server was stopped" if self._gives_up else "The task ended itself by cancellation"
        if not self._gives_up:
            logger.error(
                "Task %s of tool %r ended itself by cancellation", self.record and self.record.task_id, self.tool
            )
        await self._failed({"code": int(JsonRpcErrorCode.INTERNAL_ERROR), "message": why})

    async def _failed(self, error: dict[str, Any]) -> None:
        """Record a failure.

        Args:
            error: the error of the JSON-RPC response that a direct call would get.

        Raises:
            EncodeError: its data cannot be written as JSON, or are nested too deep for a record.
        """

        def fail(record: TaskRecord) -> bool:
            self.close(record, "failed")
            record.error = error
            record.status_message = error["message"]
            return True

        await self._settle(fail)

    @staticmethod
    def _hand_over(record: TaskRecord) -> bool:
        record.is_queued = True
        return True

    @staticmethod
    def close(record: TaskRecord, status: Any) -> None:
        """End a record."""
        record.status, record.is_queued = status, False
        record.questions, record.answers, record.journal = {}, {}, None

    async def _settle(self, mutate: Callable[[TaskRecord], bool], *, release: bool = False) -> None:
        writing = asyncio.ensure_future(self._change(mutate, release=release))
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled waiter never asks
        try:
            await asyncio.shield(writing)
        except TaskGone:
            logger.info("A task of tool %r ended after it expired or was taken over; its outcome is dropped", self.tool)

    def cancel(self) -> None:
        """Cancel the body, after the client's cancellation was recorded; its ``finally`` blocks run."""
        self._is_cancelled = True
        self._interrupt()

    def give_up(self) -> None:
        """End the body, because this process stops; another process may continue the task."""
        self._gives_up = True
        self._interrupt()

    def _interrupt(self) -> None:
        self._dispatch.cancel_requested = True
        if self.body is not None and not self.body.done():
            self.body.cancel()
        elif self._life is not None:  # in a middleware, before the body or after it
            self._life.cancel()

    # -- the record -----------------------------------------------------------------------------------------------

    async def _change(
        self, mutate: Callable[[TaskRecord], bool], *, release: bool = False, quietly: bool = False
    ) -> TaskRecord:
        """`TaskRepository.change` for the process that runs the task; renews the lease.

        Args:
            mutate: see `TaskRepository.change`.
            release: end the lease in place of renewing it.
            quietly: do not publish the change.

        Raises:
            TaskGone: the record has expired, or another process has taken the task over.
        """
        assert self.record is not None
        is_ours = True

        def fenced(record: TaskRecord) -> bool:
            nonlocal is_ours
            is_ours = record.runs == self._number and not record.is_queued
            return is_ours and mutate(record)

        async with self._lock:
            record = await self._repository.change(
                self.record.task_id, fenced, renew=not release, release=release, announce=not (release or quietly)
            )
            is_ours = is_ours and record.runs == self._number  # one that has ended was not given to ``fenced``
            if is_ours:
                self.record = record
        if not is_ours:
            logger.warning("Task %s was taken over by another process; it ends here", self.record.task_id)
            self.cancel()
            raise TaskGone(self.record.task_id)
        self._renewed_at = asyncio.get_running_loop().time()
        if not quietly:
            await self._publish_status(record)
        runs = self.body is not None and not self.body.done()
        if not self._is_cancelled and (record.status == "cancelled" or (record.is_over and runs)):
            self.cancel()  # a task that is recorded as ended, by its client or for its size, must have ended
        return record

    async def ensure_owned(self) -> None:
        """See `JournalWriter`: a process that was suspended for long must renew its lease before it takes a step."""
        if asyncio.get_running_loop().time() - self._renewed_at > self._repository.lease_s / 2:
            await self._change(lambda record: True, quietly=True)

    async def save(self, journal: Journal, questions: Sequence[AskedQuestion] | None) -> None:
        """See `JournalWriter`."""
        kept = journal.to_json()

        def mutate(record: TaskRecord) -> bool:
            record.journal = kept
            # Answers that are in the journal now need not be kept in the record too.
            record.answers = {
                wire_key: answer for wire_key, answer in record.answers.items() if answer[0] not in journal.entries
            }
            if questions is not None:
                self._ask(record, questions)
            return True

        await self._change(mutate)

    @staticmethod
    def _ask(record: TaskRecord, questions: Sequence[AskedQuestion]) -> None:
        before = {(asked.key, asked.digest, asked.refused): wire_key for wire_key, asked in record.questions.items()}
        answered = {answer[0] for answer in record.answers.values()}
        record.questions = {}
        for question in questions:
            if question.key in answered:
                continue
            wire_key = before.get((question.key, question.digest, question.refused))
            if wire_key is None:
                count = record.asked[question.key] = record.asked.get(question.key, 0) + 1
                wire_key = question.key if count == 1 else f"{question.key}~{count}"
            record.questions[wire_key] = KeptQuestion(
                question.key, question.digest, question.refused, question.method, question.params
            )
        record.status = "input_required" if record.questions else "working"

    def notify(self) -> None:
        """Read the record, which has changed for this run: it has answers, or a cancellation."""
        if self._update_task is None or self._update_task.done():
            self._update_task = asyncio.get_running_loop().create_task(self._read_record())
        else:
            self._update_task.add_done_callback(lambda _: None if self.ended.done() else self.notify())

    async def _read_record(self) -> None:
        assert self.record is not None
        try:
            found = await self._repository.find(self.record.task_id)
            if found is None:
                self.cancel()  # it expired
                return
            record = found[1]
            if record.is_over:
                self.cancel()
                return
            rounds = self._rounds
            if rounds is None or not record.answers:
                return
            rounds.accept({key: (kind, value) for key, kind, value in record.answers.values()})  # type: ignore[misc]
            await self.save(rounds.journal, None)
        except TaskGone:
            self.cancel()
        except Exception:
            logger.exception("A task of tool %r could not read its record", self.tool)

    async def heartbeat(self) -> None:
        """Renew the lease and read the record; what a process does for each of its tasks from time to time."""
        if self.record is None or self.record.is_over or self.ended.done():
            return
        await self._read_record()
        try:
            await self._change(lambda record: True, quietly=True)
        except TaskGone:
            self.cancel()

    # -- how it goes ----------------------------------------------------------------------------------------------

    async def set_status(self, message: str | None) -> None:
        """Set the status message; the message of a call that is not a task yet becomes the first one of the task."""
        self._pending_status = (message,)
        if self.record is None:
            return
        loop = asyncio.get_running_loop()
        if self._status_task is not None and not self._status_task.done():
            return
        wait_s = self._status_at + _STATUS_EVERY_S - loop.time()
        if wait_s <= 0:
            await self._write_status()
        else:
            self._status_task = loop.create_task(self._write_status_in(wait_s))

    async def _write_status_in(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        try:
            await self._write_status()
        except (TaskGone, OSError, MCPError) as error:
            logger.warning("The status of a task of tool %r could not be written: %s", self.tool, error)

    async def _write_status(self) -> None:
        self._status_at = asyncio.get_running_loop().time()
        if self._pending_status is None:
            return
        (message,) = self._pending_status
        self._pending_status = None

        def mutate(record: TaskRecord) -> bool:
            record.status_message = message
            return True

        try:
            await self._change(mutate)
        except TaskGone:
            self.cancel()

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the progress of a task: as status message, and to a legacy client also by a notification."""
        shown = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        await self.set_status(shown if message is None else message)
        token = self.ctx.meta.get("progressToken")
        if self.legacy is not None and token is not None:
            params: dict[str, Any] = {"progressToken": token, "progress": progress}
            if total is not None:
                params["total"] = total
            if message is not None:
                params["message"] = message
            await self.publish("notifications/progress", params)

    async def publish(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification outside any request, with the task's id in its ``_meta``; legacy only (2025-11-25)."""
        if self.legacy is None or self.record is None:
            return
        sent = dict(params or {})
        sent["_meta"] = {**(sent.get("_meta") or {}), **related_meta(self.record.task_id)}
        if self.is_elsewhere:
            self._repository.publish(self.record.task_id, method, sent)
            return
        try:
            await self.legacy.notify(method, sent)
        except (LocalError, OSError) as error:
            logger.debug("%s of a task could not be sent: %s", method, error)

    async def _publish_status(self, record: TaskRecord) -> None:
        if self.legacy is not None and not self.is_elsewhere:  # elsewhere its listener gets every change
            await self.publish("notifications/tasks/status", legacy_status_params(record))


_run_here: Final[ContextVar[list[TaskRun]]] = ContextVar("ferrule_task_run")
"""The run whose life is the current asyncio task. Emptied at its end: a context exists as long as a timer in it."""


async def _innermost(ctx: ServerRequestContext[Any]) -> Any:
    """Call the run's body, as the last step of the middleware; one function, since the server caches a chain for it."""
    (run,) = _run_here.get()
    return await run.finished_body()
