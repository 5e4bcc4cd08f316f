"""ferrule.client.groups.member: sessions, limits, filters, and calls whose connection is lost."""

from __future__ import annotations

import logging
from typing import Any, cast

import anyio
import pytest

from ferrule import Client, ClientGroup, MCPServer
from ferrule.client.config import read_target
from ferrule.client.errors import ServerUnavailable, UnknownServer
from ferrule.client.groups.member import is_safe_to_repeat
from ferrule.client.supervision.policy import ReconnectPolicy
from ferrule.protocol.errors import ConnectionClosed, RemoteError
from ferrule.wire.types import Tool, ToolAnnotations

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

HOST_ENTRY = {
    "command": "server",
    "timeout": 7,
    "connectTimeout": 9,
    "maxConcurrent": 2,
    "excludeTools": ["secret*"],
    "tools": {"find": {"name": "search", "description": "Find pages."}},
}


class Blocking:
    """A server whose tool waits for the test, and which counts the calls that run."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.running = 0
        self.app = MCPServer("blocking")

        @self.app.tool
        async def wait() -> str:
            """Wait."""
            self.running += 1
            await self.gate.wait()
            return "waited"


class Breaking(Client):
    """A client whose next calls lose their connection before an answer."""

    breaks = 0
    calls = 0

    async def call_tool(self, name: str, *args: Any, **options: Any) -> Any:
        """Call, or fail."""
        type(self).calls += 1
        if type(self).breaks > 0:
            type(self).breaks -= 1
            raise ConnectionClosed("the process ended")
        return await super().call_tool(name, *args, **options)


@pytest.fixture
def breaking() -> type[Breaking]:
    """A class of clients with counts of its own."""
    return type("Breaking", (Breaking,), {"breaks": 0, "calls": 0})


def make_app() -> MCPServer[Any]:
    """Tools with and without hints."""
    app = MCPServer("hints")
    app.add_tool(lambda: "x", name="plain")
    app.add_tool(lambda: "x", name="reads", annotations=ToolAnnotations(read_only_hint=True))
    app.add_tool(lambda: "x", name="sets", annotations=ToolAnnotations(idempotent_hint=True))
    return app


@pytest.mark.parametrize("tool", ["reads", "sets"])
async def test_a_tool_that_is_safe_to_repeat_is_called_once_more(tool: str, breaking: type[Breaking]) -> None:
    """After the server was connected again; a second loss is the caller's."""
    async with ClientGroup({"s": make_app()}, client_class=breaking) as group:
        await group.list_tools()
        breaking.breaks = 1
        assert (await group.call_tool(f"s_{tool}")).text == "x"
        assert breaking.calls == 2
        breaking.breaks = 5
        with pytest.raises(ConnectionClosed, match="the process ended"):
            await group.call_tool(f"s_{tool}")
        assert breaking.calls == 4


async def test_a_tool_that_may_not_be_repeated_gives_the_error(breaking: type[Breaking]) -> None:
    """Without a hint, before it was listed, or where the program says so."""
    async with ClientGroup({"s": make_app()}, client_class=breaking) as group:
        breaking.breaks = 1
        with pytest.raises(ConnectionClosed):
            await group.call_tool("s_reads")  # not listed yet
        await group.client("s")
        await group.list_tools()
        breaking.breaks = 1
        with pytest.raises(ConnectionClosed):
            await group.call_tool("s_plain")
        assert breaking.calls == 2
        assert group.servers["s"].error is not None
        assert (await group.call_tool("s_plain")).text == "x"  # a call connects again
        assert group.servers["s"].is_up
    async with ClientGroup({"s": make_app()}, client_class=breaking, retry_safe=False) as group:
        await group.list_tools()
        breaking.breaks = 1
        with pytest.raises(ConnectionClosed):
            await group.call_tool("s_reads")


def test_the_hints_that_make_a_call_safe_to_repeat() -> None:
    """Missing ones count as unsafe (annotations of tools, in the specification)."""
    made = {None: False, "read_only_hint": True, "idempotent_hint": True, "open_world_hint": False}
    for hint, is_safe in made.items():
        hints = None if hint is None else ToolAnnotations(**cast("Any", {hint: True}))
        assert is_safe_to_repeat(Tool(name="t", input_schema={}, annotations=hints)) is is_safe
    assert not is_safe_to_repeat(Tool(name="t", input_schema={}, annotations=ToolAnnotations(read_only_hint=False)))


async def test_an_error_of_the_server_is_an_answer(breaking: type[Breaking]) -> None:
    """It neither loses the connection nor is the call repeated."""
    async with ClientGroup({"s": make_app()}, client_class=breaking) as group:
        with pytest.raises(RemoteError):
            await group.call_tool("s_unknown")
        assert group.servers["s"].is_up
        assert breaking.calls == 1


async def test_sessions_are_opened_when_others_are_in_use() -> None:
    """Up to the number that was given; further calls share them."""
    blocking = Blocking()
    async with ClientGroup({"one": blocking.app, "many": blocking.app}, sessions={"many": 3}) as group:
        one, many = group.servers["one"], group.servers["many"]
        async with anyio.create_task_group() as calls:
            for name in ("one_wait", "many_wait"):
                for _ in range(5):
                    calls.start_soon(group.call_tool, name)
            with anyio.fail_after(30):
                while blocking.running < 10:
                    await anyio.sleep(0.005)
            assert (one.sessions, many.sessions) == (1, 3)
            blocking.gate.set()
        await group.call_tool("many_wait")
        assert many.sessions == 3
    assert (one.sessions, many.sessions) == (0, 0)


async def test_a_further_session_that_fails_leaves_the_call_to_the_first(caplog: pytest.LogCaptureFixture) -> None:
    """A server may allow only some."""
    caplog.set_level(logging.INFO, "ferrule.client")
    blocking = Blocking()
    made: list[Client] = []

    class Single(Client):
        async def connect(self) -> Any:
            made.append(self)
            if self is not made[0]:
                raise OSError("only one")
            return await super().connect()

    async with ClientGroup({"s": blocking.app}, sessions=2, client_class=Single) as group:
        async with anyio.create_task_group() as calls:
            for _ in range(2):
                calls.start_soon(group.call_tool, "s_wait")
            with anyio.fail_after(30):
                while blocking.running < 2:
                    await anyio.sleep(0.005)
            blocking.gate.set()
        assert group.servers["s"].sessions == 1
    assert "A further session with the server 's' failed: only one" in caplog.text


async def test_calls_in_progress_end_when_the_circuit_opens() -> None:
    """A call whose stream could be resumed would wait for a server that is away, with no end in sight."""
    blocking, caught = Blocking(), list[ServerUnavailable]()
    policy = ReconnectPolicy(failures_to_open=1)

    async def call() -> None:
        try:
            await group.call_tool("s_wait")
        except ServerUnavailable as error:
            caught.append(error)

    async with ClientGroup({"s": blocking.app}, policy=policy) as group, anyio.create_task_group() as calls:
        calls.start_soon(call)
        with anyio.fail_after(30):
            while not blocking.running:
                await anyio.sleep(0.005)
        group.servers["s"].keeper.lose(OSError("refused"))
    assert [error.server for error in caught] == ["s"]
    assert "refused" in str(caught[0])


async def test_what_the_entry_of_a_server_says() -> None:
    """Time limits and concurrency are that server's own; the keys are those of hosts."""
    group = ClientGroup({"mcpServers": {"a": HOST_ENTRY, "b": {"command": "server"}}}, timeout_s=100)
    a, b = group.servers["a"], group.servers["b"]
    assert a.client is not None
    assert b.client is not None
    assert (a.client.timeouts.timeout_s, a.client.timeouts.connect_timeout_s) == (7, 9)
    assert (b.client.timeouts.timeout_s, b.client.timeouts.connect_timeout_s) == (100, 30)
    assert (a.limits.max_concurrent, b.limits.max_concurrent) == (2, None)


async def test_tools_are_left_out_renamed_and_described_anew() -> None:
    """And called under the new name; a tool that is left out cannot be called."""
    app = MCPServer("docs")
    app.add_tool(lambda: "found", name="find")
    app.add_tool(lambda: "secret", name="secret_one")
    app.add_tool(lambda: "other", name="other")
    target: Any = read_target({"mcpServers": {"docs": HOST_ENTRY}})
    servers = {"docs": read_target(app)}
    group = ClientGroup(type(target)(servers, settings=target.settings))
    async with group:
        tools = await group.list_tools()
        assert [(tool.name, tool.description) for tool in tools if tool.name != "docs_other"] == [
            ("docs_search", "Find pages.")
        ]
        assert (await group.call_tool("docs_search")).text == "found"
        assert (await group.call_tool("docs_other")).text == "other"
        for name in ("docs_find", "docs_secret_one"):
            with pytest.raises(UnknownServer, match="has no tool"):
                await group.call_tool(name)
        page = await group.list_tools_page(server="docs")
        assert {tool.name for tool in page.tools} == {"docs_search", "docs_other"}


async def test_no_more_calls_at_once_than_the_entry_says() -> None:
    """Others wait for their turn."""
    blocking = Blocking()
    target: Any = read_target({"mcpServers": {"s": {"command": "x", "maxConcurrent": 2}}})
    group = ClientGroup(type(target)({"s": read_target(blocking.app)}, settings=target.settings))
    async with group, anyio.create_task_group() as calls:
        for _ in range(5):
            calls.start_soon(group.call_tool, "s_wait")
        with anyio.fail_after(30):
            while group.servers["s"].limits.active < 5 or blocking.running < 2:
                await anyio.sleep(0.005)
        await anyio.wait_all_tasks_blocked()
        assert blocking.running == 2
        blocking.gate.set()
