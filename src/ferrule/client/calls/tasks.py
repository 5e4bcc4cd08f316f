"""Tasks on the client's side: a handle to await a task, read its status, cancel it, and find it again by its id.

The handle is the same in both eras. In the extension (2026-07-28) the response to ``tasks/get`` has the outcome and the
questions. It is sent after each notification of a change, if the server offers them (``subscriptions/listen``), else at
the interval that the server suggests. In 2025-11-25 ``tasks/result`` waits, and questions come as requests of the
server. In both, the client's handlers answer the questions, each once.

A handle keeps a request or subscription open only while it is awaited. It needs no clean-up, and a restarted program
needs only its id.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.calls.request_sender import NOT_GIVEN, RequestSender, UnfinishedCall
from ferrule.client.calls.results import ToolCallResult
from ferrule.client.calls.subscriptions import Subscription, SubscriptionSet
from ferrule.client.concurrent import gather
from ferrule.client.errors import BadServerResponse, InputRequiredError, TooManyRounds
from ferrule.protocol.errors import ConnectionClosed, LocalError, RemoteError
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY
from ferrule.transports.http.backend import HttpConnectFailed
from ferrule.wire.faults import FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.types.tasks import TaskStatus

if TYPE_CHECKING:
    from ferrule.client.calls.lists import ResultReader
    from ferrule.client.calls.tools import ToolResults
    from ferrule.client.connection.connector import Session
    from ferrule.client.server_messages import ProgramHooks

__all__ = ["TASKS_EXTENSION", "TaskCalls", "TaskCancelled", "TaskHandle", "TaskState", "task_meta"]

logger = logging.getLogger("ferrule.client")

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""Identifier of the tasks extension. A client that declares it (``Client(extensions={TASKS_EXTENSION: {}})``) lets
servers run calls of `Client.call_tool` as tasks too."""

_FINAL: Final = frozenset({"completed", "failed", "cancelled"})
_DEFAULT_POLL_S: Final = 1.0
# Bounds of the interval that a server suggests: 0 would be an endless loop, and an hour would delay the result.
_MIN_POLL_S: Final = 0.02
_MAX_POLL_S: Final = 60.0
# With the growing pauses this is about 6 seconds, enough for a restart of a server.
_LOST_TRIES: Final = 8
_LISTENING_POLL_S: Final = 15.0
"""Seconds between two polls of a task whose changes are subscribed to: a notification may be lost."""


class TaskCancelled(LocalError):
    """The task was cancelled; there is no result."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task.

    Attributes:
        task_id: its id.
        status: ``working``, ``input_required``, ``completed``, ``failed`` or ``cancelled``.
        message: the status message, for people; ``None`` if the server sends none.
        created_at, updated_at: by the server's clock; ``None`` if they are missing or malformed.
        ttl_s: lifetime from ``created_at`` in seconds; ``None``: unlimited.
        poll_interval_s: seconds between two polls that the server suggests.
        raw: the task as received.
    """

    task_id: str
    status: TaskStatus
    message: str | None
    created_at: datetime | None
    updated_at: datetime | None
    ttl_s: float | None
    poll_interval_s: float
    raw: Mapping[str, Any]

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self.status in _FINAL


def _state(raw: Mapping[str, Any]) -> TaskState:
    task_id, status = raw.get("taskId"), raw.get("status")
    if not isinstance(task_id, str) or status not in (*_FINAL, "working", "input_required"):
        raise BadServerResponse(f"The server describes a task without an id or with the unknown status {status!r}")
    ttl_ms = raw.get("ttlMs", raw.get("ttl"))
    poll_ms = raw.get("pollIntervalMs", raw.get("pollInterval"))
    poll_s = _seconds(poll_ms)
    return TaskState(
        task_id,
        cast("TaskStatus", status),
        raw.get("statusMessage"),
        _moment(raw.get("createdAt")),
        _moment(raw.get("lastUpdatedAt")),
        _seconds(ttl_ms),
        min(_MAX_POLL_S, max(_MIN_POLL_S, _DEFAULT_POLL_S if poll_s is None else poll_s)),
        raw,
    )


def _seconds(milliseconds: Any) -> float | None:
    """Return milliseconds that a server names in seconds; ``None`` for what is not a number, or none of this world."""
    try:
        return milliseconds / 1000 if isinstance(milliseconds, int | float) else None
    except OverflowError:  # an integer that is too long for a float
        return None


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


class TaskHandle:
    """A tool call that runs on its own; made by `Client.start_tool` and `Client.task`.

    Attributes:
        task_id: the id, to be kept for later; ``None`` if the server returned the result at once, without a task.
        tool: the tool's name, for results and errors; ``""`` when only the id is known.
        calls: sends the requests of the handle.
    """

    def __init__(
        self,
        calls: TaskCalls,
        task_id: str | None,
        tool: str,
        *,
        seed: TaskState | None = None,
        finished: ToolCallResult | None = None,
        result_type: Any = None,
    ) -> None:
        self.task_id = task_id
        self.tool = tool
        self.calls = calls
        self._last = seed
        self._finished = finished
        self._result_type = result_type
        self._answered: set[str] = set()
        self._rounds = 0

    def __repr__(self) -> str:
        return f"TaskHandle({self.task_id!r}, {self.tool!r})"

    async def status(self) -> TaskState:
        """Request the state of the task and return it.

        Raises:
            RemoteError: -32602: there is no such task; it may have expired.
        """
        if self.task_id is None:
            return TaskState("", "completed", None, None, None, None, _DEFAULT_POLL_S, {})
        self._last = _state(await self._ask("tasks/get"))
        return self._last

    async def result(self, *, timeout_s: float | None = None) -> ToolCallResult:
        """Wait for the end of the task and return its result; the client's handlers answer its questions.

        Args:
            timeout_s: maximum time to wait, in seconds; the task continues after it. ``None``: no bound.

        Raises:
            TimeoutError: the task has not ended within ``timeout_s``.
            TaskCancelled: the task was cancelled.
            RemoteError: the task failed or expired.
            InputNotProvided: the task asks a question that this client cannot answer.
            InputRequiredError: the task asks a question, and the client's ``max_rounds`` is 0; `answer` answers it.
            TooManyRounds: the task asks again after ``max_rounds`` rounds; it stays as it is at the server.
        """
        if self._finished is not None:
            return self._finished
        with anyio.fail_after(timeout_s):
            raw = await (self._poll_to_end() if self.calls.session.revision.has_extensions else self._wait_for_end())
        self._finished = await self.calls.outcome(self.tool, raw, self._result_type)
        return self._finished

    async def cancel(self) -> None:
        """Ask the server to cancel the task, which may still complete or fail. A finished task stays as it is."""
        if self.task_id is None:
            return
        try:
            await self._ask("tasks/cancel")
        # In 2025-11-25 a server refuses to cancel a task that has ended; the extension makes it no error.
        except RemoteError as error:
            if self.calls.session.revision.has_extensions or not (await self.status()).is_over:
                raise
            logger.debug("The task %s is over already: %s", self.task_id, error)

    async def answer(self, responses: Mapping[str, Any]) -> None:
        """Send answers to a task's questions (2026-07-28): key of ``inputRequests`` (`TaskState.raw`) → bare result."""
        self._answered.update(responses)
        await self._ask("tasks/update", inputResponses=dict(responses))

    async def events(self) -> AsyncGenerator[TaskState]:
        """Yield each state of the task with a new status, message or time; end after the final one.

        Questions are not answered here; `result` does that, also at the same time.
        """
        before: tuple[Any, ...] | None = None
        pause = _Pause(self.calls, self.task_id)
        try:
            while True:
                state = await self.status()
                now = (state.status, state.message, state.updated_at)
                if now != before:
                    before = now
                    yield state
                if state.is_over:
                    return
                await pause.wait(state.poll_interval_s)
        finally:
            await pause.aclose()

    # -- both wires -----------------------------------------------------------------------------------------------

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.calls.ask(method, {"taskId": self.task_id, **params})

    async def _persistently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a call; repeat it on a new connection if the connection breaks."""
        for attempt in range(_LOST_TRIES):
            try:
                return await call()
            except (ConnectionClosed, HttpConnectFailed, OSError) as error:
                if attempt == _LOST_TRIES - 1:
                    raise
                logger.info("Lost the connection while waiting for task %s: %s", self.task_id, error)
                await anyio.sleep(min(5.0, 0.05 * 2**attempt))
        raise AssertionError("unreachable")

    async def _poll_to_end(self) -> dict[str, Any]:
        state = self._last
        pause = _Pause(self.calls, self.task_id)
        try:
            if state is not None and not state.is_over and state.status != "input_required":
                await pause.wait(state.poll_interval_s)
            while True:
                state = cast("TaskState", await self._persistently(self.status))
                if state.is_over:
                    return _outcome(state.raw)
                if state.status == "input_required" and await self._answer_open(state.raw):
                    continue  # the task may have continued already
                await pause.wait(state.poll_interval_s)
        finally:
            await pause.aclose()

    async def _answer_open(self, raw: Mapping[str, Any]) -> bool:
        questions: Any = raw.get("inputRequests")
        if not isinstance(questions, Mapping):
            raise BadServerResponse("A task has the status input_required and no inputRequests")
        open_: dict[str, Any] = {
            key: asked
            for key, asked in cast("Mapping[str, Any]", questions).items()
            if key not in self._answered and isinstance(asked, Mapping)
        }
        if not open_:
            return False
        # Else a server could put a new question into each poll, for ever.
        if self._rounds >= (most := self.calls.max_rounds):
            if not most:
                raise InputRequiredError(f"The task {self.task_id}", dict(raw))
            raise TooManyRounds(f"The task {self.task_id} still asks for input after {most} rounds")
        self._rounds += 1

        async def one(key: str, asked: Mapping[str, Any]) -> Any:
            return await self.calls.answer_question(key, str(asked.get("method")), asked.get("params"))

        answers = await gather([one(key, asked) for key, asked in open_.items()])
        await self._persistently(lambda: self.answer(dict(zip(open_, answers, strict=True))))
        return True

    async def _wait_for_end(self) -> dict[str, Any]:
        from ferrule.client.calls.legacy.tasks import result_of

        async def status() -> str:
            return (await self.status()).status

        return await result_of(self.task_id, self._persistently(lambda: self._ask("tasks/result")), status)


def _outcome(raw: Mapping[str, Any]) -> dict[str, Any]:
    if raw["status"] == "completed":
        result: Any = raw.get("result")
        if not isinstance(result, dict):
            raise BadServerResponse("A completed task has no result")
        return cast("dict[str, Any]", result)
    if raw["status"] == "cancelled":
        raise TaskCancelled(f"The task {raw['taskId']} was cancelled")
    error: Any = raw.get("error")
    found = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    raised = RemoteError(
        str(found.get("message", raw.get("statusMessage") or "The task failed")), code=found.get("code")
    )
    if "data" in found:
        raised.data = found["data"]
    raise raised


class _Pause:
    """Wait between two polls of a task: the interval that the server suggests, or until it reports a change.

    No subscription is made for the first poll, so that short tasks need none.
    """

    def __init__(self, calls: TaskCalls, task_id: str | None) -> None:
        self.calls = calls
        self._task_id = task_id
        self._is_first = True
        self._may_listen = calls.session.revision.has_extensions
        self._subscription: Subscription | None = None

    async def wait(self, poll_s: float) -> None:
        """Wait until the task should be polled again."""
        subscription = self._subscription
        if subscription is not None:
            granted: Any = (subscription.granted or {}).get("taskIds") or ()
            # Only a subscription that the server has granted allows longer pauses.
            longest_s = max(poll_s, _LISTENING_POLL_S) if self._task_id in granted else poll_s
            await self._wait_for(subscription.__anext__(), longest_s)
            return
        if self._is_first or not self._may_listen:
            before_s = min(poll_s, _DEFAULT_POLL_S) if self._may_listen else poll_s
            self._is_first = False
            await anyio.sleep(before_s)
            if before_s == poll_s:
                return
        self._subscription = Subscription(self.calls.subscriptions, {"taskIds": [self._task_id]})
        await self._wait_for(
            self._subscription.ready(), poll_s
        )  # changes before the acknowledgement are not sent, so the task is polled after it

    async def _wait_for(self, event: Awaitable[object], at_most_s: float) -> None:
        with anyio.move_on_after(at_most_s):
            try:
                await event
            except (FerruleError, OSError, StopAsyncIteration) as error:
                logger.debug("Task %s is polled, since its server sends no changes of it: %r", self._task_id, error)
                self._may_listen = False
                await self.aclose()
                # The rest of the interval: after an immediate failure the task would otherwise be polled at once.
                await anyio.sleep(at_most_s)

    async def aclose(self) -> None:
        """End the subscription."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()


class TaskCalls:
    """Calls of tools as tasks, and the requests of task handles.

    Args:
        requests: sends requests.
        reader: returns the headers that mirror the arguments of a call.
        subscriptions: report which tasks changed.
        hooks: answer questions; this object registers its handler for results that are tasks there.
        results: converts raw results.
    """

    def __init__(
        self,
        requests: RequestSender,
        reader: ResultReader,
        subscriptions: SubscriptionSet,
        hooks: ProgramHooks,
        results: ToolResults,
    ) -> None:
        self.subscriptions = subscriptions
        self._requests = requests
        self._reader = reader
        self._hooks = hooks
        self._results = results
        self._task_only: set[str] = set()
        hooks.result_types["task"] = self._finish

    @property
    def session(self) -> Session:
        """The session in use.

        Raises:
            ConnectionClosed: there is none.
        """
        return self._requests.sessions.required()

    @property
    def max_rounds(self) -> int:
        """Maximum number of rounds of questions of one task that are answered; 0 for none."""
        return self._hooks.max_rounds

    async def start(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        ttl_s: float | None,
        timeout_s: float | None,
        result_type: Any,
        meta: Mapping[str, Any] | None,
    ) -> TaskHandle:
        """Call a tool as a task; see `ferrule.Client.start_tool`."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        session = await self._requests.sessions.ensure()
        if self._may_ask_for_task():
            from ferrule.client.calls.legacy.tasks import task_param

            params["task"] = task_param(ttl_s)
        mirrors = self._reader.mirrored(name, arguments)
        options = self._requests.options(timeout_s, None, None)
        sent_meta = {**(meta or {}), **task_meta(session)}

        async def send(params: dict[str, Any]) -> dict[str, Any]:
            return await self._requests.send_with_recovery(session, "tools/call", params, sent_meta, options, mirrors)

        try:
            raw = await send(params)
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.METHOD_NOT_FOUND or params.pop("task", None) is None:
                raise
            raw = await send(params)  # a tool that is never a task
        raw = await self._hooks.run_rounds(UnfinishedCall("tools/call", params, send), raw)
        task = raw.get("task") if "task" in params else raw if raw.get("resultType") == "task" else None
        if not isinstance(task, Mapping):
            return TaskHandle(self, None, name, finished=await self.outcome(name, raw, result_type))
        seed = _state(cast("Mapping[str, Any]", task))
        return TaskHandle(self, seed.task_id, name, seed=seed, result_type=result_type)

    def runs_as_task(self, name: str) -> bool:
        """Return whether an earlier call has shown that the server runs a tool as a task only."""
        return name in self._task_only

    async def send_call(self, params: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the raw result of a tool, also of one that the server runs as a task only.

        For clients that do not declare the tasks extension: it is declared for such a call alone.
        """
        name = str(params["name"])
        request = self._requests.request
        if name not in self._task_only:
            try:
                return await request("tools/call", params, **options)
            except RemoteError as error:
                if not self._wants_task(error):
                    raise
        if self.session.revision.has_extensions:  # what comes is awaited by `_finish`
            own: Mapping[str, Any] = options.get("meta") or {}
            declaring: dict[str, Any] = {**options, "meta": {**own, **task_meta(self.session)}}
            raw = await request("tools/call", params, **declaring)
            self._task_only.add(name)
            return raw
        raw = await request("tools/call", {**params, "task": {}}, **options)
        self._task_only.add(name)
        task = raw.get("task")
        if not isinstance(task, Mapping):
            return raw
        seed = _state(cast("Mapping[str, Any]", task))
        return await TaskHandle(self, seed.task_id, name, seed=seed)._wait_for_end()  # pyright: ignore[reportPrivateUsage]

    def _wants_task(self, error: RemoteError) -> bool:
        """Return whether a server refused a call because the tool has to be called as a task."""
        if not self.session.revision.has_extensions:
            return error.code == JsonRpcErrorCode.METHOD_NOT_FOUND and self._may_ask_for_task()
        if error.code != JsonRpcErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY:
            return False
        return bool(error.data == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})

    def _may_ask_for_task(self) -> bool:
        """Return whether a call is sent with a ``task`` of the handshake era."""
        if self.session.revision.has_extensions:
            return False
        from ferrule.client.calls.legacy.tasks import may_ask_for_task

        return may_ask_for_task(self.session)

    async def _finish(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Wait for the task that a server returned in place of a result, and return its result."""
        if method != "tools/call":
            raise BadServerResponse(f"The server made a task of {method}, which cannot be one")
        seed = _state(result)
        handle = TaskHandle(self, seed.task_id, str(params.get("name", "")), seed=seed)
        return await handle._poll_to_end()  # pyright: ignore[reportPrivateUsage] - one file, one noun in two parts

    # -- for handles ----------------------------------------------------------------------------------------------

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request of a task method, with the declaration that it needs, and return its result."""
        timeout_s = None if method == "tasks/result" else NOT_GIVEN
        return await self._requests.request(method, params, timeout_s=timeout_s, meta=task_meta(self.session))

    async def answer_question(self, key: str, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the answer of the program's handlers."""
        return await self._hooks.answer_question(key, method, params)

    async def outcome(self, name: str, raw: Mapping[str, Any], result_type: Any) -> ToolCallResult:
        """Return a tool's raw result as `ferrule.Client.call_tool` gives it."""
        return await self._results.read(name, raw, result_type)


def task_meta(session: Session) -> dict[str, Any]:
    """Return the ``_meta`` that declares the tasks extension in one request; empty in revisions without extensions."""
    if not session.revision.has_extensions:
        return {}
    declared: Mapping[str, Any] = session.meta.get(CLIENT_CAPABILITIES_KEY) or {}
    own: Mapping[str, Any] = declared.get("extensions") or {}
    extensions: dict[str, Any] = {**own, TASKS_EXTENSION: {}}
    return {CLIENT_CAPABILITIES_KEY: {**declared, "extensions": extensions}}
