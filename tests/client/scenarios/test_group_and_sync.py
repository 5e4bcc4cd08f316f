"""Groups of servers, configurations, and the client without ``await``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, StdioServer
from ferrule.client import sync
from ferrule.client.config import read_target
from ferrule.client.errors import UnknownServer
from ferrule.client.groups.group import ClientGroup
from ferrule.client.sync import SyncClient
from ferrule.client.targets import HttpTarget, InProcessTarget, StdioTarget
from ferrule.protocol.errors import LocalError
from tests.client.server_program import make_app

PROGRAM = str(Path(__file__).parents[1] / "server_program.py")
ENTRY = {"command": sys.executable, "args": [PROGRAM], "env": {"PYTHONPATH": str(Path(__file__).parents[3])}}


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
async def test_one_dead_server_never_breaks_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    """Its member has the error, its tools are missing, and calling it raises the error."""
    config = {
        "mcpServers": {
            "good": ENTRY,
            "dead": {"command": sys.executable, "args": ["-c", "raise SystemExit('broken')"]},
            "wrong": {"args": []},
        }
    }
    async with Client(config) as group:
        assert isinstance(group, ClientGroup)
        assert {name: member.is_up for name, member in group.servers.items()} == {
            "good": True,
            "dead": False,
            "wrong": False,
        }
        assert "good_echo" in [tool.name for tool in await group.list_tools()]
        assert (await group.call_tool("good_echo", {"text": "x"})).text == "x"
        assert (await group.get_prompt("good_greet", {"name": "A"})).messages
        await group.list_resources()
        assert (await group.read_resource("memo://today")).contents[0].text == "buy milk"
        with pytest.raises(LocalError, match="broken"):
            await group.call_tool("dead_anything")
        with pytest.raises(ValueError, match="'command' or a 'url'"):
            await group.call_tool("wrong_anything")
        with pytest.raises(UnknownServer):
            await group.call_tool("nobody")


@pytest.mark.anyio
async def test_longest_prefix_wins() -> None:
    """Of ``a`` and ``a_b``, ``a_b_echo`` belongs to the latter."""
    async with ClientGroup({"a": make_app("one"), "a_b": make_app("two")}) as group:
        names = [tool.name for tool in await group.list_tools()]
        assert {"a_echo", "a_b_echo"} <= set(names)
        client = await group.client("a_b")
        assert client.server_info is not None
        assert client.server_info.name == "two"
        assert (await group.call_tool("a_b_echo", {"text": "x"})).tool == "echo"


def test_targets_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spelling of a target, and what is wrong with a bad one."""
    script = tmp_path / "server.py"
    script.write_text("")
    config = tmp_path / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {"x": {"type": "http", "url": "https://h/mcp", "headers": {"A": "${T}"}}}})
    )
    monkeypatch.setenv("T", "token")

    def stdio(target: Any) -> tuple[str, tuple[str, ...]]:
        found = read_target(target)
        assert isinstance(found, StdioTarget)
        return found.server.command, tuple(found.server.args)

    assert stdio("uvx some-server --flag 'a b'") == ("uvx", ("some-server", "--flag", "a b"))
    assert stdio(["npx", "-y", "x"]) == ("npx", ("-y", "x"))
    assert stdio(script) == stdio(str(script)) == (sys.executable, (str(script),))
    assert stdio(StdioServer("c", ["a"])) == ("c", ("a",))
    assert stdio({"command": "c", "args": ["a"]}) == ("c", ("a",))
    assert isinstance(read_target(make_app()), InProcessTarget)
    assert read_target("http://h/mcp") == HttpTarget("http://h/mcp")
    group: Any = read_target(config)
    assert group.servers["x"] == HttpTarget("https://h/mcp", {"A": "token"})
    monkeypatch.delenv("T")
    assert "T is not set" in str(read_target(str(config)).servers["x"])  # type: ignore[union-attr]
    for bad in (42, None, object()):
        with pytest.raises(TypeError, match="cannot be made of"):
            read_target(bad)
    for bad in ({}, "", []):
        with pytest.raises(ValueError):
            read_target(bad)


def test_label_shows_no_secret() -> None:
    """What messages and logs show of a URL."""
    assert HttpTarget("https://user:pass@h:8/mcp?key=secret").label == "https://h:8/mcp"


@pytest.mark.parametrize("target", [make_app, lambda: {"mcpServers": {"p": ENTRY}}])
def test_sync_client(target: Any) -> None:
    """A script's client: no loop to be seen, from any thread, and again after it was closed."""
    with SyncClient(target()) as client:
        prefix = "p_" if "p_echo" in [tool.name for tool in client.list_tools()] else ""
        assert client.call_tool(f"{prefix}echo", {"text": "x"}).text == "x"
        seen: list[float] = []
        client.call_tool(
            f"{prefix}steps", {"count": 2}, on_progress=lambda progress, total, message: seen.append(progress)
        )
        assert seen == [1, 2]


def test_sync_client_receives_changes() -> None:
    """An iterator of changes in a plain ``for`` loop."""
    app = make_app()
    app.lowlevel.list_changed.add("tools")
    with SyncClient(app) as client:
        changes = client.listen(tools=True)

        def add() -> None:
            @app.tool
            def late() -> str:
                """Came late."""
                return "x"

        # The first `next` opens the subscription, so the change must come from elsewhere.
        asyncio.run_coroutine_threadsafe(_later(add), sync._loop._running())
        assert next(changes).kind == "tools"
        changes.close()


async def _later(add: Any) -> None:
    import anyio

    await anyio.sleep(0.2)
    add()


def test_sync_client_refuses_to_dead_lock() -> None:
    """A handler that calls its own synchronous client would wait for itself."""
    with SyncClient(make_app()) as client:
        errors: list[str] = []

        def progress(*_: Any) -> None:
            try:
                client.ping()
            except LocalError as error:
                errors.append(str(error))

        client.call_tool("steps", {"count": 1}, on_progress=progress)
        assert "synchronously" in errors[0]


def test_sync_client_leaves_no_open_loop() -> None:
    """Its event loop is closed at exit, so that Python emits no ResourceWarning."""
    program = (
        "from ferrule import MCPServer, SyncClient\n"
        "app = MCPServer('x')\n"
        "app.add_tool(lambda: 1, name='one')\n"
        "with SyncClient(app) as client:\n"
        "    client.list_tools()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "unclosed" not in done.stderr
