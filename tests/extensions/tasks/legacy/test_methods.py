"""Tasks of 2025-11-25: the client requests one, waits in ``tasks/result``, and gets its questions there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Tasks
from ferrule.protocol.errors import InvalidParams, MCPError, MethodNotFound, RemoteError
from ferrule.wire.revisions import REVISIONS
from tests.app.support import ask
from tests.extensions.tasks.support import Legacy, Modern

pytestmark = pytest.mark.anyio

RELATED = "io.modelcontextprotocol/related-task"


def make() -> MCPServer[Any]:
    app = MCPServer("tasks", extensions=[Tasks()])

    @app.tool(task="optional")
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool(task="required")
    async def only() -> str:
        return "only"

    @app.tool
    async def plain() -> str:
        return "plain"

    @app.tool(task="optional")
    async def fail(how: str) -> str:
        if how == "tool":
            raise RuntimeError("no")
        raise MCPError("Not like this", code=-32001)

    @app.tool(task="optional")
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("name?", str)
        return f"Hello {answer.data}" if answer.accepted else answer.action

    @app.tool(task="optional")
    async def slow() -> str:
        await asyncio.sleep(3600)
        return ""

    return app


async def until_over(client: Legacy, task_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            task = await client.ask("tasks/get", taskId=task_id)
            if task["status"] in ("completed", "failed", "cancelled"):
                return task
            await asyncio.sleep(0.001)


async def test_the_handle_is_nested_and_the_result_is_the_calls_own() -> None:
    """The whole life as 2025-11-25, "Tasks", describes it."""
    client = Legacy(make())
    created = await client.start("add", {"a": 2, "b": 3}, ttl=60_000)
    task = created["task"]
    assert task["status"] == "working"
    assert task["ttl"] == 60_000
    assert {"createdAt", "lastUpdatedAt", "pollInterval"} <= set(task)
    assert "ttlMs" not in task
    result = await client.ask("tasks/result", taskId=task["taskId"])
    assert result["content"] == [{"type": "text", "text": "5"}]
    assert result["structuredContent"] == {"result": 5}
    assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
    assert "resultType" not in result
    got = await client.ask("tasks/get", taskId=task["taskId"])
    assert got["status"] == "completed"
    assert "result" not in got


async def test_support_is_declared_and_enforced_per_tool() -> None:
    """2025-11-25, "Tasks": as the tool declares it in ``execution.taskSupport``."""
    app = make()
    client = Legacy(app)
    tools = {tool["name"]: tool for tool in (await client.ask("tools/list"))["tools"]}
    assert tools["add"]["execution"] == {"taskSupport": "optional"}
    assert tools["only"]["execution"] == {"taskSupport": "required"}
    assert "execution" not in tools["plain"]
    capabilities = app.lowlevel.capabilities(REVISIONS["2025-11-25"])
    assert capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "tasks" not in app.lowlevel.capabilities(REVISIONS["2025-06-18"])
    assert (await client.ask("tools/call", name="add", arguments={"a": 1, "b": 1}))["content"][0]["text"] == "2"
    with pytest.raises(MethodNotFound):
        await client.start("plain")
    with pytest.raises(MethodNotFound):
        await client.ask("tools/call", name="only", arguments={})


async def test_older_revisions_have_no_tasks() -> None:
    """A method absent from a revision does not exist there, extension or not."""
    client = Legacy(make(), version="2025-06-18")
    client.connection.client_capabilities_raw = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
        with pytest.raises(MethodNotFound):
            await client.ask(method, taskId="x")
    result = await client.start("add", {"a": 1, "b": 2})
    assert result["content"][0]["text"] == "3"


async def test_a_tool_error_is_a_failed_task_and_its_result_is_still_given() -> None:
    """The other way round than in the extension."""
    client = Legacy(make())
    task_id = (await client.start("fail", {"how": "tool"}))["task"]["taskId"]
    assert (await until_over(client, task_id))["status"] == "failed"
    assert (await client.ask("tasks/result", taskId=task_id))["isError"] is True
    task_id = (await client.start("fail", {"how": "protocol"}))["task"]["taskId"]
    assert (await until_over(client, task_id))["status"] == "failed"
    with pytest.raises(MCPError) as caught:
        await client.ask("tasks/result", taskId=task_id)
    assert (caught.value.code, caught.value.message) == (-32001, "Not like this")


async def test_questions_travel_on_the_stream_of_tasks_result() -> None:
    """The status says input_required; the question carries the task."""
    answered = asyncio.Event()

    def answer(method: str, params: Any) -> Any:
        answered.set()
        return {"action": "accept", "content": {"value": "Ann"}}

    client = Legacy(make(), answer)
    task_id = (await client.start("greet"))["task"]["taskId"]
    async with asyncio.timeout(30):
        while (await client.ask("tasks/get", taskId=task_id))["status"] != "input_required":
            await asyncio.sleep(0.001)
    assert not client.dispatch.asked
    result = await client.ask("tasks/result", taskId=task_id)
    assert result["content"][0]["text"] == "Hello Ann"
    ((method, params),) = client.dispatch.asked
    assert method == "elicitation/create"
    assert params["_meta"][RELATED] == {"taskId": task_id}


async def test_a_client_that_only_polls_is_asked_on_its_connection() -> None:
    """The TypeScript tasks package never opens tasks/result before the end; it would poll for ever."""
    client = Legacy(make(), lambda method, params: {"action": "accept", "content": {"value": "Ann"}})
    task_id = (await client.start("greet"))["task"]["taskId"]
    assert (await until_over(client, task_id))["status"] == "completed"
    ((method, params),) = client.dispatch.asked
    assert method == "elicitation/create"
    assert params["_meta"][RELATED] == {"taskId": task_id}
    assert (await client.ask("tasks/result", taskId=task_id))["content"][0]["text"] == "Hello Ann"


async def test_a_question_that_another_process_asks_is_not_asked_again() -> None:
    """A poll may reach any worker; the user would see one form from each."""
    client = Legacy(app := make(), lambda method, params: {"action": "accept", "content": {"value": "Ann"}})
    task_id = (await client.start("greet"))["task"]["taskId"]
    async with asyncio.timeout(30):
        while (await client.ask("tasks/get", taskId=task_id))["status"] != "input_required":
            await asyncio.sleep(0.001)
    tasks: Any = app.extensions[Tasks.identifier]
    _, record = await tasks.repository.find(task_id)
    (wire_key,) = record.questions
    assert await tasks.claim(f"task-question/{task_id}/{wire_key}", ttl_s=60)
    for _ in range(3):
        assert (await client.ask("tasks/get", taskId=task_id))["status"] == "input_required"
        await asyncio.sleep(0.01)
    assert not client.dispatch.asked
    # A client that sends tasks/result has another stream, and gets the question there too.
    assert (await client.ask("tasks/result", taskId=task_id))["content"][0]["text"] == "Hello Ann"


async def test_a_refused_question_is_a_cancelled_one() -> None:
    """A client may answer with an error where its user closed the form."""
    client = Legacy(make(), lambda method, params: RemoteError("no", code=-1))
    task_id = (await client.start("greet"))["task"]["taskId"]
    assert (await client.ask("tasks/result", taskId=task_id))["content"][0]["text"] == "cancel"


async def test_cancelling_answers_with_the_task_and_only_once() -> None:
    """Status cancelled before the reply; -32602 on a finished task."""
    client = Legacy(make())
    task_id = (await client.start("slow"))["task"]["taskId"]
    waiting = asyncio.ensure_future(client.ask("tasks/result", taskId=task_id))
    await asyncio.sleep(0.01)
    assert (await client.ask("tasks/cancel", taskId=task_id))["status"] == "cancelled"
    with pytest.raises(InvalidParams):
        await client.ask("tasks/cancel", taskId=task_id)
    with pytest.raises(InvalidParams):
        await waiting
    with pytest.raises(InvalidParams):
        await client.ask("tasks/get", taskId="unknown")


async def test_a_list_holds_the_callers_own_tasks_newest_first() -> None:
    """Other connections have other lists; a cursor that is unknown is refused."""
    app = make()
    one, two = Legacy(app), Legacy(app)
    ids = [(await one.start("add", {"a": 1, "b": n}))["task"]["taskId"] for n in range(60)]
    await two.start("add", {"a": 1, "b": 1})
    page = await one.ask("tasks/list")
    assert [task["taskId"] for task in page["tasks"]] == ids[:9:-1]
    rest = await one.ask("tasks/list", cursor=page["nextCursor"])
    assert [task["taskId"] for task in rest["tasks"]] == ids[9::-1]
    assert "nextCursor" not in rest
    assert len((await two.ask("tasks/list"))["tasks"]) == 1
    with pytest.raises(InvalidParams):
        await one.ask("tasks/list", cursor="unknown")


async def test_status_notifications_tell_the_whole_task() -> None:
    """Optional, on the connection's standing channel."""
    client = Legacy(make())
    task_id = (await client.start("add", {"a": 1, "b": 1}))["task"]["taskId"]
    await client.ask("tasks/result", taskId=task_id)

    def told() -> list[Any]:
        return [params for method, params in client.dispatch.sent if method == "notifications/tasks/status"]

    async with asyncio.timeout(30):
        while not told() or told()[-1]["status"] != "completed":
            await asyncio.sleep(0.001)
    assert told()[-1]["taskId"] == task_id


async def test_a_task_of_the_old_wire_can_be_looked_at_on_the_new_one() -> None:
    """SEP-2663, backward compatibility: get and cancel for tasks that were made by a legacy client."""
    app = make()
    task_id = (await Legacy(app).start("slow"))["task"]["taskId"]
    assert (await Modern(app).get(task_id))["status"] == "working"
    await Modern(app).ask("tasks/cancel", taskId=task_id)
    assert (await Modern(app).get(task_id))["status"] == "cancelled"


async def test_without_the_extension_the_task_param_is_ignored() -> None:
    """2025-11-25, "Tasks": a receiver that declares no tasks serves the request as if the param were absent."""
    app = MCPServer("plain")

    @app.tool
    def add(a: int) -> int:
        return a

    client = Legacy(app)
    assert (await client.start("add", {"a": 1}))["content"][0]["text"] == "1"
    with pytest.raises(MethodNotFound):
        await ask(app, "tasks/get", {"taskId": "x"}, connection=client.connection)
