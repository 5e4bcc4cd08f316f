"""The names that are kept for Tab: what is in the files, and what is not."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ferrule.cli.completion import known
from ferrule.cli.completion.known import folder, recall, remember
from ferrule.wire.types import Prompt, PromptArgument, Resource, ResourceTemplate, Tool
from tests.cli.support import PROBE, ferrule


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "names"
    monkeypatch.setenv("FERRULE_COMPLETION_CACHE", str(made))
    monkeypatch.chdir(tmp_path)
    return made


def a_tool(name: str, **properties: Any) -> Tool:
    return Tool(name, {"type": "object", "properties": properties})


def test_the_names_of_each_kind(where: Path) -> None:
    """With the values that a person would type."""
    tool = a_tool(
        "add", color={"enum": ["red", 5, None]}, pinned={"type": "boolean"}, text={"type": "string"},
        many={"type": "array", "items": {"enum": ["a"]}}, maybe={"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
    )  # fmt: skip
    lists = {
        "tools": [tool],
        "prompts": [Prompt("ask", arguments=[PromptArgument("topic")], description="Ask.\nMore.")],
        "resources": [Resource("memo://today", "today", title="Today")],
        "templates": [ResourceTemplate("memo://{day}", "day")],
        "skills": [object()],
    }
    remember("https://tools.example/mcp", lists)
    found = recall("https://tools.example/mcp")
    values = {"color": ["red", "5", "null"], "pinned": ["true", "false"], "text": [], "many": ["a"], "maybe": ["x"]}
    assert found["tools"] == {"add": {"about": "", "arguments": values}}
    assert found["prompts"] == {"ask": {"about": "Ask.", "arguments": {"topic": []}}}
    assert (found["resources"], found["templates"]) == ({"memo://today": "Today"}, {"memo://{day}": ""})
    assert recall("https://other.example/mcp") == {}


def test_a_kind_that_was_not_listed_stays(where: Path) -> None:
    """``ferrule call`` reads the tools only."""
    remember("x", {"tools": [a_tool("a")], "resources": [Resource("memo://a", "a")]})
    remember("x", {"tools": [a_tool("b")]})
    assert (list(recall("x")["tools"]), list(recall("x")["resources"])) == (["b"], ["memo://a"])


def test_a_file_is_known_by_any_path_and_a_command_line_by_its_folder(
    where: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python server.py`` is another server in another folder."""
    (tmp_path / "server.py").write_text("")
    remember("server.py", {"tools": [a_tool("a")]})
    remember("python server.py", {"tools": [a_tool("b")]})
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert "a" in recall("../server.py")["tools"]
    assert recall("../server.py:app") == {}
    assert recall("python server.py") == {}


def test_no_secret_is_kept(where: Path) -> None:
    """A signed URL is a key; what was typed is in no file, and no name of a file says it."""
    secret = "s3cr3t-value"
    uris = [f"https://x/a?sig={secret}", f"https://user:{secret}@x/a", "https://x/a"]
    tool = a_tool("a", key={"type": "string", "default": secret})
    remember(
        f"https://tools.example/mcp?key={secret}",
        {
            "tools": [tool],
            "resources": [Resource(uri, "r") for uri in uris],
            "templates": [ResourceTemplate(f"https://x/?k={secret}&q={{q}}", "t"), ResourceTemplate("db://{?q}", "t")],
        },
    )
    text = "".join(path.name + path.read_text() for path in where.iterdir())
    assert secret not in text
    found = recall(f"https://tools.example/mcp?key={secret}")
    assert (list(found["resources"]), list(found["templates"])) == (["https://x/a"], ["db://{?q}"])
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in where.iterdir()} == {0o600}
        assert stat.S_IMODE(where.stat().st_mode) == 0o700


def test_a_call_leaves_its_arguments_and_variables_out(tmp_path: Path) -> None:
    """As a command, with everything that may hold a secret."""
    secret = "s3cr3t-value"
    done = ferrule(
        "call", PROBE, "greet", f"name={secret}", "--env", f"KEY={secret}", "--answer", f"title={secret}",
        FERRULE_COMPLETION_CACHE=str(tmp_path), FERRULE_TOKEN=secret,
    )  # fmt: skip
    assert done.stderr.count("Traceback") == 0
    (path,) = tmp_path.iterdir()
    assert "greet" in path.read_text()
    assert secret not in path.read_text()


def test_size_and_count_are_bounded(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server chooses how much it lists, and a user how many servers are tried."""
    remember("big", {"tools": [a_tool("a")]})
    remember("big", {"tools": [a_tool("n" * 290 + str(at)) for at in range(1000)]})
    assert recall("big") == {}
    remember("long", {"tools": [a_tool("x" * 301), a_tool("y"), a_tool("")]})
    assert list(recall("long")["tools"]) == ["y"]
    remember("many", {"tools": [a_tool("t", **{f"p{at}": {"enum": list(range(500))} for at in range(120)})]})
    arguments = recall("many")["tools"]["t"]["arguments"]
    assert (len(arguments), len(arguments["p0"])) == (100, 100)
    monkeypatch.setattr(known, "MAX_FILES", 5)
    for at in range(9):
        remember(f"server-{at}", {"tools": [a_tool("a")]})
        newest = max(where.iterdir(), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (at, at))
    remember("last", {"tools": [a_tool("a")]})
    assert len(list(where.iterdir())) == 5
    assert (recall("last") != {}, recall("server-8") != {}, recall("server-0")) == (True, True, {})


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"format":2,"tools":{}}', "[" * 100_000, '{"format":1,"tools":[1]}', "\xff"]
)
def test_a_file_that_means_nothing_is_no_names(where: Path, content: str) -> None:
    """Of another version, cut off, or of somebody else."""
    remember("x", {"tools": [a_tool("a")]})
    (path,) = where.iterdir()
    path.write_bytes(content.encode("latin-1"))
    assert recall("x").get("tools", {}) == {}
    remember("x", {"tools": [a_tool("b")]})
    assert list(recall("x")["tools"]) == ["b"]


def test_a_folder_that_cannot_be_written_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a convenience; and an empty variable switches it off."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FERRULE_COMPLETION_CACHE", str(tmp_path / "file" / "names"))
    remember("x", {"tools": [a_tool("a")]})
    assert recall("x") == {}
    monkeypatch.setenv("FERRULE_COMPLETION_CACHE", "")
    remember("x", {"tools": [a_tool("a")]})
    assert (folder(), recall("x")) == (None, {})


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/ferrule/completion"),
        ("linux", {}, "HOME/.cache/ferrule/completion"),
        ("darwin", {}, "HOME/Library/Caches/ferrule/completion"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/ferrule/completion"),
        ("win32", {}, "HOME/AppData/Local/ferrule/completion"),
    ],
)
def test_the_folder_is_the_platforms(
    platform: str, variables: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where programs of this user keep what they can make again."""
    for name in ("FERRULE_COMPLETION_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(known, "sys", SimpleNamespace(platform=platform))
    assert folder() == Path(expected.replace("HOME", str(tmp_path)))


def test_the_file_is_plain_json(where: Path) -> None:
    """What a person finds there says what it is."""
    remember("x", {"tools": [a_tool("ä\u2028b")]})
    (path,) = where.iterdir()
    assert path.read_text("ascii").isprintable()
    assert list(json.loads(path.read_text())["tools"]) == ["ä\u2028b"]
