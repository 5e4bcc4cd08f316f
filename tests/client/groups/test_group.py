"""Several servers as one: what hangs, what comes back, what has the same name."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer, Server
from ferrule.client.groups.group import ClientGroup
from ferrule.transports.memory import memory_pair
from tests.client.pauses import Pauses
from tests.client.server_program import make_app

pytestmark = pytest.mark.anyio

anywhere = pytest.mark.usefixtures("any_backend")


class Hanging:
    """A server whose lists hang while it is told to, and which counts how often it is asked."""

    def __init__(self) -> None:
        self.hangs = True
        self.asked = 0
        self.server: Server[Any] = Server("hanging")
        self.server.add_request_handler("tools/list", self._tools, trusted=True)

    async def _tools(self, ctx: Any) -> Any:
        self.asked += 1
        if self.hangs:
            await anyio.sleep_forever()
        return {"tools": [{"name": "late", "inputSchema": {"type": "object"}}]}


@anywhere
async def test_opening_does_not_wait_for_a_server_that_never_answers() -> None:
    """The others are there; a call of the hanging one's own tools still waits for it."""
    ours, theirs = memory_pair()  # nobody reads what is sent here
    group = ClientGroup({"good": make_app(), "deaf": ours}, open_s=0.05, connect_timeout_s=600)
    async with group:
        assert [member.is_up for member in group.servers.values()] == [True, False]
        assert all(tool.name.startswith("good_") for tool in await group.list_tools())
        assert "deaf" not in {tool.name for tool in await group.list_tools()}
        with anyio.move_on_after(0.05) as scope:
            await group.call_tool("deaf_x")
        assert scope.cancelled_caught
    await theirs.aclose()


@anywhere
async def test_no_list_waits_a_second_time_for_a_server_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """It counts as away until it answers the list, and one line tells of each change."""
    caplog.set_level(logging.INFO, "ferrule.client")
    hanging, pauses = Hanging(), Pauses()
    targets = {"good": make_app(), "slow": hanging.server}
    async with ClientGroup(targets, connect_timeout_s=0.1, sleep=pauses, cache=False) as group:
        assert group.servers["slow"].is_up
        first = await group.list_tools()
        assert not group.servers["slow"].is_up
        for _ in range(3):
            assert await group.list_tools() == first
        assert hanging.asked == 1
        for asked in (2, 3):
            await pauses.end()
            await pauses.begun()
            assert hanging.asked == asked
        assert pauses.asked == [1, 2, 4]
        hanging.hangs = False
        await pauses.end()
        with anyio.fail_after(30):
            while not group.servers["slow"].is_up:
                await anyio.sleep(0.01)
        assert "slow_late" in {tool.name for tool in await group.list_tools()}
    told = [record.message for record in caplog.records if "'slow'" in record.message]
    assert [line.partition(":")[0] for line in told] == [
        "The server 'slow' does not answer any more",
        "The server 'slow' can be reached again",
    ]


@anywhere
async def test_a_server_that_was_away_comes_back_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    """With pauses that double up to a minute, and not a line for each attempt."""
    pauses, state = Pauses(), {"broken": True, "starts": 0}

    def lifespan(server: Any) -> Any:
        from contextlib import nullcontext

        state["starts"] += 1
        if state["broken"]:
            raise OSError("no disk")
        return nullcontext({})

    late = MCPServer("late", lifespan=lifespan)
    late.add_tool(lambda: "x", name="t")
    async with ClientGroup({"good": make_app(), "late": late}, sleep=pauses) as group:
        for _ in range(8):
            await pauses.end()
        await pauses.begun()
        assert pauses.asked == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        assert state["starts"] == 9
        assert caplog.text.count("'late' cannot be reached") == 1
        state["broken"] = False
        await pauses.end()
        assert group.servers["late"].is_up
        assert (await group.call_tool("late_t")).text == "x"


@anywhere
async def test_the_same_name_or_uri_is_never_two_servers(caplog: pytest.LogCaptureFixture) -> None:
    """Tools, prompts, resources and templates; a call reaches the one that was shown."""
    apps: dict[str, MCPServer[Any]] = {name: MCPServer(name) for name in ("a", "a_b")}
    for name, prefix in (("a", "b_"), ("a_b", "")):
        apps[name].add_tool(lambda name=name: name, name=f"{prefix}t", input_schema={"type": "object"})
        apps[name].prompt(f"{prefix}p")(_saying(name))
        apps[name].resource("x://1")(_saying(name))
        apps[name].resource("x://{n}/y")(_saying_of(name))
    apps["a"].add_tool(lambda: "only a", name="b_only")
    async with ClientGroup(apps) as group:
        assert (await group.call_tool("a_b_only")).text == "only a"  # listed first: two servers may have it
        assert sorted(tool.name for tool in await group.list_tools()) == ["a_b_only", "a_b_t"]
        assert (await group.call_tool("a_b_t")).text == "a_b"
        assert [prompt.name for prompt in await group.list_prompts()] == ["a_b_p"]
        assert (await group.get_prompt("a_b_p")).messages[0].content.text == "a_b"
        assert [str(resource.uri) for resource in await group.list_resources()] == ["x://1"]
        assert (await group.read_resource("x://1")).contents[0].text == "a"
        assert len(await group.list_resource_templates()) == 1
    assert caplog.text.count("is left out") == 4


def _saying(text: str) -> Any:
    return lambda: text


def _saying_of(text: str) -> Any:
    return lambda n: f"{text} {n}"


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_tools_that_are_tasks_only(mode: str) -> None:
    """Called and started as by a `Client` of that server."""
    app = MCPServer("jobs")

    @app.tool(task="required")
    async def build(what: str) -> str:
        """Build."""
        return f"built {what}"

    async with ClientGroup({"jobs": app}, mode=mode) as group:
        assert (await group.call_tool("jobs_build", {"what": "it"})).text == "built it"
        handle = await group.start_tool("jobs_build", {"what": "more"})
        assert (await handle.result(timeout_s=10)).text == "built more"


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_a_question_names_the_server_as_the_configuration_does(mode: str) -> None:
    """The user knows that name; a server may call itself what it likes."""
    app = MCPServer("Your Bank")

    @app.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        return str((await ctx.elicit("Sure?", bool)).data)

    asked: list[str] = []

    def elicit(params: Any, question: Any) -> Any:
        asked.append(question.server)
        return {"value": True}

    async with ClientGroup({"notes": app}, mode=mode, elicitation_handler=elicit) as group:
        assert (await group.call_tool("notes_ask")).text == "True"
    assert asked == ["notes"]


@anywhere
async def test_ten_thousand_tools_of_one_server() -> None:
    """On pages, through the group, once each."""

    async def tools(ctx: Any) -> Any:
        start = int(ctx.params.cursor or 0)
        page = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(start, start + 500)]
        return {"tools": page, **({"nextCursor": str(start + 500)} if start < 9500 else {})}

    server: Server[Any] = Server("many")
    server.add_request_handler("tools/list", tools, trusted=True)
    async with ClientGroup({"many": server, "good": make_app()}) as group:
        names = [tool.name for tool in await group.list_tools()]
        assert len(names) == len(set(names)) > 10_000
    async with Client(server) as client:
        assert len(await client.list_tools()) == 10_000
