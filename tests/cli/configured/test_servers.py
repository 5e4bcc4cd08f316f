"""Commands on a configuration with several servers, of which none is chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import MCPServer
from ferrule.cli.configured import servers
from ferrule.cli.configured.servers import ConfiguredServer, ServerOutcome, ask_each, has_several, status_of
from ferrule.cli.connect import ConnectionOptions
from ferrule.cli.output import Progress
from tests.cli.configured.support import write_configuration
from tests.cli.support import ferrule, terminal


def test_each_server_is_listed_with_its_state(tmp_path: Path) -> None:
    """One that fails takes nothing from the others, and its reason stands beside its name; the status says it."""
    write_configuration(tmp_path)
    done = ferrule("list", "mcp.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert "  notes   connected  2 tools, 0 resources" in done.stdout
    assert "  broken  failed     Cannot start the server 'no-such-program-at-all'" in done.stdout
    assert "  web     failed     Cannot connect to http://127.0.0.1:9/mcp" in done.stdout
    assert "did you mean 'command'?" in done.stdout
    assert "  off     disabled " in done.stdout
    assert "notes: Tools (2)" in done.stdout
    assert "shop: Tools (2)" in done.stdout


def test_the_same_as_json(tmp_path: Path) -> None:
    """For programs: by name, and only the asked kinds."""
    write_configuration(tmp_path)
    done = ferrule("list", "mcp.json", "tools", "-o", "json", cwd=tmp_path)
    found: dict[str, Any] = json.loads(done.stdout)["servers"]
    assert {name: each["state"] for name, each in found.items()} == {
        "notes": "connected", "shop": "connected", "broken": "failed", "web": "failed", "odd": "failed",
        "off": "disabled",
    }  # fmt: skip
    assert [tool["name"] for tool in found["shop"]["tools"]] == ["add", "order"]
    assert (found["shop"]["server"]["name"], "resources" in found["shop"]) == ("shop", False)
    assert "no-such-program" in found["broken"]["problem"]


def test_one_server_is_chosen_by_option_or_name(tmp_path: Path) -> None:
    """Both mean the same; other commands need one of them, and say how."""
    write_configuration(tmp_path)
    by_option = ferrule("list", "mcp.json", "--server", "notes", cwd=tmp_path)
    assert by_option.returncode == 0
    assert by_option.stdout == ferrule("list", "mcp.json:notes", cwd=tmp_path).stdout
    done = ferrule("list", "mcp.json", "--server", "nots", cwd=tmp_path)
    assert (done.returncode, "has no server 'nots'; it has notes, shop, broken" in done.stderr) == (2, True)
    done = ferrule("read", "mcp.json", "memo://x", cwd=tmp_path)
    assert (done.returncode, "Choose one with --server NAME or mcp.json:NAME" in done.stderr) == (2, True)
    done = ferrule("list", "notes.py", "--server", "notes", cwd=tmp_path)
    assert (done.returncode, "--server is for a configuration" in done.stderr) == (2, True)


def test_a_token_does_not_go_to_all_servers(tmp_path: Path) -> None:
    """It belongs to one of them; the others would learn it."""
    write_configuration(tmp_path)
    given: tuple[tuple[str, ...], ...] = (("--token", "secret"), ("--header", "X-Key: secret"), ("--oauth",))
    for options in given:
        for command in (("list", "mcp.json"), ("call", "mcp.json", "add"), ("doctor", "mcp.json")):
            done = ferrule(*command, *options, cwd=tmp_path)
            assert (done.returncode, "choose it with --server NAME" in done.stderr) == (2, True)
    done = ferrule("list", "mcp.json", cwd=tmp_path, FERRULE_TOKEN="secret")
    assert (done.returncode, "choose it with --server NAME" in done.stderr) == (2, True)


def test_variables_reach_each_process(tmp_path: Path) -> None:
    """And a URL beside them is no error."""
    write_configuration(tmp_path)
    done = ferrule("call", "mcp.json", "--server", "shop", "add", "--env", "KEY=!", cwd=tmp_path)
    assert done.stdout == "shop!\n"
    done = ferrule("list", "mcp.json", "tools", "--env", "KEY=!", cwd=tmp_path)
    assert "  web     failed     Cannot connect" in done.stdout


def test_a_terminal_shows_who_is_waited_for(tmp_path: Path) -> None:
    """Nothing of it stays."""
    write_configuration(tmp_path)
    with terminal("list", "mcp.json", "tools", cwd=tmp_path) as seen:
        assert seen.wait() == 3
        assert "0/6 waiting for notes, shop, broken, web, odd, off" in seen.seen
    assert "waiting" not in ferrule("list", "mcp.json", "tools", cwd=tmp_path).stderr
    assert "progress 0/6 waiting for notes" in ferrule("list", "mcp.json", "tools", "-v", cwd=tmp_path).stderr


def test_what_is_a_configuration_with_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server is no choice, and a broken file is left to who reads it."""
    monkeypatch.chdir(tmp_path)
    write_configuration(tmp_path)
    (tmp_path / "one.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    (tmp_path / "bad.json").write_text("{")
    asked = (
        "mcp.json",
        " mcp.json ",
        "mcp.json:notes",
        "one.json",
        "bad.json",
        "notes.py",
        "http://x/mcp",
        "gone.json",
    )
    assert [text for text in asked if has_several(text)] == ["mcp.json", " mcp.json "]


@pytest.mark.anyio
async def test_so_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration of forty does not start forty processes together."""
    app = MCPServer("a")
    running, most = 0, 0

    async def work(connection: ConnectionOptions, client: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1

    class InProcess(ConnectionOptions):
        def client(self, **options: Any) -> Any:
            from ferrule import Client

            return Client(app)

    many = [ConfiguredServer(str(at), InProcess("x")) for at in range(20)]
    monkeypatch.setattr(servers, "MAX_AT_ONCE", 3)
    outcomes = await ask_each(many, work, Progress())
    assert [outcome.server.name for outcome in outcomes] == [str(at) for at in range(20)]
    assert most == 3
    assert status_of(outcomes) == 0


def test_a_disabled_server_is_no_failure() -> None:
    """Its user switched it off."""
    off = ServerOutcome[None](ConfiguredServer("a", None, "disabled", is_disabled=True), None, "disabled")
    failed = ServerOutcome[None](ConfiguredServer("b", None, "bad"), None, "bad")
    assert (off.state, failed.state) == ("disabled", "failed")
    assert (status_of([off]), status_of([off, failed])) == (0, 3)
