"""Handles of tasks, on both wires, against a server of this package."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.client.tasks import TASKS_EXTENSION, TaskCancelled
from ferrule.extensions.tasks import Tasks
from ferrule.protocol.errors import RemoteError

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
    """A program that was restarted goes on where it was."""
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
    """A finished task stays as it is, and asking twice is no error."""
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


@ERAS
async def test_a_tool_that_is_no_task_gives_a_finished_handle(mode: str) -> None:
    """The caller need not know which tools are tasks; only a legacy server refuses what it forbids."""
    async with Client(Server().app, mode=mode) as client:
        if mode == "2025-11-25":
            with pytest.raises(RemoteError):
                await client.start_tool("plain")
            return
        handle = await client.start_tool("plain")
        assert handle.task_id is None
        assert (await handle.result()).text == "plain"


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
    async with Client(server.app) as client:
        with pytest.raises(RemoteError):
            await client.call_tool("only")
