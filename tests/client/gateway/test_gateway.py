"""A gateway: several servers as one, and everything passes through it."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPError, MCPServer, Server
from ferrule.extensions.apps import APPS_EXTENSION, CLIENT_SETTINGS
from ferrule.testing import AppHost
from tests.cli.support import FERRULE, PROBE, ferrule, serving
from tests.client.patience import patient_gateway
from tests.client.pauses import Pauses
from tests.extensions.skills.support import add_skill

ERAS = ["2026-07-28", "2025-11-25"]


def docs() -> MCPServer[Any]:
    """One of two servers."""
    app: MCPServer[Any] = MCPServer("docs", instructions="Read.")

    @app.tool
    async def search(ctx: Context, words: str) -> str:
        """Search."""
        await ctx.progress(1, 2, "half")
        answer = await ctx.elicit(f"Search for {words}?", bool)
        return f"{words}: {answer.data}"

    @app.resource("doc://one")
    def one() -> str:
        return "first"

    @app.prompt
    def ask(topic: str) -> str:
        return f"docs about {topic}"

    @app.complete(ask, "topic")
    def topics(value: str) -> list[str]:
        return [value + "ology"]

    return app


def memos() -> MCPServer[Any]:
    """The other; its URIs have the same scheme, one of them is the same, and it changes."""
    app: MCPServer[Any] = MCPServer("memos")

    @app.tool
    def search(words: str) -> str:
        """Search."""
        return f"no memo about {words}"

    @app.tool
    def grow() -> str:
        app.add_tool(search, name="more")
        app.notify_resource_updated("doc://two")
        return "grown"

    @app.resource("doc://one")
    def one() -> str:
        return "the same URI again"

    @app.resource("doc://two")
    def two() -> str:
        return "second"

    @app.resource("memo://{day}")
    def memo(day: str) -> str:
        return f"on {day}"

    return app


@pytest.mark.anyio
@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_pages_of_apps_are_shown_and_call_their_tools(before: str, behind: str) -> None:
    """A page calls tools by their names on its own server; it is told the prefix that they have here."""
    inner: MCPServer[Any] = MCPServer("inner")
    inner.ui("<!doctype html><p>", name="board")(lambda: "x")
    app: MCPServer[Any] = MCPServer("app")
    app.mount(inner, prefix="in")
    server = patient_gateway({"my app": app, "memos": memos()}, mode=behind).server
    async with Client(server, mode=before, extensions=CLIENT_SETTINGS) as client:
        assert client.server_capabilities["extensions"] == {APPS_EXTENSION: {}}
        view = await AppHost(client).open("my_app_in_board")
        view.check()
        assert re.findall(r'mcpPrefix \|\| ""\) \+ "(\w+)"', view.html) == ["my_app_", "in_"]
        assert (await client.read_resource("doc://two")).contents[0].text == "second"
    async with Client(patient_gateway({"memos": memos()}, mode=behind).server, mode=before) as client:
        assert client.server_capabilities.get("extensions") is None


@pytest.mark.anyio
@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_several_servers_are_one(before: str, behind: str) -> None:
    """Names with a prefix, resources by their URIs, questions and progress of the one that is called, either era."""
    seen: list[float] = []
    server = patient_gateway({"docs": docs(), "my memos": memos()}, mode=behind).server
    async with Client(server, mode=before, elicitation_handler=lambda asked: {"value": True}) as client:
        assert [tool.name for tool in await client.list_tools()] == ["docs_search", "my_memos_search", "my_memos_grow"]
        assert client.instructions == "docs: Read."
        found = await client.call_tool("docs_search", {"words": "brass"}, on_progress=lambda p, t, m: seen.append(p))
        assert (found.text, set(seen)) == ("brass: True", {1})  # a round that is played again says it again
        assert (await client.call_tool("my_memos_search", {"words": "tin"})).text == "no memo about tin"
        assert [str(each.uri) for each in await client.list_resources()] == ["doc://one", "doc://two"]
        assert [each.uri_template for each in await client.list_resource_templates()] == ["memo://{day}"]
        for uri, text in (("doc://one", "first"), ("doc://two", "second"), ("memo://monday", "on monday")):
            assert (await client.read_resource(uri)).contents[0].text == text
        prompt = await client.get_prompt("docs_ask", {"topic": "tin"})
        assert prompt.messages[0].content.text == "docs about tin"
        completed = await client.complete({"type": "ref/prompt", "name": "docs_ask"}, "topic", "tin")
        assert completed.values == ["tinology"]
        for name in ("search", "nothing_search"):
            with pytest.raises(MCPError, match="no server"):
                await client.call_tool(name)
        with pytest.raises(MCPError):
            await client.read_resource("doc://three")


@pytest.mark.anyio
async def test_a_resource_is_found_that_was_never_listed() -> None:
    """A host may remember a URI from yesterday."""
    async with Client(patient_gateway({"docs": docs(), "memos": memos()}).server) as client:
        assert (await client.read_resource("doc://two")).contents[0].text == "second"


@pytest.mark.anyio
@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_changes_of_every_server_are_forwarded(before: str, behind: str) -> None:
    """Lists and single resources, in one stream."""
    server = patient_gateway({"docs": docs(), "memos": memos()}, mode=behind).server
    async with Client(server, mode=before) as client:
        await client.list_resources()
        async with client.listen(tools=True, uris=["doc://two"]) as changes:
            await client.call_tool("memos_grow")
            kinds: set[str] = set()
            with anyio.fail_after(30):
                while kinds != {"tools", "resource"}:  # a server that came after the first list tells of its tools, too
                    kinds.add((await anext(changes)).kind)


@pytest.mark.anyio
async def test_a_server_that_is_away_breaks_nothing_and_comes_back(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Only its own tools are missing meanwhile, and the log has one line for each change of state."""
    caplog.set_level(logging.INFO, "ferrule")
    pauses = Pauses()
    late = tmp_path / "late.py"
    targets: dict[str, Any] = {
        "docs": docs(),
        "wrong": ValueError("An entry has a 'command' or a 'url'"),
        "late": [sys.executable, str(late)],
    }
    async with Client(patient_gateway(targets, sleep=pauses, open_s=30).server, cache=False) as client:
        assert [tool.name for tool in await client.list_tools()] == ["docs_search"]
        assert "'wrong' is left out" in caplog.text
        assert caplog.text.count("'late' cannot be reached") == 1
        failed = await client.call_tool("late_add", raise_on_error=False)
        assert failed.is_error
        assert re.fullmatch(r"`late` is down since \d\d:\d\d: .*; trying again in \d+ s", failed.text)
        for _ in range(2):
            await pauses.end()
            await pauses.begun()
            await client.list_tools()
        assert pauses.asked == [1, 2, 4, 8]  # the call has ended the first pause, and failed
        assert caplog.text.count("'late' cannot be reached") == 1
        late.write_text(Path(PROBE).read_text())
        await pauses.end()
        with anyio.fail_after(30):
            while "'late' can be reached again" not in caplog.text:
                await anyio.sleep(0.01)
        assert "late_add" in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool("late_add", {"a": 1})).text == "3"


def config(tmp_path: Path, **entries: Any) -> Path:
    """A configuration as hosts have it."""
    path = tmp_path / "mcp.json"
    path.write_text("// both\n" + json.dumps({"mcpServers": entries}))
    return path


@pytest.mark.anyio
async def test_no_server_stands_in_the_place_of_another() -> None:
    """A tool ``b_c`` of the server ``a`` would lend its description to ``c`` of ``a_b``, which a call reaches."""
    servers: dict[str, MCPServer[Any]] = {"a": MCPServer("a"), "a_b": MCPServer("a_b")}

    @servers["a"].tool
    def b_c() -> str:
        """Harmless."""
        return "a"

    @servers["a_b"].tool
    def c() -> str:
        """Dangerous."""
        return "a_b"

    async with Client(patient_gateway(servers).server) as client:
        assert [(tool.name, tool.description) for tool in await client.list_tools()] == [("a_b_c", "Dangerous.")]
        assert (await client.call_tool("a_b_c")).text == "a_b"


def test_a_configuration_is_served_over_either_transport(tmp_path: Path) -> None:
    """``ferrule run mcp.json``, and the same of an installed host."""
    probe = {"command": sys.executable, "args": ["-m", "ferrule", "run", PROBE]}
    path = config(tmp_path, one=probe, two=probe)
    bridged = f"{FERRULE[0]} -m ferrule run {path}"
    for mode in ERAS:
        assert ferrule("call", bridged, "two_add", "a=1", "--mode", mode).stdout == "3\n"
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(path.read_text())
    with serving(tmp_path / "log", "run", "cursor:", "--http", "--port", "0", env={"HOME": str(tmp_path)}) as server:
        assert ferrule("call", server.url, "one_add", "a=1").stdout == "3\n"
        assert "one_greet" in ferrule("list", server.url, "--mode", "legacy").stdout


def test_what_cannot_be_a_gateway_says_so(tmp_path: Path) -> None:
    """A token would go to every server of the file; without a usable entry nothing is served.

    Servers that are away are tried again, and their calls say so.
    """
    path = config(tmp_path, one={"command": "no-such-program-here"}, two={"url": "http://127.0.0.1:9/mcp"})
    done = ferrule("run", str(path), "--token", "secret")
    assert (done.returncode, "put 'headers' into the configuration" in done.stderr) == (2, True)
    done = ferrule("run", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("cannot be reached and is tried again") == 2
    assert "Traceback" not in done.stderr
    done = ferrule("run", str(config(tmp_path, one={"command": 5}, two={"uri": "x"})))
    assert (done.returncode, done.stdout) == (3, "")
    assert "None of the servers can be used" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("behind", ERAS)
async def test_ten_thousand_tools_pass_on_their_pages(behind: str) -> None:
    """Once each, under their prefix; and a server whose cursor stands gives what it has."""

    def paged(last: int, *, stands: bool) -> Server[Any]:
        async def tools(ctx: Any) -> Any:
            start = 0 if stands else int(ctx.params.cursor or 0)
            page = [{"name": f"t{number}", "inputSchema": {}} for number in range(start, start + 500)]
            return {"tools": page, **({"nextCursor": "0" if stands else str(start + 500)} if start < last else {})}

        server: Server[Any] = Server("many")
        server.add_request_handler("tools/list", tools, trusted=True)
        return server

    servers = {"many": paged(9500, stands=False), "stuck": paged(1, stands=True)}
    async with Client(patient_gateway(servers, mode=behind, moment_s=60).server) as client:
        names = [tool.name for tool in await client.list_tools()]
    assert len(names) == len(set(names)) == 10_500


@pytest.mark.anyio
async def test_unknown_members_pass_and_malformed_ones_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """As through a proxy alone."""

    async def tools(ctx: Any) -> Any:
        good = {"name": "good", "inputSchema": {}, "xUnknown": [1]}
        return {"tools": [good, {"name": "bad", "inputSchema": 5}]}

    async def call(ctx: Any) -> Any:
        return {"content": [{"type": "x-new", "a": ctx.meta.get("trace")}], "xUnknown": ctx.params["name"]}

    server: Server[Any] = Server("behind")
    server.add_request_handler("tools/list", tools, params_type=dict[str, Any], trusted=True)
    server.add_request_handler("tools/call", call, params_type=dict[str, Any], trusted=True)
    async with Client(patient_gateway({"s": server, "other": docs()}).server, cache=False) as client:
        listed = (await client.request("tools/list"))["tools"]
        assert {"name": "s_good", "inputSchema": {}, "xUnknown": [1]} in listed
        assert "s_bad" not in [tool["name"] for tool in listed]
        assert "'bad' is left out of tools/list" in caplog.text
        result = await client.request("tools/call", {"name": "s_good"}, meta={"trace": "t"})
        assert (result["content"], result["xUnknown"]) == ([{"type": "x-new", "a": "t"}], "good")


@pytest.mark.anyio
@pytest.mark.parametrize("before", ERAS)
async def test_skills_of_several_servers_are_one_list(
    before: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is read from its own server; one that would lead a read to another server is left out, and logged."""
    add_skill(tmp_path / "a", "refunds", body="of a")
    add_skill(tmp_path / "b", "refunds", body="of b")
    add_skill(tmp_path / "b", "returns", body="of b")
    one: MCPServer[Any] = MCPServer("one")
    one.add_skills(tmp_path / "a")
    one.add_resource("skill://thief/SKILL.md", lambda: "one has it")
    two: MCPServer[Any] = MCPServer("two")
    two.add_skills(tmp_path / "b")
    add_skill(tmp_path / "c", "thief")
    two.add_skills(tmp_path / "c")
    async with Client(patient_gateway({"one": one, "two": two, "plain": docs()}).server, mode=before) as client:
        await client.list_resources()
        skills = {skill.name: skill for skill in await client.list_skills()}
        assert set(skills) == {"refunds", "returns"}
        assert "The skill 'skill://refunds/SKILL.md' of the server 'two' is left out" in caplog.text
        assert "'skill://thief/SKILL.md' of the server 'two' is left out: the server 'one' has" in caplog.text
        assert (await skills["refunds"].load()).endswith("of a")
        assert (await skills["returns"].load()).endswith("of b")
        assert (await client.get_skill("skill://returns/SKILL.md")).fingerprint == skills["returns"].fingerprint
        assert [each.name for each in await client.read_directory("skill://returns")] == ["SKILL.md"]
        with pytest.raises(MCPError):
            await client.get_skill("skill://nothing/SKILL.md")


def test_a_file_with_a_gateway_is_run_as_one_with_a_server(tmp_path: Path) -> None:
    """``ferrule run gateway.py``, and every command that takes a file."""
    path = tmp_path / "gateway.py"
    path.write_text(
        f"from ferrule import Gateway\nservers = Gateway({{'one': {[sys.executable, PROBE]!r}}}, open_s=60)\n"
    )
    for target in (str(path), f"{path}:servers"):
        assert "one_add" in ferrule("list", target).stdout
