"""Several servers as one: what hangs, what comes back, what has the same name."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer, Server
from ferrule.client.errors import ServerUnavailable, UnknownServer
from ferrule.client.groups.group import ClientGroup
from ferrule.client.supervision.policy import ReconnectPolicy
from ferrule.transports.memory import memory_pair
from tests.client.pauses import Pauses
from tests.client.server_program import make_app

pytestmark = pytest.mark.anyio

anywhere = pytest.mark.usefixtures("any_backend")


class Hanging:
    """A server whose lists hang until the test releases them, and which counts its requests."""

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
    ours, theirs = memory_pair()  # not read
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
    """It counts as unreachable until it responds to the list; each change of state is logged once."""
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
    """Users know that name; a server chooses its own name freely."""
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


# -- states, readiness and another configuration ----------------------------------------------------------------------


def broken_app(state: dict[str, bool]) -> MCPServer[Any]:
    """A server that cannot be connected to while ``state["broken"]``."""

    def lifespan(server: Any) -> Any:
        from contextlib import nullcontext

        if state["broken"]:
            raise OSError("no disk")
        return nullcontext({})

    app = MCPServer("late", lifespan=lifespan)
    app.add_tool(lambda: "x", name="t")
    return app


@anywhere
async def test_the_states_of_servers_are_read_and_watched() -> None:
    """With the name in the configuration; iterators end when the group closes."""
    state, pauses = {"broken": True}, Pauses()
    group = ClientGroup({"good": make_app(), "late": broken_app(state), "bad": 3}, sleep=pauses)
    seen: list[tuple[str, str]] = []
    stop = group.observe(lambda status: seen.append((status.server, status.state)))
    async with group:
        assert {name: member.state for name, member in group.servers.items()} == {
            "good": "connected",
            "late": "waiting",
            "bad": "failed",
        }
        assert "no disk" in group.servers["late"].status.describe(0)
        watch = group.watch()
        assert [(await anext(watch)).server for _ in range(3)] == ["good", "late", "bad"]
        state["broken"] = False
        await pauses.end()
        assert [(await anext(watch)).state for _ in range(2)] == ["connecting", "connected"]
        stop()
    assert [each.state async for each in watch] == ["closed", "closed"]
    assert [state for server, state in seen if server == "good"] == ["connecting", "connected"]
    assert [state for server, state in seen if server == "late"] == ["connecting", "waiting", "connecting", "connected"]


@anywhere
async def test_waiting_for_every_server() -> None:
    """For a program that lists once: those that fail are not waited for."""
    gate = anyio.Event()

    class Slow(Client):
        async def connect(self) -> Any:
            if self.known_as == "slow":
                await gate.wait()
            return await super().connect()

    targets = {"good": make_app(), "slow": make_app()}
    async with ClientGroup(targets, open_s=0.01, client_class=Slow) as group:
        assert group.servers["slow"].state == "connecting"
        assert not await group.ready(timeout_s=0.01)
        gate.set()
        assert await group.ready(timeout_s=60)
        assert {name.partition("_")[0] for name in [tool.name for tool in await group.list_tools()]} == {"good", "slow"}
        assert await group.connect() is group
    async with ClientGroup({"good": make_app(), "bad": 3}) as group:
        assert not await group.ready()


@anywhere
async def test_a_server_that_fails_repeatedly_costs_a_call_nothing() -> None:
    """The circuit opens; calls of other servers go on."""
    state, pauses = {"broken": True}, Pauses()
    policy = ReconnectPolicy(failures_to_open=2, probe_pause_s=3600)
    async with ClientGroup({"good": make_app(), "late": broken_app(state)}, sleep=pauses, policy=policy) as group:
        with pytest.raises(OSError, match="no disk"):
            await group.call_tool("late_t")
        with pytest.raises(ServerUnavailable, match=r"'late' is down since .*: no disk; trying again in"):
            await group.call_tool("late_t")
        assert group.servers["late"].state == "circuit_open"
        assert (await group.call_tool("good_echo", {"text": "x"})).text == "x"
        state["broken"] = False
        await pauses.end()
        assert (await group.call_tool("late_t")).text == "x"


async def test_another_configuration_touches_only_what_differs() -> None:
    """Calls in flight end as if nothing had happened, also at a server whose entry has changed."""
    gate, waiting = anyio.Event(), 0
    apps = {name: MCPServer(name) for name in ("same", "changed", "gone", "new")}

    async def wait() -> str:
        nonlocal waiting
        waiting += 1
        await gate.wait()
        return "waited"

    for app in apps.values():
        app.add_tool(wait, name="wait")
        app.add_tool(lambda: "x", name="t")
    other = MCPServer("other")
    other.add_tool(lambda: "other", name="t")
    first = {name: apps[name] for name in ("same", "changed", "gone")}
    second = {"new": apps["new"], "changed": other, "same": apps["same"]}
    results: dict[str, str] = {}

    async def call(name: str) -> None:
        results[name] = (await group.call_tool(f"{name}_wait")).text

    group = ClientGroup(first)
    async with group:
        client = group.servers["same"].client
        async with anyio.create_task_group() as calls:
            for name in first:
                calls.start_soon(call, name)
            with anyio.fail_after(30):
                while waiting < 3:
                    await anyio.sleep(0.005)
            report = await group.reload(second)
            assert (report.added, report.removed) == (("new",), ("gone",))
            assert (report.changed, report.unchanged) == (("changed",), ("same",))
            assert group.servers["same"].client is client
            assert [tool.name for tool in await group.list_tools()] == [
                "new_wait", "new_t", "changed_t", "same_wait", "same_t"
            ]  # fmt: skip
            assert (await group.call_tool("changed_t")).text == "other"
            with pytest.raises(UnknownServer):
                await group.call_tool("gone_t")
            assert results == {}
            gate.set()
        assert results == dict.fromkeys(first, "waited")
        again = await group.reload(second)
        assert (again.added, again.removed, again.changed) == ((), (), ())


async def test_a_configuration_that_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is read again; what is wrong is raised or in the report."""
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"url": "http://127.0.0.1:9/mcp"}}}')
    group = ClientGroup(path)
    member = group.servers["a"]
    for text in ("{", "[]", '{"other": 1}'):
        path.write_text(text)
        with pytest.raises(ValueError):
            await group.reload()
        assert group.servers == {"a": member}
    path.write_text('{"mcpServers": {"a": {"url": 3}, "b": {"url": "http://127.0.0.1:9/b"}}}')
    report = await group.reload()
    assert (report.added, report.unchanged, list(report.refused or ())) == (("b",), ("a",), ["a"])
    assert group.servers["a"] is member
    assert "The new entry of the server 'a' is not used" in caplog.text
    path.write_text('{"mcpServers": {"b": {"url": "http://127.0.0.1:9/b"}}}')
    assert (await group.reload()).removed == ("a",)
    assert list(group.servers) == ["b"]


@anywhere
async def test_prefixes_only_where_they_are_needed_and_short_names() -> None:
    """Each name that is shown, and the long one, call the tool that they were shown for."""
    apps = {name: MCPServer(name) for name in ("a", "b")}
    for name, app in apps.items():
        app.add_tool(lambda name=name: name, name="same", input_schema={"type": "object"})
        app.prompt("greet")(_saying(name))
    apps["b"].add_tool(lambda: "only", name="only")
    apps["b"].add_tool(lambda: "long", name="x" * 100)
    async with ClientGroup(apps, prefix="when needed", name_limit=64) as group:
        assert (await group.call_tool("only")).text == "only"  # not listed before
        tools = [tool.name for tool in await group.list_tools()]
        assert tools[:3] == ["same", "b_same", "only"]
        assert len(tools[3]) == 64
        called = [(await group.call_tool(name)).text for name in (*tools, "a_same", "b_only")]
        assert called == ["a", "b", "only", "long", "a", "only"]
        assert (await group.get_prompt("greet")).messages[0].content.text == "a"
        assert (await group.get_prompt("b_greet")).messages[0].content.text == "b"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": "never"}, "prefix is"),
        ({"name_limit": 3}, "name_limit is 16 or more"),
        ({"sessions": 0}, "sessions is 1 to 64"),
        ({"sessions": {"a": 1000}}, "sessions is 1 to 64"),
    ],
)
async def test_options_that_cannot_be_meant(options: Any, message: str) -> None:
    """They are refused where they are written."""
    with pytest.raises(ValueError, match=message):
        ClientGroup({"a": make_app()}, **options)
