"""What stands around a task's body: middleware, questions returned by hand, expiry, and who may still write."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.app.middleware.builtin import RateLimit, Timing, TimingOf
from ferrule.app.rounds.manual import InputRequired
from ferrule.extensions.tasks import Tasks, current_task_id
from ferrule.extensions.tasks.run import TaskRun
from ferrule.protocol.errors import InvalidParams, MCPError
from ferrule.types import ToolResult
from tests.extensions.tasks.support import Legacy, Modern, process, tasks_of

pytestmark = pytest.mark.anyio

tenant: ContextVar[str] = ContextVar("tenant")


async def redact(ctx: Any, call_next: Any) -> Any:
    """Takes a secret out of every result."""
    result = await call_next(ctx)
    if isinstance(result, ToolResult) and result.content:
        text = (result.content[0].text or "").replace("secret", "***")
        return replace(result, content=[replace(result.content[0], text=text)], structured_content=None)
    return result


@pytest.mark.parametrize("after_s", [0.0, 0.01])
async def test_the_result_of_a_task_passes_the_middleware(after_s: float) -> None:
    """A direct call's result does, and who takes secrets out of results relies on it."""
    app = MCPServer("x", middleware=[redact])

    @app.tool(task="optional", task_after_s=after_s)
    async def tell() -> str:
        await asyncio.sleep(0.05)
        return "the secret"

    client = Modern(app)
    task = await client.until((await client.call("tell"))["taskId"])
    assert task["result"]["content"][0]["text"] == "the ***"
    legacy = Legacy(app)
    task_id = (await legacy.start("tell"))["task"]["taskId"]
    assert (await legacy.ask("tasks/result", taskId=task_id))["content"][0]["text"] == "the ***"


async def test_middleware_sees_the_request_and_then_the_task() -> None:
    """The task id distinguishes the two runs of middleware; a call that is not a task runs it once."""
    seen: list[tuple[str | None, str]] = []
    timings: list[TimingOf] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        result = await call_next(ctx)
        seen.append((current_task_id(), type(result).__name__))
        return result

    app = MCPServer("x", middleware=[watch, Timing(timings.append), RateLimit(2, per_s=3600)])

    @app.tool(task="optional", task_after_s=10)
    async def quick() -> str:
        return "x"

    @app.tool(task="optional")
    async def slow() -> str | None:
        return current_task_id()

    client = Modern(app)
    await client.call("quick")
    assert seen == [(None, "ToolResult")]
    handle = await client.call("slow")
    task = await client.until(handle["taskId"])
    assert task["result"]["content"][0]["text"] == handle["taskId"]
    assert seen[1:] == [(None, "DetailedTask"), (handle["taskId"], "ToolResult")]
    assert [(timing.name, timing.outcome) for timing in timings if timing.method == "tools/call"] == [
        ("quick", "ok"),
        ("slow", "task"),
        ("slow", "ok"),
    ]
    with pytest.raises(MCPError):  # two requests were counted, and no task
        await client.call("quick")


async def test_what_middleware_puts_into_context_reaches_the_body_and_an_error_goes_through_it() -> None:
    """As around a direct call."""

    async def around(ctx: Any, call_next: Any) -> Any:
        tenant.set("acme")
        try:
            return await call_next(ctx)
        except MCPError as error:
            raise InvalidParams("translated") from error

    app = MCPServer("x", middleware=[around])

    @app.tool(task="required")
    async def work(fail: bool) -> str:
        if fail:
            raise MCPError("raw", code=-32001)
        return tenant.get()

    client = Modern(app)
    task = await client.until((await client.call("work", {"fail": False}))["taskId"])
    assert task["result"]["content"][0]["text"] == "acme"
    task = await client.until((await client.call("work", {"fail": True}))["taskId"])
    assert (task["status"], task["error"]["message"]) == ("failed", "translated")


async def test_middleware_that_answers_by_itself_ends_the_task() -> None:
    """The body is then not needed, so it is cancelled."""
    ran: list[str] = []

    async def veto(ctx: Any, call_next: Any) -> Any:
        if current_task_id() is not None:
            return {"content": [{"type": "text", "text": "vetoed"}]}
        return await call_next(ctx)

    app = MCPServer("x", middleware=[veto])

    @app.tool(task="optional")
    async def work() -> str:
        ran.append("x")
        return "x"

    client = Modern(app)
    task = await client.until((await client.call("work"))["taskId"])
    assert task["result"]["content"][0]["text"] == "vetoed"
    assert not ran
    assert tasks_of(app).running_here == 0


async def test_a_task_that_is_cancelled_inside_middleware_ends() -> None:
    """Cancelling reaches what stands around the body, too."""
    ended = asyncio.Event()

    async def linger(ctx: Any, call_next: Any) -> Any:
        if current_task_id() is not None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
        return await call_next(ctx)

    app = MCPServer("x", middleware=[linger])

    @app.tool(task="optional")
    async def work() -> str:
        return "x"

    client = Modern(app)
    task_id = (await client.call("work"))["taskId"]
    await asyncio.sleep(0)
    await client.ask("tasks/cancel", taskId=task_id)
    await asyncio.wait_for(ended.wait(), 30)
    assert (await client.get(task_id))["status"] == "cancelled"


@pytest.mark.parametrize("era", [Modern, Legacy])
async def test_questions_returned_by_hand_are_asked_in_a_task(era: type[Any]) -> None:
    """The same function as in a call that is not a task, with keys of the author's own."""
    app = MCPServer("x")
    ask = {"message": "name?", "requestedSchema": {"type": "object", "properties": {"value": {"type": "string"}}}}

    @app.tool(task="optional")
    async def greet(ctx: Context) -> Any:
        answers = ctx.input_responses
        if not answers:
            return InputRequired({"the name": {"method": "elicitation/create", "params": ask}}, state={"round": 1})
        if ctx.input_state == {"round": 1}:
            first = answers["the name"]["content"]["value"]
            again = {"the name": {"method": "elicitation/create", "params": ask}}
            return InputRequired(again, state={"round": 2, "first": first})
        return f"{ctx.input_state['first']} {answers['the name']['content']['value']}"

    names = iter(["Ann", "Lee"])
    if era is Modern:
        client = Modern(app)
        task_id = (await client.call("greet"))["taskId"]
        keys: list[str] = []
        for name in names:
            task = await client.until(task_id, "input_required")
            (key,) = task["inputRequests"]
            assert task["inputRequests"][key]["params"]["message"] == "name?"
            keys.append(key)
            answer = {"action": "accept", "content": {"value": name}}
            await client.ask("tasks/update", taskId=task_id, inputResponses={key: answer})
            async with asyncio.timeout(30):
                while key in ((await client.get(task_id)).get("inputRequests") or {}):
                    await asyncio.sleep(0.001)
        assert len(set(keys)) == 2
        result = (await client.until(task_id))["result"]
    else:
        legacy = Legacy(app, lambda method, params: {"action": "accept", "content": {"value": next(names)}})
        task_id = (await legacy.start("greet"))["task"]["taskId"]
        result = await legacy.ask("tasks/result", taskId=task_id)
    assert result["content"][0]["text"] == "Ann Lee"


async def test_a_running_task_ends_with_its_life() -> None:
    """Also in memory, where no lease is renewed."""
    app = MCPServer("x", extensions=[Tasks(ttl_s=0.05)])
    ended = asyncio.Event()

    @app.tool(task="optional")
    async def slow() -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return ""

    await Modern(app).call("slow")
    await asyncio.wait_for(ended.wait(), 30)
    async with asyncio.timeout(30):
        while tasks_of(app).running_here:
            await asyncio.sleep(0.001)


# -- two processes ----------------------------------------------------------------------------------------------------


async def test_who_was_taken_for_dead_takes_no_step_and_finishes_nothing(tmp_path: Path) -> None:
    """A process that slept longer than its lease wakes up beside the one that took its task over."""
    effects: list[str] = []
    gates = {"one": asyncio.Event(), "two": asyncio.Event()}
    runs: list[TaskRun] = []

    def make(name: str) -> MCPServer[Any]:
        app: MCPServer[Any] = MCPServer("x", store=f"sqlite:///{tmp_path}/t.db", extensions=[Tasks(lease_s=0.2)])

        @app.tool(task="optional", resumable=True)
        async def work(ctx: Context) -> str:
            await ctx.step("a", effects.append, "a")
            await gates[name].wait()
            await ctx.step("b", effects.append, f"b {name}")
            return name

        return app

    one = make("one")
    client = Modern(one)  # outside its lifespan its leases are not renewed, so that it counts as dead
    task_id = (await client.call("work"))["taskId"]
    runs += tasks_of(one)._scheduler.runs
    async with process(make("two")) as other, asyncio.timeout(30):
        while not tasks_of(other.app).running_here:
            await asyncio.sleep(0.01)
        gates["one"].set()  # it wakes up
        await asyncio.wait([run.ended for run in runs])
        assert effects == ["a"]
        assert (await other.get(task_id))["status"] == "working"
        gates["two"].set()
        task = await other.until(task_id)
    assert task["result"]["content"][0]["text"] == "two"
    assert effects == ["a", "b two"]
