"""What stands behind a search, on the command line: of servers and gateways, over both transports, in both eras."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.support import FERRULE, ferrule, serving

ERAS = ["2026-07-28", "2025-11-25"]
SERVER = """
from ferrule import Context, MCPServer

app = MCPServer("{name}"{options})


@app.tool
def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b


@app.tool
async def confirm(ctx: Context, what: str) -> str:
    "Ask the user."
    answer = await ctx.elicit(f"Go on with {{what}}?", bool)
    return f"{{what}}: {{answer.data}}"
"""


def configuration(folder: Path, **extra: object) -> Path:
    """Two servers in a file."""
    for name in ("north", "south"):
        (folder / f"{name}.py").write_text(SERVER.format(name=name, options=""))
    servers = {
        name: {"command": FERRULE[0], "args": [*FERRULE[1:], "run", str(folder / f"{name}.py")]}
        for name in ("north", "south")
    }
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, **extra}))
    return path


def check(target: str, prefix: str, mode: str) -> None:
    """Listed and called with arguments that only a schema tells apart."""
    wanted = [f"{each}add" for each in prefix.split()] + [f"{each}confirm" for each in prefix.split()]
    shown = ferrule("list", target, "tools", "--mode", mode)
    assert "Tools (3)" in shown.stdout, shown.stderr
    assert f"Behind search_tools ({len(wanted)})" in shown.stdout
    assert "a [b]" in shown.stdout
    found = json.loads(ferrule("list", target, "--json", "--mode", mode).stdout)
    assert [tool["name"] for tool in found["behindSearch"]] == sorted(wanted)
    called = ferrule("call", target, wanted[0], "a=40", "b=2", "--mode", mode)
    assert (called.stdout.strip(), called.returncode) == ("42", 0), called.stderr
    wrong = ferrule("call", target, wanted[0].replace("add", "addd"), "a=40", "--mode", mode)
    assert wanted[0] in wrong.stderr


@pytest.mark.parametrize("mode", ERAS)
def test_a_server_with_a_search(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "many.py"
    path.write_text(SERVER.format(name="many", options=", tool_search=True"))
    called = ferrule("call", str(path), "add", "a=40", "b=2", "--mode", mode)
    assert called.stdout.strip() == "42", called.stderr
    assert "did you mean add" in ferrule("call", str(path), "addd", "a=40", "--mode", mode).stderr


@pytest.mark.parametrize("mode", ERAS)
def test_a_gateway_over_stdio(tmp_path: Path, mode: str) -> None:
    path = configuration(tmp_path)
    check(shlex.join([*FERRULE, "run", str(path), "--search"]), "north_ south_", mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_gateway_over_http(tmp_path: Path, mode: str) -> None:
    path = configuration(tmp_path, toolSearch=True)
    with serving(tmp_path / "log", "run", str(path), "--http", "--port", "0") as server:
        check(server.url, "north_ south_", mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_bridge(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "one.py"
    path.write_text(SERVER.format(name="one", options=""))
    inner = shlex.join([*FERRULE, "run", str(path)])
    called = ferrule("list", shlex.join([*FERRULE, "run", inner, "--search", "1"]), "tools", "--mode", mode)
    assert "Behind search_tools (2)" in called.stdout, called.stderr
    called = ferrule("list", shlex.join([*FERRULE, "run", inner, "--search", "auto"]), "tools", "--mode", mode)
    assert "Tools (2)" in called.stdout, called.stderr


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    path = configuration(tmp_path, toolSearch=True)
    listed = ferrule("list", shlex.join([*FERRULE, "run", str(path), "--search", "off"]), "tools")
    assert "Tools (4)" in listed.stdout, listed.stderr


@pytest.mark.parametrize(
    ("extra", "arguments", "said"),
    [
        ({}, ("--search", "often"), "--search is on, off, auto or a number of tools above 0"),
        ({}, ("--search", "0"), "--search is on, off, auto or a number of tools above 0"),
        ({"toolSearch": "often"}, (), "toolSearch is on, off, auto or a number of tools above 0"),
        ({"toolSearch": [1]}, (), "toolSearch is on, off, auto or a number of tools above 0"),
    ],
)
def test_a_mode_that_does_not_exist_is_refused(
    tmp_path: Path, extra: dict[str, object], arguments: tuple[str, ...], said: str
) -> None:
    done = ferrule("run", str(configuration(tmp_path, **extra)), *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_python_file_says_it_itself(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(SERVER.format(name="one", options=""))
    done = ferrule("run", str(path), "--search")
    assert done.returncode == 2
    assert "MCPServer(tool_search=...)" in done.stderr
