"""Names of a server after Tab, from what was listed before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.completion.support import completions
from tests.cli.support import environment, ferrule

MAX_MODULES = 175

SERVER = """
import os, pathlib
from typing import Literal
from ferrule import MCPServer

with open("starts.txt", "a") as stream:
    stream.write("started\\n")
app = MCPServer("notes")

@app.tool
def add(text: str, color: Literal["red", "blue"] = "red", pinned: bool = False) -> int:
    \"\"\"Add a note.\"\"\"
    return 1

@app.tool("-save")
def save() -> int:
    return 1

@app.resource("note://all")
def everything() -> str:
    return ""

@app.resource("note://{id}/text")
def note(id: str) -> str:
    return ""

@app.prompt
def summary(style: str, topic: str = "") -> str:
    return ""
"""


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server that was listed once, and a configuration with it."""
    made = tmp_path_factory.mktemp("listed")
    (made / "notes.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": ["-m", "ferrule", "run", "notes.py"]}
    (made / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry, "shop": {"command": "no-such"}}}))
    for target in ("notes.py", "mcp.json:notes"):
        done = ferrule("list", target, cwd=made, FERRULE_COMPLETION_CACHE=str(made / "names"))
        assert done.returncode == 0, done.stderr
    (made / "starts.txt").unlink()
    return made


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("call notes.py ", ["add"]),
        ("call notes.py b", []),
        ("call ./notes.py add ", ["text=", "color=", "pinned="]),
        ("call notes.py add text=1 p", ["pinned="]),
        ("call notes.py add color=", ["color=red", "color=blue"]),
        ("call notes.py add pinned=t", ["pinned=true"]),
        ("call notes.py add text=", []),
        ("call notes.py gone ", []),
        ("call other.py ", []),
        ("call mcp.json:notes a", ["add"]),
        ("call mcp.json --server notes a", ["add"]),
        ("call --mode legacy mcp.json --server n", ["notes"]),
        ("call mcp.json:", ["mcp.json:notes", "mcp.json:shop"]),
        ("read notes.py ", ["note://all", "note://"]),
        ("read notes.py note://a", ["note://all"]),
        ("listen notes.py note://all n", ["note://all", "note://"]),
        ("prompt notes.py ", ["summary"]),
        ("prompt notes.py summary ", ["style=", "topic="]),
        ("inspect notes.py --call a", ["add"]),
        ("comp", ["compat", "completion"]),
    ],
)
def test_tab(listed: Path, line: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of tools, arguments, values, resources, prompts and servers; never one that would be an option."""
    monkeypatch.chdir(listed)
    assert completions(f"ferrule {line}", environment(listed, FERRULE_COMPLETION_CACHE=str(listed / "names"))) == words
    assert not (listed / "starts.txt").exists()


_COUNT = """
import json, sys
from ferrule.cli import main
main([])
print("\\n" + json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("line", ["ferrule call notes.py ", "ferrule prompt notes.py summary ", "ferrule "])
def test_tab_is_quick_because_it_loads_little(listed: Path, line: str) -> None:
    """0.08 s of CPU with these modules, which are counted instead of seconds; nothing that could start a server."""
    variables = environment(
        listed, FERRULE_COMPLETION_CACHE=str(listed / "names"), _FERRULE_COMPLETE="fish_complete", COMP_WORDS=line
    )
    code = _COUNT.replace("main([])", "\ntry:\n    main([])\nexcept SystemExit:\n    pass")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables, cwd=listed
    )
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert done.stdout.startswith("plain\t") or done.stdout.startswith("open\t")
    assert len(modules) <= MAX_MODULES
    assert not modules & {"msgspec", "anyio", "asyncio", "rich", "subprocess", "ssl", "ferrule.client.client"}
