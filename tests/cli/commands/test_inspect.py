"""``ferrule inspect``: capabilities in each revision, what is refused elsewhere, and what it costs a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli.inspecting import TokenCost
from tests.cli.support import PROBE, ferrule

SERVER = """\
from ferrule import MCPServer

app = MCPServer("s", version="2")

@app.tool("a.b")
def dotted() -> str:
    return "x"

@app.tool("n" * 50)
def long() -> str:
    return "x"

@app.tool("list_rows")
def rows() -> list[dict[str, int]]:
    return [{"number": number, "square": number * number} for number in range(40)]

@app.tool("picky", input_schema={"type": "object", "properties": {"x": {"type": ["string", "null"]}}})
def picky(**values: object) -> str:
    return ""
"""


def inspect(*arguments: str, status: int = 0) -> dict[str, Any]:
    """The picture."""
    done = ferrule("inspect", *arguments, "-o", "json")
    assert done.returncode == status, done.stderr
    return dict(json.loads(done.stdout))


def test_every_revision_has_its_own_capabilities() -> None:
    """A host of 2024 gets other capabilities than one of 2026."""
    found = inspect(PROBE)
    assert found["server"] == {"name": "probe", "version": "3"}
    assert found["instructions"] == "Be gentle."
    assert list(found["revisions"]) == ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert all(each["tools"] == {"listChanged": True} for each in found["revisions"].values())
    assert [prompt["name"] for prompt in found["prompts"]] == ["ask"]
    assert found["problems"] == []


def test_people_see_uris_and_the_names_of_extensions(tmp_path: Path) -> None:
    """An extension's settings are often empty, and it is there all the same."""
    (tmp_path / "s.py").write_text(
        "from ferrule import MCPServer\napp = MCPServer('s')\n"
        "@app.resource('memo://{name}')\ndef memo(name: str) -> str:\n    return name\n"
        "@app.tool(task='optional')\nasync def press() -> int:\n    return 1\n"
    )
    lines = ferrule("inspect", "s.py", cwd=tmp_path).stdout.splitlines()
    assert any("extensions(io.modelcontextprotocol/tasks)" in line for line in lines)
    assert any(line.split() == ["URI", "DESCRIPTION"] for line in lines)


def test_a_row_without_toon_gives_no_advice() -> None:
    """It is given once, below all of them."""
    assert TokenCost(7, 2).words() == "JSON 7 bytes, about 2 tokens"


def test_what_others_refuse_is_named_with_its_reason(tmp_path: Path) -> None:
    """Names with dots, names too long behind a host's prefix, schemas that a model API does not take."""
    (tmp_path / "s.py").write_text(SERVER)
    found = inspect(str(tmp_path / "s.py"), "--strict", status=1)
    problems = {each["tool"]: each["problem"] for each in found["problems"]}
    assert set(problems) == {"a.b", "n" * 50, "picky"}
    assert "model APIs do not" in problems["a.b"]
    assert "with a host's prefix" in problems["n" * 50]
    text = ferrule("inspect", str(tmp_path / "s.py")).stdout
    assert "Questionable (" in text
    assert "(estimated)" in text


def test_the_tool_list_and_a_result_are_measured_as_json_and_as_toon(tmp_path: Path) -> None:
    """TOON is shorter for rows of the same form, as the numbers show."""
    pytest.importorskip("toons")
    (tmp_path / "s.py").write_text(SERVER)
    cost = inspect(str(tmp_path / "s.py"), "--call", "list_rows")["cost"]
    assert cost["is_estimate"]
    assert set(cost["each"]) == {"a.b", "n" * 50, "list_rows", "picky"}
    assert cost["tools"]["json_tokens"] > max(each["json_tokens"] for each in cost["each"].values())
    assert 0 < cost["result"]["toon_tokens"] < 0.7 * cost["result"]["json_tokens"]
    assert cost["result"]["json_bytes"] > 500
    text = ferrule("inspect", PROBE, "--call", "add", "--arguments", '{"a": 1}').stdout
    assert "the result" in text


def test_open_names_and_an_untyped_context_are_hints_and_no_failure(tmp_path: Path) -> None:
    """``--strict`` fails what a model API refuses, and nothing else."""
    path = tmp_path / "hinted.py"
    path.write_text(
        "from ferrule import MCPServer\napp = MCPServer('hinted')\n\n"
        "@app.tool\ndef forgot(ctx, words: str) -> str:\n    return words\n\n"
        "@app.tool(input_schema={'type': 'object', 'properties': {}})\ndef loose(**kw) -> str:\n    return ''\n"
    )
    done = ferrule("inspect", str(path), "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "did its parameter mean to be `ctx: Context`?" in done.stdout
    assert "`additionalProperties: false` would refuse them" in done.stdout
