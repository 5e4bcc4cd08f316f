"""Variables for the server that a command starts."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from ferrule import Client
from ferrule.cli.environment import read_environment
from ferrule.cli.program import load_command
from ferrule.transports.stdio.client import StdioServer
from tests.cli.support import FERRULE, ferrule, serving

FILE = """\
# a comment
A=1
export B = two words # a comment
C='single # quoted'
D="line\\nbreak"
E=

"""


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, comments, ``export``; the command line wins, and a name alone takes the value from here."""
    (tmp_path / ".env").write_text(FILE, encoding="utf-8")
    monkeypatch.setenv("HERE", "x")
    found = read_environment(["A=2", "HERE"], [tmp_path / ".env"])
    expected = {"A": "2", "B": "two words", "C": "single # quoted", "D": "line\nbreak", "E": "", "HERE": "x"}
    assert found == expected


@pytest.mark.parametrize("pair", ["=x", "A B=1", "NOT_SET_ANYWHERE", "1A=x"])
def test_a_wrong_pair(pair: str) -> None:
    """The sentence shows how it is written."""
    with pytest.raises(click.UsageError, match="--env"):
        read_environment([pair], [])


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    """By file and number."""
    (tmp_path / ".env").write_text("A=1\nnonsense\n", encoding="utf-8")
    with pytest.raises(click.UsageError, match=r"\.env:2"):
        read_environment([], [tmp_path / ".env"])
    with pytest.raises(click.UsageError, match="--env-file"):
        read_environment([], [tmp_path / "gone"])


def test_the_server_gets_them(tmp_path: Path) -> None:
    """And a URL, which is not started, refuses them."""
    (tmp_path / "s.py").write_text(
        "import os\nfrom ferrule import MCPServer\napp = MCPServer('s')\n"
        "@app.tool\ndef show() -> str:\n    return os.environ['A'] + os.environ['B']\n"
    )
    (tmp_path / ".env").write_text("A=from file\nB=x\n")
    done = ferrule("call", "s.py", "show", "--env-file", ".env", "--env", "B=, from option", cwd=tmp_path)
    assert done.stdout == "from file, from option\n", done.stderr
    done = ferrule("list", "http://127.0.0.1:9/mcp", "--env", "A=1")
    assert (done.returncode, "not for a URL" in done.stderr) == (2, True)


STARTS_SERVERS = (
    "run", "dev", "worker", "list", "call", "read", "prompt", "listen", "tasks", "check", "snapshot", "diff", "inspect",
    "doctor", "trace", "gateway",
)  # fmt: skip

SHOW = (
    "import os\nfrom ferrule import MCPServer\napp = MCPServer('s')\nAT_IMPORT = os.environ['A']\n"
    "@app.tool\ndef show() -> str:\n    return AT_IMPORT + os.environ['B']\n"
)


@pytest.mark.parametrize("name", STARTS_SERVERS)
def test_every_command_that_starts_a_server_has_them(name: str) -> None:
    """With one meaning, so one help."""
    options = {each for param in load_command(name).params for each in param.opts}
    assert {"--env", "--env-file"} <= options


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["run", "trace", "mcp.json", "two.json"])
async def test_a_served_file_and_a_server_behind_a_bridge_get_them(how: str, tmp_path: Path) -> None:
    """Before the file is loaded, whichever command starts it."""
    (tmp_path / "s.py").write_text(SHOW)
    (tmp_path / ".env").write_text("B=2\n")
    entry = {"command": FERRULE[0], "args": [*FERRULE[1:], "run", str(tmp_path / "s.py")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    both = {"mcpServers": {"s": entry, "t": {"url": "http://127.0.0.1:9/mcp"}}}
    (tmp_path / "two.json").write_text(json.dumps(both))
    more = ["--to", str(tmp_path / "t.jsonl")] if how == "trace" else []
    target = how if how.endswith(".json") else "s.py"
    command = "trace" if how == "trace" else "run"
    arguments = [*FERRULE[1:], command, str(tmp_path / target), "--env", "A=1", "--env-file", str(tmp_path / ".env")]
    async with Client(StdioServer(FERRULE[0], [*arguments, *more])) as client:
        assert (await client.call_tool("s_show" if how == "two.json" else "show")).text == "12"


@pytest.mark.anyio
async def test_over_http_by_workers_or_with_reload(tmp_path: Path) -> None:
    """Processes that are started for it inherit them."""
    (tmp_path / "s.py").write_text(SHOW)
    for more in (("--workers", "2", "--stateless"), ("--reload",)):
        with serving(
            tmp_path / "log",
            "run",
            str(tmp_path / "s.py"),
            "--http",
            "--port",
            "0",
            *more,
            "--env",
            "A=1",
            "--env",
            "B=2",
        ) as running:
            async with Client(running.url) as client:
                assert (await client.call_tool("show")).text == "12"


@pytest.mark.parametrize("command", ["run", "dev", "doctor", "trace"])
def test_a_url_refuses_them_everywhere(command: str, tmp_path: Path) -> None:
    """It is not started here."""
    more = ("--to", str(tmp_path / "t.jsonl")) if command == "trace" else ()
    done = ferrule(command, "http://127.0.0.1:9/mcp", "--env", "A=1", *more)
    assert (done.returncode, "not for a URL" in done.stderr) == (2, True)
