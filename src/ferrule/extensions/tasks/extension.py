"""`Tasks`: tool calls that continue after their request, in both eras.

========================  ==============================================  ===========================================
                          2025-11-25 (core)                               2026-07-28 on (extension)
========================  ==============================================  ===========================================
who decides               the client, with ``params.task``                the server, for clients that declare it
handle                    ``CreateTaskResult.task``                       flat, ``resultType: "task"``
outcome                   ``tasks/result``, which waits                   inside ``tasks/get``
questions                 asked on the stream of ``tasks/result``         in ``tasks/get``, answered by ``tasks/update``
list                      ``tasks/list``                                  none
========================  ==============================================  ===========================================

A task runs in the process that received its call, or in one to which a `TaskExecutor` delivers it. With a store that
other processes share, another process runs a task again if its tool is ``resumable`` and replays its recorded steps and
answers; any other task fails with the reason.

asyncio only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ferrule.app.authorization.principals import principal_id, principal_of
from ferrule.app.errors import RegistrationError
from ferrule.app.rounds.journal import Journal
from ferrule.app.rounds.settings import settings_of
from ferrule.app.rounds.suspension import WaitingRounds
from ferrule.app.signatures.shapes import is_secret_shape
from ferrule.extensions.base import Extension, ExtensionMethod
from ferrule.extensions.tasks.executor import InProcess, TaskExecutor
from ferrule.extensions.tasks.record import TaskRecord, legacy_task, modern_task, related_meta
from ferrule.extensions.tasks.repository import CHANGED, TaskGone, TaskRepository, new_task_id, owner_of
from ferrule.extensions.tasks.run import TaskRun
from ferrule.extensions.tasks.scheduler import TaskScheduler
from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.kernel.server import GrantTopics, Server, ServerRequestContext
from ferrule.kernel.serving.members import MAX_LISTENED_TASKS, TaskDirectory
from ferrule.protocol.errors import InvalidParams, MCPError, MethodNotFound
from ferrule.protocol.secret_forms import MASK
from ferrule.stores.tasks import MemoryTasks, StoredTask, TaskStore
from ferrule.wire.codec import to_builtins
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import REVISIONS, Revision
from ferrule.wire.types.base import EmptyResult
from ferrule.wire.types.server_features.tools import CallToolRequestParams
from ferrule.wire.types.tasks import (
    CancelTaskRequestParams,
    CreateTaskResult,
    GetTaskRequestParams,
    UpdateTaskRequestParams,
)

if TYPE_CHECKING:
    from ferrule.app.components.tools import CallTool, ToolComponent
    from ferrule.app.server import MCPServer
    from ferrule.extensions.tasks.legacy.methods import LegacyTasks
    from ferrule.stores.marks import OneTimeMarks

__all__ = ["Tasks"]

logger = logging.getLogger("ferrule.tasks")


class Tasks(Extension):
    """The tasks extension; ``MCPServer(extensions=[Tasks(…)])``, or implied by ``@app.tool(task=…)``.

    A call that becomes a task while it runs (``task_after_s``, ``ctx.begin_task``) stays in the process that received
    it, whatever the executor.

    Args:
        store: keeps the records; ``None`` for the server's store.
        ttl_s: seconds from its creation that a task is kept; a legacy client may request less, or more up to
            ``max_ttl_s``. A task that still runs then is cancelled.
        max_ttl_s: maximum of the seconds that a legacy client may request.
        poll_interval_ms: recommended interval between two requests for the status.
        max_tasks, max_per_owner: maximum number of records, of all owners and of one principal (or legacy session).
        max_task_bytes: maximum size of one record, with outcome and journal; a larger one fails.
        lease_s: seconds without a heartbeat of its process after which another process may take a task over.
        patience_s: seconds to wait for an unreachable store.
        executor: delivers tasks to the processes that run them; ``None`` runs them in the process that received the
            call. An executor needs a store that all these processes share.
        resubmit_s: seconds after which a task that no process has begun is submitted to the executor again.
    """

    identifier: ClassVar[str] = "io.modelcontextprotocol/tasks"
    serves_tasks: ClassVar[bool] = True

    def __init__(
        self,
        *,
        store: TaskStore | None = None,
        ttl_s: float = 3600.0,
        max_ttl_s: float = 24 * 3600.0,
        poll_interval_ms: int = 1000,
        max_tasks: int = 10_000,
        max_per_owner: int = 1_000,
        max_task_bytes: int = 4 * 1024 * 1024,
        lease_s: float = 15.0,
        patience_s: float = 10.0,
        executor: TaskExecutor | None = None,
        resubmit_s: float = 60.0,
    ) -> None:
        self.ttl_ms = int(ttl_s * 1000)
        self.max_ttl_ms = int(max_ttl_s * 1000)
        self.poll_interval_ms = poll_interval_ms
        self._store = store
        self._bounds: dict[str, Any] = {
            "lease_s": lease_s,
            "patience_s": patience_s,
            "max_tasks": max_tasks,
            "max_per_owner": max_per_owner,
            "max_task_bytes": max_task_bytes,
        }
        self._repository: TaskRepository | None = None
        self.executor: TaskExecutor = InProcess() if executor is None else executor
        self._scheduler = TaskScheduler(lambda: self.repository, self.executor, resubmit_s=resubmit_s)
        self._runs = self._scheduler.runs
        self._has_channel = False
        self._marks: OneTimeMarks | None = None

    @property
    def repository(self) -> TaskRepository:
        """The task records; made on first use, when the store is known."""
        if self._repository is None:
            self._repository = TaskRepository(self._store if self._store is not None else MemoryTasks(), **self._bounds)
        return self._repository

    @property
    def receives_all_changes(self) -> bool:
        """Whether this process receives an event for each change of a task, also of those by other processes."""
        return self._has_channel or isinstance(self.repository.store, MemoryTasks)

    @property
    def running_here(self) -> int:
        """Number of bodies that run in this process, also of calls that are not tasks (yet)."""
        return len(self._runs)

    # -- the extension --------------------------------------------------------------------------------------------

    def methods(self) -> Mapping[str, ExtensionMethod]:
        """See `Extension`."""
        legacy = {
            "tasks/result": ExtensionMethod(self._result, needs_opt_in=False),
            "tasks/list": ExtensionMethod(self._list, needs_opt_in=False),
        }
        has_legacy = any(revision.task_methods for revision in REVISIONS.values())
        return {
            **(legacy if has_legacy else {}),
            "tasks/get": ExtensionMethod(self._get, GetTaskRequestParams, "taskId"),
            "tasks/update": ExtensionMethod(self._update, UpdateTaskRequestParams, "taskId"),
            "tasks/cancel": ExtensionMethod(self._cancel, CancelTaskRequestParams, "taskId"),
        }

    def result_types(self) -> Iterable[str]:
        """See `Extension`."""
        return ("task",)

    def filters(self) -> Mapping[str, GrantTopics]:
        """See `Extension`."""
        return {"taskIds": self._grant}

    def capabilities(self, revision: Revision) -> Mapping[str, Any]:
        """See `Extension`."""
        if not revision.task_methods:
            return {}
        return {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}

    def install(self, server: Server[Any]) -> None:
        """See `Extension`."""
        super().install(server)
        self.repository.serve(server)
        server.attachments[TaskDirectory] = self  # type: ignore[type-abstract]  # a protocol as a key

    async def tool_of(self, task_id: str) -> str | None:
        """See `ferrule.kernel.serving.members.TaskDirectory`."""
        found = await self.repository.find(task_id)
        return None if found is None else found[1].tool

    def attach(self, app: MCPServer[Any]) -> None:
        """See `Extension`."""
        if self._store is None and app.store is not None:
            self._store = app.store.tasks
        self._has_channel = app.store is not None and app.store.channel is not None
        self._marks = None if app.store is None else app.store.marks
        if not self.executor.is_local and isinstance(self.repository.store, MemoryTasks):
            raise ValueError("An executor needs a store that all its processes see: MCPServer(store='redis://…')")
        super().attach(app)

    def prepare_tool(self, tool: ToolComponent) -> None:
        """See `Extension`."""
        tool.wrap = self.wrap
        if tool.task != "forbidden":
            if (tool.resumable or not self.executor.is_local) and _secret_parameters(tool):
                raise RegistrationError(
                    f"Tool {tool.name!r} has a Secret among its parameters, which no store may hold: it can be a task "
                    "only in the process that has received its call, and cannot be resumable"
                )
            self._scheduler.tools[tool.name] = tool

    # -- calls ----------------------------------------------------------------------------------------------------

    def wrap(self, tool: ToolComponent, inner: CallTool) -> CallTool:
        """Return the function that serves a tool: as a plain call, or as a task if tool, client and era allow that."""
        if tool.task == "forbidden":

            def forbidden(ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Any:
                is_call = isinstance(ctx.params, CallToolRequestParams)
                if is_call and ctx.params.task is not None and ctx.revision.task_methods:
                    raise MethodNotFound("tools/call with task")
                return inner(ctx, arguments)

            return forbidden

        async def capable(ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Any:
            if ctx.session.body is not None:  # a tool called by a tool: part of the same call
                return await inner(ctx, arguments)
            if not is_asyncio():
                return await self._serve_plainly(tool, inner, ctx, arguments)
            if ctx.revision.has_extensions:
                if tool.task == "required":
                    self.require(ctx)
                elif not self.is_declared(ctx):
                    return await inner(ctx, arguments)
                return await self._serve_modern(tool, inner, ctx, arguments or {})
            if not ctx.revision.task_methods or ctx.params.task is None:
                if tool.task == "required":
                    raise MethodNotFound(f"tools/call without task: the tool {tool.name!r} runs as a task only")
                return await inner(ctx, arguments)
            return await self._serve_legacy(tool, inner, ctx, arguments or {})

        return capable

    async def _serve_plainly(
        self, tool: ToolComponent, inner: CallTool, ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None
    ) -> Any:
        """Serve a call without tasks, on an event loop that is not asyncio's; refuse one that must be a task."""
        if tool.task == "required":
            why = f"The tool {tool.name!r} runs as a task only, and tasks need asyncio"
            raise MCPError(why, code=int(JsonRpcErrorCode.INTERNAL_ERROR))
        if ctx.params.task is not None and ctx.revision.task_methods:
            raise MethodNotFound("tools/call with task: tasks need asyncio")
        return await inner(ctx, arguments)

    async def _serve_modern(
        self, tool: ToolComponent, inner: CallTool, ctx: ServerRequestContext[Any], arguments: dict[str, Any]
    ) -> Any:
        at_once = tool.task_after_s is not None and tool.task_after_s <= 0
        if at_once and not self.executor.is_local and ctx.params.request_state is None:
            return modern_task(await self._queue(tool, ctx, arguments, self.ttl_ms), "task")
        run = self._run(tool, inner, ctx, arguments)
        await run.prepare(lambda journal: self._make(tool, ctx, arguments, self.ttl_ms, journal))
        ctx.session.notes |= run.ctx.session.notes
        if at_once:
            await run.begin()
            self._scheduler.start(run)
            return run.handle()
        self._scheduler.start(run)
        outcome = await self._outlast(run, tool.task_after_s)
        return outcome if run.task_id is None else run.handle()

    def _run(
        self, tool: ToolComponent, inner: CallTool, ctx: ServerRequestContext[Any], arguments: dict[str, Any]
    ) -> TaskRun:
        return TaskRun(
            self.repository, tool.name, inner, arguments, ctx, ctx.session.dispatch, on_end=self._scheduler.forget
        )

    async def _queue(
        self, tool: ToolComponent, ctx: ServerRequestContext[Any], arguments: dict[str, Any], ttl_ms: int
    ) -> TaskRecord:
        """Create a task that any process of the executor may run, and return its record."""
        journal = WaitingRounds.new_journal(settings_of(ctx.server))
        _, record = await self._make(tool, ctx, arguments, ttl_ms, journal, queued=True)
        await self._scheduler.submit(record)
        return record

    async def _outlast(self, run: TaskRun, task_after_s: float | None) -> Any:
        """Wait for the body, or until the run is a task."""
        body = cast("asyncio.Task[Any]", run.body)
        promoted = asyncio.ensure_future(run.promoted.wait())
        try:
            await asyncio.wait({body, promoted}, timeout=task_after_s, return_when=asyncio.FIRST_COMPLETED)
            if body.done() or run.promoted.is_set():
                return None if run.is_task else body.result()
            try:
                await run.begin()
            except MCPError as error:  # no room for a task: the client waits as if there were none
                logger.info("A call of %r outlasts its threshold but cannot become a task: %s", run.tool, error)
            except Exception as error:
                logger.warning("A call of %r outlasts its threshold and could not be made a task: %r", run.tool, error)
            if not run.is_task:
                await asyncio.wait({body, promoted}, return_when=asyncio.FIRST_COMPLETED)
            return None if run.is_task else body.result()
        except asyncio.CancelledError:
            if not run.is_task:  # the client withdrew its request: that is not a cancellation of a task
                run.cancel()
                await asyncio.wait({body})
            raise
        finally:
            promoted.cancel()

    async def _serve_legacy(
        self, tool: ToolComponent, inner: CallTool, ctx: ServerRequestContext[Any], arguments: dict[str, Any]
    ) -> Any:
        wanted = ctx.params.task.ttl_ms
        ttl_ms = self.ttl_ms if wanted is None else max(1000, min(wanted, self.max_ttl_ms))
        if self.executor.is_local:
            run = self._run(tool, inner, ctx, arguments)
            await run.prepare(lambda journal: self._make(tool, ctx, arguments, ttl_ms, journal))
            await run.begin()
            record = cast("TaskRecord", run.record)
            self._scheduler.start(run)
        else:
            record = await self._queue(tool, ctx, arguments, ttl_ms)
            self._legacy.notify_of(ctx, record)
        return CreateTaskResult(task=legacy_task(record), meta=related_meta(record.task_id))

    async def _make(
        self,
        tool: ToolComponent,
        ctx: ServerRequestContext[Any],
        arguments: dict[str, Any],
        ttl_ms: int,
        journal: Journal,
        *,
        queued: bool = False,
    ) -> tuple[StoredTask, TaskRecord]:
        now = self.repository.clock()
        connection = ctx.session.connection
        secret = _secret_parameters(tool)
        record = TaskRecord(
            task_id=new_task_id(),
            tool=tool.name,
            arguments={name: MASK if name in secret else value for name, value in arguments.items()},
            protocol_version=connection.protocol_version,
            capabilities=to_builtins(connection.client_capabilities_raw),
            client_info=to_builtins(connection.client_info_raw),
            meta=dict(ctx.meta),
            responses=ctx.params.input_responses,
            principal=principal_id(principal_of(ctx)),
            created_at=now,
            updated_at=now,
            ttl_ms=ttl_ms,
            poll_interval_ms=self.poll_interval_ms,
            journal=journal.to_json(),
            resumable=tool.resumable,
            runs=0 if queued else 1,
            is_queued=queued,
        )
        lease_s = self._scheduler.resubmit_s if queued else None
        return await self.repository.add(record, owner_of(ctx), lease_s=lease_s), record

    # -- methods of revisions with tasks in their core ---------------------------------------------------------------

    @cached_property
    def _legacy(self) -> LegacyTasks:
        # The one import of the legacy folder in this layer; no modern request comes here.
        from ferrule.extensions.tasks.legacy.methods import LegacyTasks

        return LegacyTasks(self)

    async def _result(self, ctx: ServerRequestContext[Any]) -> Any:
        return await self._legacy.result(ctx)

    async def _list(self, ctx: ServerRequestContext[Any]) -> Any:
        return await self._legacy.list(ctx)

    # -- methods of both wires ------------------------------------------------------------------------------------

    async def _get(self, ctx: ServerRequestContext[Any]) -> Any:
        record = await self.repository.seen_by(ctx, ctx.params.task_id)
        return modern_task(record) if ctx.revision.has_extensions else self._legacy.get(ctx, record)

    async def _update(self, ctx: ServerRequestContext[Any]) -> EmptyResult:
        if not ctx.revision.has_extensions:
            raise MethodNotFound(ctx.method)
        await self.repository.seen_by(ctx, ctx.params.task_id)
        await self.answer(ctx.params.task_id, {key: ("answer", raw) for key, raw in ctx.params.input_responses.items()})
        return EmptyResult()

    async def answer(self, task_id: str, answers: Mapping[str, tuple[str, Any]]) -> None:
        """Store answers by wire key and notify the process that runs the task; answers to no question are ignored.

        Raises:
            InvalidParams: there is no such task.
        """

        def mutate(record: TaskRecord) -> bool:
            taken = [wire_key for wire_key in answers if wire_key in record.questions]
            for wire_key in taken:
                asked = record.questions.pop(wire_key)
                record.answers[wire_key] = (asked.key, *answers[wire_key])
            if taken and not record.questions:
                record.status = "working"
            return bool(taken)

        try:
            await self.repository.change(task_id, mutate)
        except TaskGone as error:
            raise InvalidParams("There is no such task; it may have expired") from error
        self.repository.notify(task_id)

    async def claim(self, key: str, *, ttl_s: float) -> bool:
        """Return whether the caller is the first to claim a key, among all processes that share the store."""
        return self._marks is None or (await self._marks.begin(key, ttl_s=ttl_s)).state == "mine"

    async def _cancel(self, ctx: ServerRequestContext[Any]) -> Any:
        task_id = ctx.params.task_id
        record = await self.repository.seen_by(ctx, task_id)
        by_extension = ctx.revision.has_extensions
        if record.is_over:
            if by_extension:
                return EmptyResult()
            raise InvalidParams(f"The task is {record.status} already")

        was_queued = record.is_queued

        def mutate(record: TaskRecord) -> bool:
            TaskRun.close(record, "cancelled")
            record.status_message = "Cancelled by the client"
            return True

        try:
            record = await self.repository.change(task_id, mutate)
        except TaskGone as error:
            raise InvalidParams("There is no such task; it may have expired") from error
        self.repository.notify(task_id)
        if was_queued and not self.executor.is_local:
            await self._scheduler.withdraw(record)
        return EmptyResult() if by_extension else self._legacy.cancelled(ctx, record)

    async def _grant(self, ctx: ServerRequestContext[Any], wanted: Any) -> tuple[Any, Iterable[tuple[str, str]]]:
        """Return the granted part of the task ids in a listen filter: those that exist and belong to the caller."""
        self.require(ctx)
        if not isinstance(wanted, list):
            raise InvalidParams("taskIds is a list of task ids")
        ids = list(dict.fromkeys(str(task_id) for task_id in cast("list[Any]", cast("object", wanted))))
        if len(ids) > MAX_LISTENED_TASKS:
            raise InvalidParams(f"A subscription names {MAX_LISTENED_TASKS} tasks at most")
        granted: list[str] = []
        for task_id in ids:
            found = await self.repository.find(task_id)
            if found is not None and self.repository.is_theirs(ctx, found[1]):
                granted.append(task_id)
        return granted, [(CHANGED, task_id) for task_id in granted]

    # -- the process ----------------------------------------------------------------------------------------------

    def running(self, server: Server[Any], state: Any) -> AbstractAsyncContextManager[Any]:
        """See `Extension`."""
        return self._scheduler.running(server, state)

    async def work(self, *, concurrency: int = 16) -> None:
        """Run the tasks that the executor delivers, until cancelled, inside the server's lifespan; see `run_worker`."""
        await self._scheduler.work(concurrency)


def _secret_parameters(tool: ToolComponent) -> frozenset[str]:
    """Return the names of the parameters that are secret, whose arguments are in no record."""
    return frozenset(part.name for part in tool.spec.parameters if is_secret_shape(part.shape))
