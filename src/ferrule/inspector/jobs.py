"""Jobs: operations of the page that take time (a call, a list, a task), each with progress and cancellation.

A browser opens few connections to one origin, so no HTTP request of the page waits for the inspected server: starting
a job returns immediately, progress and end are events, and the page requests the outcome when the job has ended.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.calls.tasks import TaskCancelled, TaskHandle, TaskState
from ferrule.client.errors import InvalidToolOutput
from ferrule.client.groups.behind_search import definition_behind_search, tools_behind_search
from ferrule.inspector.skills import list_skills, read_skill_file
from ferrule.inspector.values import as_received
from ferrule.inspector.views import describe_page
from ferrule.protocol.errors import MCPError
from ferrule.protocol.secret_forms import mask_secrets
from ferrule.wire.codec import encode, encode_str, to_builtins
from ferrule.wire.faults import FerruleError

if TYPE_CHECKING:
    from ferrule.inspector.connection import InspectorConnection, TracedClient
    from ferrule.inspector.crashes import Crash
    from ferrule.inspector.feed import Feed
    from ferrule.inspector.trace import MessageStore
    from ferrule.transports.background import BackgroundTask

__all__ = ["OPERATIONS", "Job", "Jobs"]

MAX_JOBS: Final = 300
MAX_OUTCOME_BYTES: Final = 96 << 20
MAX_PINNED: Final = 50
"""Jobs that are kept because the page asks for it; they count to the bounds, and go when nothing else is left."""
MAX_PREVIEW_CHARS: Final = 300
CRASH_MS: Final = 3000.0
"""How long after the end of a failed job a traceback is still attributed to it: stderr is read apart from stdout."""
HISTORY: Final = frozenset({"call", "task", "read", "prompt", "request"})
"""The operations that a user starts; the page lists them as history."""
_FAILED_TOOL: Final = re.compile(r"^(?:\S+ )?Tool (['\"])(.*)\1 failed")
_LISTS: Final = ("tools", "resources", "templates", "prompts")


@dataclass(slots=True)
class Job:
    """One operation that the page requested.

    Attributes:
        key: the key, which the page made.
        connection: the name of the connection that it uses.
        op, params: the name and the parameters of the operation; see `OPERATIONS`.
        state: ``"running"``, ``"done"``, ``"failed"`` or ``"cancelled"``.
        first, last: numbers of the messages before its first and at its end.
        outcome: the outcome as JSON; ``b"null"`` before the end.
        owner: the connection that it runs on; ``None`` while that is opened.
        answers: the page's answers to questions of the server during the job, as ``(method, answer)``.
        is_error: the result of the tool says ``isError``.
        is_pinned: the page asked to keep it.
        begun_ms: when it began, in milliseconds since 1970.
        crash: the traceback that the server's process wrote meanwhile; ``None`` without one.
        ended: set at its end.
        task_id: id of the task that the job waits for; ``None`` without one.
    """

    key: str
    connection: str
    op: str
    params: Mapping[str, Any]
    state: str = "running"
    error: str = ""
    code: int | None = None
    started_ms: float = 0.0
    took_ms: float | None = None
    first: int = 0
    last: int = 0
    outcome: bytes = b"null"
    progress: dict[str, Any] | None = None
    answers: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    task_id: str | None = None
    task: dict[str, Any] | None = None
    running: BackgroundTask | None = None
    owner: InspectorConnection | None = None
    handle: TaskHandle | None = None
    is_error: bool = False
    is_pinned: bool = False
    begun_ms: float = field(default_factory=lambda: round(time.time() * 1000))
    crash: Crash | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def title(self) -> str:
        """The tool, name, URI, method, list or task id among the parameters; empty without one."""
        for name in ("tool", "name", "uri", "method", "list", "task_id"):
            if isinstance(self.params.get(name), str):
                return cast("str", self.params[name])
        return ""


class Jobs:
    """The jobs of one inspector.

    Args:
        feed: receives the state of each job.
        store: supplies the numbers of messages.
    """

    def __init__(self, feed: Feed, store: MessageStore) -> None:
        self._feed = feed
        self._store = store
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def get(self, key: str) -> Job | None:
        """Return a job by its key, or ``None`` if it is no longer kept."""
        return self._jobs.get(key)

    def begin(self, key: str, connection: str, op: str, params: Mapping[str, Any]) -> Job:
        """Return a new job. While a bound is exceeded, ended jobs are removed: the oldest first, pinned ones last."""
        job = Job(key, connection, op, params, started_ms=self._feed.now_ms(), first=self._store.last)
        self._jobs[key] = job
        self._make_room()
        self.publish(job)
        return job

    def _make_room(self) -> None:
        total = sum(len(each.outcome) for each in self._jobs.values())
        # A job that runs is kept: the page waits for its outcome. The sort is stable, so the oldest of a kind go first.
        ended = [job for job in self._jobs.values() if job.state != "running"]
        for old in sorted(ended, key=lambda job: (job.is_pinned, job.op in HISTORY)):
            if len(self._jobs) <= MAX_JOBS and total <= MAX_OUTCOME_BYTES:
                return
            total -= len(old.outcome)
            del self._jobs[old.key]
            self._feed.withdraw_state("job", old.key)

    def pin(self, key: str, is_pinned: bool) -> bool:
        """Keep a job longer than others, or no longer; return whether there is such a job and room for it."""
        job = self._jobs.get(key)
        count = sum(each.is_pinned for each in self._jobs.values())
        if job is None or (is_pinned and not job.is_pinned and count >= MAX_PINNED):
            return False
        job.is_pinned = is_pinned
        self.publish(job)
        return True

    def of_connection(self, connection: InspectorConnection) -> list[Job]:
        """Return the jobs that run on a connection."""
        return [job for job in self._jobs.values() if job.state == "running" and job.owner is connection]

    def note_crash(self, connection: str, crash: Crash) -> None:
        """Add a traceback of the server's process to the job that it belongs to, if there is one.

        Ferrule names the tool in the line before the traceback. Without a name it belongs to the oldest job that runs
        or has just failed.
        """
        known = next((job for job in self._jobs.values() if job.crash is crash), None)
        if known is not None:  # it has grown by a chained exception
            self.publish(known)
            return
        named = _FAILED_TOOL.match(crash.heading)
        for job in self._jobs.values():
            if (
                job.connection == connection
                and job.crash is None
                and job.op in HISTORY
                and (named is None or named[2] == job.title)
                and self._may_have_crashed(job)
            ):
                job.crash = crash
                self.publish(job)
                return

    def _may_have_crashed(self, job: Job) -> bool:
        if job.state == "running" or job.took_ms is None:
            return True
        since = self._feed.now_ms() - job.started_ms - job.took_ms
        return (job.is_error or job.state == "failed") and since < CRASH_MS

    async def run(self, job: Job, client: TracedClient) -> None:
        """Run the operation. Result, failure and cancellation become the state of the job; no error is raised."""
        state = "cancelled"
        try:
            result = await OPERATIONS[job.op](self, job, client, job.params)
            job.outcome = encode(self._as_received(job, result))
            job.is_error = job.op in ("call", "task", "found_task") and bool(result["result"].get("isError"))
            state = "done"
        except anyio.get_cancelled_exc_class():
            raise
        except MCPError as error:
            state, job.error = "failed", error.message
            job.code = error.code
            job.outcome = encode({"error": to_builtins({"code": job.code, "message": job.error, "data": _data(error)})})
        except (FerruleError, OSError, ValueError, TypeError, TimeoutError) as error:
            state, job.error = "failed", str(error) or type(error).__name__
        finally:
            self.end(job, state)

    def end(self, job: Job, state: str, error: str = "") -> None:
        """Set the final state of a job and send it to the page."""
        job.state, job.error = state, error or job.error
        job.last = self._store.last
        job.took_ms = round(self._feed.now_ms() - job.started_ms, 3)
        job.ended.set()
        self.publish(job)

    def _as_received(self, job: Job, outcome: Any) -> Any:
        if job.op not in ("call", "task", "found_task", "read", "prompt", "request"):
            return outcome
        kept = (self._store.get(number) for number in range(job.first + 1, self._store.last + 1))
        messages = [found[0] for found in kept if found is not None]
        if job.op in ("call", "task", "found_task"):
            return {**outcome, "result": as_received(outcome["result"], messages)}
        return as_received(outcome, messages)

    def note_answer(self, connection: str, method: str, answer: Any) -> None:
        """Add an answer of the page to the job that runs on that connection; ignored if several run there."""
        # With several jobs it is not known which of them caused the question.
        running = [job for job in self._jobs.values() if job.connection == connection and job.state == "running"]
        if len(running) == 1:
            running[0].answers.append((method, answer))

    def publish(self, job: Job) -> None:
        """Send the state of a job to the page."""
        self._feed.publish_state(
            "job",
            job.key,
            connection=job.connection,
            op=job.op,
            title=job.title,
            state=job.state,
            error=job.error[:2000],
            code=job.code,
            started_ms=job.started_ms,
            took_ms=job.took_ms,
            first=job.first,
            last=job.last,
            bytes=len(job.outcome),
            progress=job.progress,
            task_id=job.task_id,
            task=job.task,
            is_error=job.is_error,
            is_pinned=job.is_pinned,
            begun_ms=job.begun_ms,
            arguments=_preview(job.params.get("arguments")),
            has_crash=job.crash is not None,
        )

    def on_progress(self, job: Job) -> Any:
        """Return a callback for the parameter ``on_progress`` of the client's methods."""

        def report(progress: float, total: float | None, message: str | None) -> None:
            job.progress = {"progress": progress, "total": total, "message": (message or "")[:500]}
            self.publish(job)

        return report


def _preview(arguments: Any) -> str:
    """Return the beginning of the arguments as JSON, for a line of the history; without secrets that show as such."""
    return "" if not arguments else encode_str(mask_secrets(arguments))[:MAX_PREVIEW_CHARS]


def _data(error: MCPError) -> Any:
    from msgspec import UNSET

    return None if error.data is UNSET else error.data


# -- operations -------------------------------------------------------------------------------------------------------


async def _list(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    kind = params.get("list")
    if kind not in _LISTS:
        raise ValueError(f"list is one of {', '.join(_LISTS)}")
    found: list[Any]
    if kind == "tools":
        found = await client.list_tools()
    elif kind == "resources":
        found = await client.list_resources()
    elif kind == "templates":
        found = await client.list_resource_templates()
    else:
        found = await client.list_prompts()
    return to_builtins(found)


async def _behind(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    """Return the tools behind the search of a server; an empty list for a server without a search."""
    found = await tools_behind_search(client, await client.list_tools())
    return [] if found is None else found.tools


async def _describe(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    name = _text(params, "tool")
    found = await definition_behind_search(client, name)
    if found is None:
        raise ValueError(f"the search has no tool {name!r}")
    return to_builtins(found)


async def _call(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    name = _text(params, "tool")
    called = await client.call_tool(
        name, _arguments(params), on_progress=jobs.on_progress(job), timeout_s=_seconds(params)
    )
    return {"result": to_builtins(called.result), "problem": _problem(client, name, called.result)}


async def _task(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    name = _text(params, "tool")
    job.handle = await client.start_tool(name, _arguments(params), timeout_s=_seconds(params))
    return await _follow(jobs, job, client, name)


async def _found_task(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    job.handle = client.task(_text(params, "task_id"))
    await job.handle.status()
    return await _follow(jobs, job, client, "")


async def _follow(jobs: Jobs, job: Job, client: TracedClient, name: str) -> Any:
    handle = job.handle
    assert handle is not None
    job.task_id = handle.task_id
    jobs.publish(job)
    if handle.task_id is None:
        result = (await handle.result()).result
        return {"result": to_builtins(result), "problem": _problem(client, name, result)}

    def on_state(state: TaskState) -> None:
        job.task = {"status": state.status, "message": (state.message or "")[:500]}
        jobs.publish(job)

    watching: BackgroundTask | None = None
    if (
        client.session.revision.has_extensions
    ):  # the handle polls the state itself while it waits, so each state can be recorded there
        handle = job.handle = _WatchedTask(handle, on_state)
    else:
        watching = client.start_task(_poll(handle, on_state), "ferrule-inspector-task")
    try:
        result = (await handle.result()).result
    except TaskCancelled:
        job.task = {"status": "cancelled", "message": (job.task or {}).get("message", "")}
        raise
    finally:
        if watching is not None:
            watching.cancel()
    job.task = {"status": "completed", "message": (job.task or {}).get("message", "")}
    return {"result": to_builtins(result), "problem": _problem(client, name, result)}


class _WatchedTask(TaskHandle):
    """A task handle that reports every state it receives."""

    def __init__(self, found: TaskHandle, on_state: Callable[[TaskState], None]) -> None:
        super().__init__(found.calls, found.task_id, found.tool)
        self._on_state = on_state

    async def status(self) -> TaskState:
        state = await super().status()
        self._on_state(state)
        return state


async def _poll(handle: TaskHandle, on_state: Callable[[TaskState], None]) -> None:
    """Poll the state of a task: in 2025-11-25 the wait is one long request, ``tasks/result``, without states."""
    try:
        async for state in handle.events():
            on_state(state)
    except (FerruleError, OSError):  # the request that waits for the result reports the error
        return


async def _read(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    return to_builtins(await client.read_resource(_text(params, "uri"), on_progress=jobs.on_progress(job)))


async def _page(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    return await describe_page(client, _text(params, "tool"), params.get("meta"), _text(params, "profile"))


async def _prompt(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    return to_builtins(await client.get_prompt(_text(params, "name"), _arguments(params)))


async def _skills(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    return await list_skills(client)


async def _skill_file(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    digest = None if params.get("digest") is None else _text(params, "digest")
    return await read_skill_file(client, _text(params, "skill"), _text(params, "uri"), digest)


async def _ping(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    await client.ping()
    return {}


async def _request(jobs: Jobs, job: Job, client: TracedClient, params: Mapping[str, Any]) -> Any:
    given = params.get("params")
    if given is not None and not isinstance(given, dict):
        raise ValueError("params is an object")
    return await client.request(
        _text(params, "method"), cast("dict[str, Any] | None", given), on_progress=jobs.on_progress(job)
    )


OPERATIONS: Final = {
    "list": _list,
    "behind": _behind,
    "describe": _describe,
    "call": _call,
    "task": _task,
    "found_task": _found_task,
    "read": _read,
    "page": _page,
    "prompt": _prompt,
    "skills": _skills,
    "skill_file": _skill_file,
    "ping": _ping,
    "request": _request,
}
"""The operations of the page, by name."""


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is text")
    return value


def _arguments(params: Mapping[str, Any]) -> dict[str, Any] | None:
    value = params.get("arguments")
    if value is not None and not isinstance(value, dict):
        raise ValueError("arguments is an object")
    return cast("dict[str, Any] | None", value)


def _seconds(params: Mapping[str, Any]) -> float:
    value = params.get("timeout_s")
    return float(value) if isinstance(value, int | float) and value > 0 else 3600.0


def _problem(client: TracedClient, tool: str, result: Any) -> str:
    """Return why a result does not match the tool's ``outputSchema``; empty if it does."""
    if result.is_error:
        return ""
    try:
        client.tool_metadata.validate(tool, result.structured_content)
    except InvalidToolOutput as error:
        return str(error)
    return ""
