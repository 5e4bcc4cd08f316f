"""The extension's wire: handles, polling, questions, cancellation, gates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.app.execution.running_task import current_task_id
from ferrule.app.rounds.errors import QuestionExpired
from ferrule.app.rounds.settings import settings_of
from ferrule.extensions.tasks import Tasks
from ferrule.protocol.errors import InvalidParams, MCPError, MethodNotFound, MissingRequiredClientCapability
from ferrule.wire.nesting import MAX_DEPTH
from tests.extensions.tasks.support import TASKS, Modern

pytestmark = pytest.mark.anyio


def make(**options: Any) -> MCPServer[Any]:
    return MCPServer("tasks", extensions=[Tasks(**options)])


async def test_a_task_is_found_as_soon_as_its_handle_is_out_and_ends_with_the_result() -> None:
    """A flat handle without outcome; then the result inside ``tasks/get``."""
    app = make()
    go = asyncio.Event()

    @app.tool(task="optional")
    async def slow(label: str) -> str:
        await go.wait()
        return f"done {label}"

    client = Modern(app)
    handle = await client.call("slow", {"label": "x"})
    assert handle["resultType"] == "task"
    assert handle["status"] == "working"
    assert isinstance(handle["ttlMs"], int)
    assert isinstance(handle["pollIntervalMs"], int)
    assert not {"task", "result", "requestState", "inputRequests"} & set(handle)
    task = await client.get(handle["taskId"])
    assert (task["status"], task["resultType"]) == ("working", "complete")
    go.set()
    task = await client.until(handle["taskId"])
    assert task["status"] == "completed"
    assert task["result"]["content"] == [{"type": "text", "text": "done x"}]


async def test_a_client_without_the_extension_gets_the_result_itself() -> None:
    """Never a task for a request that did not declare it, whatever earlier ones did."""
    app = make()

    @app.tool(task="optional")
    async def slow() -> str:
        return "plain"

    assert (await Modern(app).call("slow"))["resultType"] == "task"
    assert (await Modern(app, {}).call("slow"))["content"][0]["text"] == "plain"


async def test_a_required_task_without_the_extension_is_refused() -> None:
    """-32021, naming the extension."""
    app = make()

    @app.tool(task="required")
    async def slow() -> str:
        return ""

    with pytest.raises(MissingRequiredClientCapability) as caught:
        await Modern(app, {}).call("slow")
    assert caught.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_methods_need_the_declaration_and_the_legacy_ones_do_not_exist() -> None:
    """-32021 without the declaration, -32602 for an unknown task, -32601 for methods of 2025-11-25 only."""
    app = make()

    @app.tool(task="optional")
    async def slow() -> str:
        return ""

    handle = await Modern(app).call("slow")
    for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
        with pytest.raises(MissingRequiredClientCapability):
            await Modern(app, {}).ask(method, taskId=handle["taskId"], **more)
        with pytest.raises(InvalidParams):
            await Modern(app).ask(method, taskId="unknown", **more)
    for method in ("tasks/result", "tasks/list"):
        with pytest.raises(MethodNotFound):
            await Modern(app).ask(method, taskId=handle["taskId"])


async def test_a_tool_error_completes_a_task_and_a_protocol_error_fails_it() -> None:
    """A failed tool is a completed task whose result has ``isError``."""
    app = make()

    @app.tool(task="required")
    async def failing() -> str:
        raise RuntimeError("no")

    @app.tool(task="required")
    async def protocol() -> str:
        raise MCPError("Not like this", code=-32001, data={"x": 1})

    client = Modern(app)
    task = await client.until((await client.call("failing"))["taskId"])
    assert task["status"] == "completed"
    assert task["result"]["isError"] is True
    task = await client.until((await client.call("protocol"))["taskId"])
    assert task["status"] == "failed"
    assert task["error"] == {"code": -32001, "message": "Not like this", "data": {"x": 1}}
    assert "result" not in task


async def test_questions_wait_in_the_task_and_partial_answers_make_keys_disappear() -> None:
    """All that is open is shown; an answered key is gone; unknown and answered ones are ignored."""
    app = make()

    @app.tool(task="optional")
    async def ask_two(ctx: Context) -> str:
        one, two = await ctx.gather(ctx.elicit("one?", str, key="one"), ctx.elicit("two?", str, key="two"))
        return f"{one.data} {two.data}"

    client = Modern(app)
    task_id = (await client.call("ask_two"))["taskId"]
    task = await client.until(task_id, "input_required")
    assert sorted(task["inputRequests"]) == ["gather:1.0/one", "gather:1.1/two"] or len(task["inputRequests"]) == 2
    first, second = sorted(task["inputRequests"])
    answer = {"action": "accept", "content": {"value": "a"}}
    assert await client.ask("tasks/update", taskId=task_id, inputResponses={first: answer, "nonsense": answer}) == {
        "resultType": "complete",
        "_meta": task["_meta"],
    }
    task = await client.get(task_id)
    assert task["status"] == "input_required"
    assert list(task["inputRequests"]) == [second]
    late = {"action": "accept", "content": {"value": "late"}}
    await client.ask("tasks/update", taskId=task_id, inputResponses={first: late})
    await client.ask(
        "tasks/update", taskId=task_id, inputResponses={second: {"action": "accept", "content": {"value": "b"}}}
    )
    task = await client.until(task_id)
    assert task["result"]["content"][0]["text"] == "a b"


async def test_a_misfit_answer_is_asked_again_under_a_new_key() -> None:
    """A key is never used for a second question, not even for the same one."""
    app = make()

    @app.tool(task="optional")
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("how many?", int, key="n")).data)

    client = Modern(app)
    task_id = (await client.call("ask"))["taskId"]
    seen: list[str] = []
    for value in ("many", "more", 3):
        task = await client.until(task_id, "input_required")
        (key,) = task["inputRequests"]
        assert key not in seen
        seen.append(key)
        content = {"action": "accept", "content": {"value": value}}
        await client.ask("tasks/update", taskId=task_id, inputResponses={key: content})
    assert (await client.until(task_id))["result"]["content"][0]["text"] == "3"


async def test_questions_before_begin_task_are_rounds_of_the_call() -> None:
    """The first question without a task id; the handle once it is answered; the rest inside the task."""
    app = make()

    @app.tool(task="required", task_after_s=None)
    async def hello(ctx: Context) -> str:
        name = await ctx.elicit("name?", str, key="user_name")
        await ctx.begin_task()
        await ctx.set_status("greeting")
        town = await ctx.elicit("town?", str, key="town")
        return f"Hello {name.data} of {town.data}"

    client = Modern(app)
    first = await client.call("hello")
    assert first["resultType"] == "input_required"
    assert list(first["inputRequests"]) == ["user_name"]
    assert "taskId" not in first
    answers = {"user_name": {"action": "accept", "content": {"value": "Alice"}}}
    handle = await client.call("hello", inputResponses=answers, requestState=first["requestState"])
    assert handle["resultType"] == "task"
    assert not {"requestState", "inputRequests"} & set(handle)
    task = await client.until(handle["taskId"], "input_required")
    assert list(task["inputRequests"]) == ["town"]
    answers = {"town": {"action": "accept", "content": {"value": "Ulm"}}}
    await client.ask("tasks/update", taskId=handle["taskId"], inputResponses=answers)
    task = await client.until(handle["taskId"])
    assert task["result"]["content"][0]["text"] == "Hello Alice of Ulm"


async def test_a_call_that_outlasts_its_threshold_becomes_a_task_and_a_quick_one_does_not() -> None:
    """The client gets a handle without having asked for it; the body continues."""
    app = make()
    go, began = asyncio.Event(), 0

    @app.tool(task="optional", task_after_s=0.02)
    async def work(wait: bool) -> str:
        nonlocal began
        began += 1
        if wait:
            await go.wait()
        return "done"

    client = Modern(app)
    assert (await client.call("work", {"wait": False}))["content"][0]["text"] == "done"
    handle = await client.call("work", {"wait": True})
    assert handle["resultType"] == "task"
    go.set()
    assert (await client.until(handle["taskId"]))["status"] == "completed"
    assert began == 2


async def test_cancelling_runs_finally_and_stays_cancelled() -> None:
    """Cooperative; an acknowledgement for a finished task too."""
    app = make()
    cleaned = asyncio.Event()

    @app.tool(task="optional")
    async def slow() -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.set()
        return "never"

    client = Modern(app)
    task_id = (await client.call("slow"))["taskId"]
    await asyncio.sleep(0)
    acknowledgement = await client.ask("tasks/cancel", taskId=task_id)
    assert set(acknowledgement) == {"resultType", "_meta"}
    async with asyncio.timeout(30):
        await cleaned.wait()
    assert (await client.get(task_id))["status"] == "cancelled"
    assert set(await client.ask("tasks/cancel", taskId=task_id)) == {"resultType", "_meta"}
    assert (await client.get(task_id))["status"] == "cancelled"


async def test_a_task_of_another_principal_does_not_exist() -> None:
    """Access is the principal's; the answer does not tell that there is one."""
    app = make()

    @app.tool(task="optional")
    async def slow() -> str:
        return "secret"

    handle = await Modern(app, principal="ann").call("slow")
    assert (await Modern(app, principal="ann").until(handle["taskId"]))["status"] == "completed"
    for other in ("bob", None):
        for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
            with pytest.raises(InvalidParams):
                await Modern(app, principal=other).ask(method, taskId=handle["taskId"], **more)


async def test_progress_becomes_the_status_message() -> None:
    """Tasks have no progress notifications in the extension; the status message has the progress."""
    app = make()
    go = asyncio.Event()

    @app.tool(task="optional")
    async def work(ctx: Context) -> str:
        await ctx.progress(1, 3, "one of three")
        await go.wait()
        return ""

    client = Modern(app)
    task_id = (await client.call("work"))["taskId"]
    async with asyncio.timeout(30):
        while (await client.get(task_id)).get("statusMessage") != "one of three":
            await asyncio.sleep(0.001)
    go.set()
    await client.until(task_id)


async def test_what_a_call_said_before_it_was_a_task_is_the_task_s_first_word() -> None:
    """A status that was set in the first moments is not lost."""
    app = make()
    go = asyncio.Event()

    @app.tool(task="optional", task_after_s=0.02)
    async def work(ctx: Context) -> str:
        await ctx.set_status("warming up")
        await go.wait()
        return ""

    client = Modern(app)
    task_id = (await client.call("work"))["taskId"]
    async with asyncio.timeout(30):
        while (await client.get(task_id)).get("statusMessage") != "warming up":
            await asyncio.sleep(0.001)
    go.set()
    await client.until(task_id)


async def test_an_expired_task_is_cancelled_and_deleted() -> None:
    """The life counts from the creation."""
    now = 1000.0
    from ferrule.stores.tasks import MemoryTasks

    store = MemoryTasks(clock=lambda: now)
    app = make(store=store, ttl_s=5)
    app.extensions[TASKS].repository.clock = lambda: now  # type: ignore[attr-defined]

    @app.tool(task="optional")
    async def slow() -> str:
        return "x"

    client = Modern(app)
    task_id = (await client.call("slow"))["taskId"]
    await client.until(task_id)
    now += 4.9
    assert (await client.get(task_id))["status"] == "completed"
    now += 0.2
    with pytest.raises(InvalidParams):
        await client.get(task_id)
    assert len(store) == 0


async def test_the_number_and_the_size_of_tasks_are_bounded() -> None:
    """What a client can create without end would be a way to fill the memory."""
    app = make(max_tasks=1, max_task_bytes=2000)

    @app.tool(task="required")
    async def big() -> str:
        return "x" * 3000

    client = Modern(app)
    task = await client.until((await client.call("big"))["taskId"])
    assert task["status"] == "failed"
    assert "2000 bytes" in task["statusMessage"]
    with pytest.raises(MCPError, match="too many tasks"):
        await client.call("big")


async def test_a_call_that_cannot_become_a_task_is_waited_for() -> None:
    """A threshold is an offer; a full store is no reason to lose the call."""
    app = make(max_tasks=0)

    @app.tool(task="optional", task_after_s=0.01)
    async def slow() -> str:
        await asyncio.sleep(0.05)
        return "done"

    assert (await Modern(app).call("slow"))["content"][0]["text"] == "done"


async def test_listeners_hear_of_the_tasks_they_named() -> None:
    """The whole task on each change; undeclared is -32021; foreign ids are not granted."""
    app = make()
    go = asyncio.Event()

    @app.tool(task="optional")
    async def slow() -> str:
        await go.wait()
        return "x"

    client = Modern(app)
    task_id = (await client.call("slow"))["taskId"]
    with pytest.raises(MissingRequiredClientCapability):
        await Modern(app, {}).ask("subscriptions/listen", notifications={"taskIds": [task_id]})
    listening = asyncio.ensure_future(client.ask("subscriptions/listen", notifications={"taskIds": [task_id, "no"]}))
    async with asyncio.timeout(30):
        while not client.dispatch.sent:
            await asyncio.sleep(0)
        assert client.dispatch.sent[0][1]["notifications"] == {"taskIds": [task_id]}
        go.set()
        while len(client.dispatch.sent) < 2:
            await asyncio.sleep(0)
    method, params = client.dispatch.sent[-1]
    assert method == "notifications/tasks"
    assert (params["taskId"], params["status"]) == (task_id, "completed")
    assert params["result"]["content"][0]["text"] == "x"
    listening.cancel()


async def test_nothing_is_announced_twice_and_legacy_capabilities_stay_legacy() -> None:
    """The extension in ``server/discover``, no ``capabilities.tasks``."""
    app = make()
    found = await Modern(app).ask("server/discover")
    assert found["capabilities"]["extensions"] == {TASKS: {}}
    assert "tasks" not in found["capabilities"]


async def test_task_turns_the_extension_on_by_itself() -> None:
    """An author who writes ``task=`` has opted in."""
    app = MCPServer("x")

    @app.tool
    def plain() -> str:
        return "x"

    assert not app.extensions

    @app.tool(task="optional")
    async def slow() -> str:
        return "x"

    assert list(app.extensions) == [TASKS]
    assert (await Modern(app).call("plain", task={"ttl": 5}))["content"][0]["text"] == "x"


async def test_a_withdrawn_request_takes_its_body_along_while_it_is_no_task() -> None:
    """A client that has disconnected could not receive the task's id."""
    app = make()
    began, cleaned = asyncio.Event(), asyncio.Event()

    @app.tool(task="optional", task_after_s=30)
    async def slow() -> str:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.set()
        return ""

    call = asyncio.ensure_future(Modern(app).call("slow"))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned.is_set()


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("after_s", [0.0, None, 0.01])
async def test_an_exit_without_a_cancellation_is_the_tools_failure(
    kind: type[BaseException], after_s: float | None
) -> None:
    """In a task as in a call: a result with ``isError``, and the loop continues (`kernel.concurrency.cancellation`)."""
    app = make()

    @app.tool(task="optional", task_after_s=after_s)
    async def leave(ctx: Context) -> str:
        await asyncio.sleep(0.05)
        raise kind

    client = Modern(app)
    result = await client.call("leave")
    if result["resultType"] == "task":
        task = await client.until(result["taskId"])
        assert task["status"] == "completed"
        result = task["result"]
    assert result["isError"] is True


async def test_a_middleware_that_raises_an_exit_fails_the_task(caplog: pytest.LogCaptureFixture) -> None:
    """The pass around the body runs in a task of its own, which would end the event loop."""

    async def leave(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if current_task_id() is not None:
            raise SystemExit(2)
        return result

    app = MCPServer("tasks", extensions=[Tasks()], middleware=[leave])

    @app.tool(task="optional")
    async def well() -> str:
        return "well"

    client = Modern(app)
    task = await client.until((await client.call("well"))["taskId"])
    assert task["status"] == "failed"
    assert task["error"] == {"code": -32603, "message": "Internal error"}
    assert any(record.exc_info for record in caplog.records)


async def test_the_users_time_is_not_that_of_a_task() -> None:
    """``timeout_s`` bounds what the body does, not how long its question waits in the record."""
    app = make()

    @app.tool(task="optional", timeout_s=0.3)
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Name?", str)).data)

    client = Modern(app)
    handle = await client.call("ask")
    task = await client.until(handle["taskId"], "input_required")
    await asyncio.sleep(0.6)
    answers = {key: {"action": "accept", "content": {"value": "ann"}} for key in task["inputRequests"]}
    await client.ask("tasks/update", taskId=handle["taskId"], inputResponses=answers)
    task = await client.until(handle["taskId"])
    assert task["result"]["content"][0]["text"] == "ann"


async def test_the_time_of_a_question_is_kept_before_the_call_is_a_task() -> None:
    """Its answer comes in a later round of the call, and may come too late."""
    now = [1000.0]
    app = make()
    settings_of(app.lowlevel).clock = lambda: now[0]

    @app.tool(task="optional", task_after_s=None)
    async def ask(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("Name?", str, timeout_s=5)).data)
        except QuestionExpired:
            return "too late"

    client = Modern(app)
    for waits_s, text in ((1, "ann"), (6, "too late")):
        asked = await client.call("ask")
        now[0] += waits_s
        answers = {key: {"action": "accept", "content": {"value": "ann"}} for key in asked["inputRequests"]}
        result = await client.call("ask", requestState=asked["requestState"], inputResponses=answers)
        assert result["content"][0]["text"] == text


async def test_a_question_while_the_call_becomes_a_task_is_asked_in_the_task() -> None:
    """The store takes its time to write the promotion; the round does not end meanwhile."""
    extension = Tasks()
    app = MCPServer("tasks", extensions=[extension])
    writing, add = asyncio.Event(), extension.repository.add

    async def slow_add(*args: Any, **options: Any) -> Any:
        writing.set()
        for _ in range(100):  # passes of the loop: more than a standstill takes
            await asyncio.sleep(0)
        return await add(*args, **options)

    extension.repository.add = slow_add

    @app.tool(task="optional", task_after_s=0.01)
    async def ask(ctx: Context) -> str:
        await writing.wait()
        return str((await ctx.elicit("Name?", str)).data)

    client = Modern(app)
    handle = await client.call("ask")
    assert handle["resultType"] == "task"
    task = await client.until(handle["taskId"], "input_required", "failed")
    answers = {key: {"action": "accept", "content": {"value": "ann"}} for key in task["inputRequests"]}
    await client.ask("tasks/update", taskId=handle["taskId"], inputResponses=answers)
    task = await client.until(handle["taskId"])
    assert task["result"]["content"][0]["text"] == "ann"


async def test_a_call_that_cannot_become_a_task_is_answered_and_the_reason_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While the store is unreachable, the client waits for the result, and a WARNING has the reason."""
    extension = Tasks()
    app = MCPServer("tasks", extensions=[extension])
    refused = asyncio.Event()

    async def fail(*args: Any, **options: Any) -> Any:
        refused.set()
        raise OSError("the store is away")

    extension.repository.add = fail

    @app.tool(task="optional", task_after_s=0.01)
    async def slow() -> str:
        await refused.wait()
        return "done"

    result = await Modern(app).call("slow")
    assert result["content"][0]["text"] == "done"
    logged = [record for record in caplog.records if "could not be made a task" in record.message]
    assert [record.levelname for record in logged] == ["WARNING"]
    assert "the store is away" in logged[0].message


async def test_a_task_that_failed_for_its_size_takes_no_further_step() -> None:
    """A task that is reported as failed has stopped, and no process can claim it."""
    extension = Tasks(max_task_bytes=3000)
    app = MCPServer("tasks", extensions=[extension])
    steps: list[str] = []
    ended = asyncio.Event()

    @app.tool(task="optional")
    async def charge(ctx: Context) -> str:
        try:
            for name in ("large", "charge"):
                await ctx.step(name, lambda name=name: steps.append(name) or "x" * 4000)
        finally:
            ended.set()
        return "no"

    client = Modern(app)
    task_id = (await client.call("charge"))["taskId"]
    task = await client.until(task_id)
    assert task["status"] == "failed"
    await asyncio.wait_for(ended.wait(), 30)
    assert steps == ["large"]
    found = await extension.repository.find(task_id)
    assert found is not None
    assert not found[0].is_open


def nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


async def test_a_task_whose_result_is_too_deep_for_its_record_fails() -> None:
    """It would wait for its end until it expires, and another process would run a resumable one again and again."""
    app = make()

    @app.tool(task="required")
    async def deep() -> dict[str, Any]:
        return nested(MAX_DEPTH - 1)

    client = Modern(app)
    task = await client.until((await client.call("deep"))["taskId"])
    assert task["status"] == "failed"
    assert task["error"] == {"code": -32603, "message": "Internal error"}


@pytest.mark.parametrize("data", [object(), nested(MAX_DEPTH)], ids=["no JSON", "too deep"])
async def test_a_task_fails_without_the_data_of_its_error_where_they_cannot_be_written(
    data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As a direct call: code and message are sent, and the reason is logged."""
    app = make()

    @app.tool(task="required")
    async def refuse() -> str:
        raise MCPError("no", code=7, data=data)

    client = Modern(app)
    task = await client.until((await client.call("refuse"))["taskId"])
    assert (task["status"], task["error"]) == ("failed", {"code": 7, "message": "no"})
    assert "cannot be written as JSON" in caplog.text
