"""Handles of tasks, on both wires, against a server of this package."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule import Server as LowLevelServer
from ferrule.client.calls.tasks import TASKS_EXTENSION, TaskCancelled
from ferrule.client.errors import InputRequiredError, TooManyRounds
from ferrule.extensions.tasks import Tasks, current_task_id
from ferrule.protocol.errors import MethodNotFound, RemoteError

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])


class Server:
    """A server with tasks, and what it waits for."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.app = app = MCPServer("tasks", extensions=[Tasks(poll_interval_ms=20)])

        @app.tool(task="optional")
        async def greet(ctx: Context) -> str:
            await ctx.set_status("asking")
            answer = await ctx.elicit("name?", str)
            await self.go.wait()
            return f"Hello {answer.data}"

        @app.tool(task="optional")
        async def fail() -> str:
            raise MCPError("broken", code=-32001)

        @app.tool
        async def plain() -> str:
            return "plain"

        @app.tool(task="required")
        async def only() -> int:
            return 42


async def answer(question: Any, *_: Any) -> Any:
    return {"action": "accept", "content": {"value": "Ann"}}


@ERAS
async def test_a_handle_answers_questions_and_gives_the_result(mode: str) -> None:
    """The same lines for both wires."""
    server = Server()
    server.go.set()
    async with Client(server.app, mode=mode, elicitation_handler=answer) as client:
        handle = await client.start_tool("greet")
        assert handle.task_id
        assert (await handle.result(timeout_s=10)).text == "Hello Ann"
        assert (await handle.status()).is_over


@ERAS
async def test_a_handle_is_found_again_by_its_id(mode: str) -> None:
    """A restarted program can continue to wait for the task."""
    server = Server()
    async with server.app.lowlevel.lifespan():  # the server goes on between the two
        async with Client(server.app, mode=mode, elicitation_handler=answer) as client:
            task_id = (await client.start_tool("greet")).task_id
        assert task_id is not None
        server.go.set()
        async with Client(server.app, mode=mode, elicitation_handler=answer) as client:
            assert (await client.task(task_id).result(timeout_s=10)).text == "Hello Ann"


@ERAS
async def test_a_wait_can_end_and_begin_again(mode: str) -> None:
    """The time-out is the waiter's, not the task's."""
    server = Server()
    async with Client(server.app, mode=mode, elicitation_handler=answer) as client:
        handle = await client.start_tool("greet")
        with pytest.raises(TimeoutError):
            await handle.result(timeout_s=0.2)
        server.go.set()
        assert (await handle.result(timeout_s=10)).text == "Hello Ann"


@ERAS
async def test_cancelling(mode: str) -> None:
    """A finished task stays as it is, and asking twice is not an error."""
    server = Server()
    async with Client(server.app, mode=mode, elicitation_handler=answer) as client:
        handle = await client.start_tool("greet")
        await handle.cancel()
        await handle.cancel()
        assert (await handle.status()).status == "cancelled"
        with pytest.raises(TaskCancelled):
            await handle.result(timeout_s=10)


@ERAS
async def test_a_failed_task_raises_its_error(mode: str) -> None:
    """Code and message as the server gave them."""
    async with Client(Server().app, mode=mode) as client:
        handle = await client.start_tool("fail")
        with pytest.raises(RemoteError) as caught:
            await handle.result(timeout_s=10)
        assert caught.value.code == -32001


async def test_events_tell_each_change_and_end() -> None:
    """What a display follows."""
    server = Server()
    async with Client(server.app, elicitation_handler=answer) as client:
        handle = await client.start_tool("greet")
        waiting = asyncio.ensure_future(handle.result(timeout_s=10))
        seen = []
        async for state in client.task(handle.task_id or "").events():
            seen.append(state.status)
            server.go.set()
        assert seen[-1] == "completed"
        assert (await waiting).text == "Hello Ann"


async def test_call_tool_drives_a_task_to_its_end() -> None:
    """Declared for the whole client, tasks are invisible to who just calls."""
    server = Server()
    server.go.set()
    async with Client(server.app, elicitation_handler=answer, extensions={TASKS_EXTENSION: {}}) as client:
        assert (await client.call_tool("greet")).text == "Hello Ann"
        assert (await client.call_tool("only")).data == 42


async def test_call_tool_drives_a_task_that_a_legacy_server_insists_on() -> None:
    """The server refuses the plain call with -32601; the client repeats it as a task, and makes the next one a task at
    once."""
    server = Server()

    @server.app.tool(task="required")
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("name?", str)
        return f"Hello {answer.data}"

    seen: list[bool] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call" and current_task_id() is None:
            seen.append("task" in ctx.params)
        return await call_next(ctx)

    server.app.lowlevel.middleware.append(watch)
    async with Client(server.app, mode="2025-11-25", elicitation_handler=answer) as client:
        assert (await client.call_tool("only")).data == 42
        assert (await client.call_tool("only")).data == 42
        assert (await client.call_tool("ask")).text == "Hello Ann"
        with pytest.raises(RemoteError):
            await client.call_tool("unknown")
    assert seen == [False, True, True, False, True, False]


async def test_call_tool_declares_tasks_to_a_modern_server_that_insists() -> None:
    """The error -32021 names the extension, which the client supports, so the caller need not declare it."""
    server = Server()
    async with Client(server.app, mode="2026-07-28") as client:
        assert (await client.call_tool("only")).data == 42
        assert (await client.call_tool("only")).data == 42
        assert (await client.call_tool("plain")).text == "plain"


@ERAS
async def test_start_tool_of_a_tool_that_is_never_a_task_is_a_finished_handle(mode: str) -> None:
    """A 2025-11-25 server refuses to make a task of it; the caller asked for a result some time."""
    server = Server()
    async with Client(server.app, mode=mode) as client:
        handle = await client.start_tool("plain")
        assert handle.task_id is None
        assert (await handle.result()).text == "plain"
        with pytest.raises(RemoteError):
            await client.start_tool("unknown")


async def test_a_handle_is_woken_by_the_server_and_does_not_only_poll() -> None:
    """The server wants to be asked once a minute; the result comes when it is there."""
    app = MCPServer("slow poll", extensions=[Tasks(poll_interval_ms=60_000)])
    go = asyncio.Event()

    @app.tool(task="optional")
    async def work(ctx: Context) -> str:
        await ctx.set_status("working")
        await go.wait()
        return "done"

    async with Client(app, mode="2026-07-28") as client:
        handle = await client.start_tool("work")
        found = client.task(handle.task_id or "", tool="work")  # as after a restart: nothing is known of it
        looks = 0

        async def counted(method: str, params: Any, ask: Any = client._tasks.ask) -> Any:
            nonlocal looks
            looks += method == "tasks/get"
            return await ask(method, params)

        client._tasks.ask = counted  # type: ignore[method-assign]
        states: list[Any] = []

        async def watch() -> None:
            states.extend([state async for state in found.events()])

        watching = asyncio.ensure_future(watch())
        waiting = asyncio.ensure_future(found.result(timeout_s=30))
        async with asyncio.timeout(30):
            while not app.lowlevel.bus.__len__():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            go.set()
            assert (await waiting).text == "done"
            await watching
        assert states[-1].status == "completed"
        assert looks <= 8
        async with asyncio.timeout(30):
            while len(app.lowlevel.bus) > 1:  # one is the server's own, for words about its tasks
                await asyncio.sleep(0.01)


async def test_a_server_without_subscriptions_is_polled() -> None:
    """The fallback: a refused subscription ends nothing."""
    server = Server()

    async def refuse(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "subscriptions/listen":
            raise MethodNotFound(ctx.method)
        return await call_next(ctx)

    server.app.lowlevel.middleware.append(refuse)
    async with Client(server.app, mode="2026-07-28", elicitation_handler=answer) as client:
        handle = await client.start_tool("greet")
        waiting = asyncio.ensure_future(handle.result(timeout_s=10))
        await asyncio.sleep(0.2)
        server.go.set()
        assert (await waiting).text == "Hello Ann"


@pytest.mark.parametrize(
    ("named", "ttl_s", "poll_s"),
    [
        ({}, None, 1.0),
        ({"ttl": 5000, "pollInterval": 500}, 5.0, 0.5),
        ({"ttl": "soon", "pollInterval": "often"}, None, 1.0),
        ({"ttl": 10**400, "pollInterval": 10**400}, None, 1.0),
        ({"ttl": 0, "pollInterval": 0}, 0.0, 0.02),
        ({"pollInterval": 10**15}, None, 60.0),
    ],
)
async def test_the_times_of_a_task_are_bounded(named: dict[str, Any], ttl_s: float | None, poll_s: float) -> None:
    """They come from the server, which may name any number."""
    server: LowLevelServer[Any] = LowLevelServer("tasks")

    async def get(ctx: Any) -> Any:
        task = {"taskId": "t", "status": "working", "createdAt": "x", "lastUpdatedAt": "x"}
        return {**task, **named}

    server.add_request_handler("tasks/get", get, trusted=True)
    async with Client(server, mode="2025-11-25") as client:
        state = await client.task("t").status()
    assert (state.ttl_s, state.poll_interval_s) == (ttl_s, poll_s)


def server_that_asks_on() -> tuple[LowLevelServer[Any], list[Any]]:
    """Return a server whose task has a new question at each poll, and the list of the answers that it gets."""
    server: LowLevelServer[Any] = LowLevelServer("tasks")
    answers: list[Any] = []

    async def get(ctx: Any) -> Any:
        question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
        status = "cancelled" if len(answers) == 20 else "input_required"  # so that the test ends, too, if no bound does
        task = {"taskId": "t", "status": status, "createdAt": "x", "lastUpdatedAt": "x"}
        return {**task, "inputRequests": {f"k{len(answers)}": question}}

    async def update(ctx: Any) -> Any:
        answers.append(ctx.params["inputResponses"])
        return {}

    server.add_extension(TASKS_EXTENSION)
    server.add_request_handler("tasks/get", get, params_type=dict, extension=TASKS_EXTENSION, trusted=True)
    server.add_request_handler("tasks/update", update, params_type=dict, extension=TASKS_EXTENSION, trusted=True)
    return server, answers


async def test_the_rounds_of_questions_of_a_task_are_bounded() -> None:
    """A server may put a new question into each poll; a client may not answer for ever, as with a call."""
    server, answers = server_that_asks_on()
    async with Client(server, mode="2026-07-28", elicitation_handler=answer, max_rounds=3) as client:
        handle = client.task("t")
        for _ in range(2):  # the bound is the task's: a second wait begins no new count
            with pytest.raises(TooManyRounds, match="after 3 rounds"):
                await handle.result(timeout_s=10)
        assert [key for answered in answers for key in answered] == ["k0", "k1", "k2"]


async def test_a_client_without_rounds_gets_the_questions_of_a_task_as_data() -> None:
    """The same setting, and the same error, as with a call."""
    server, answers = server_that_asks_on()
    async with Client(server, mode="2026-07-28", elicitation_handler=answer, max_rounds=0) as client:
        with pytest.raises(InputRequiredError, match="The task t needs input: k0") as asked:
            await client.task("t").result(timeout_s=10)
        assert (asked.value.result["taskId"], list(asked.value.result["inputRequests"])) == ("t", ["k0"])
        assert not answers
