"""The inspector's command line against the example server: a client in another language, on another HTTP stack."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.peer

ERAS = ["legacy", "modern", "auto"]


@pytest.fixture(scope="module", params=["stdio", "http"])
def target(request: pytest.FixtureRequest, stdio_command: list[str]) -> list[str]:
    """The arguments that name the server."""
    if request.param == "stdio":
        return stdio_command
    return ["--server-url", request.getfixturevalue("http_url"), "--transport", "http"]


@pytest.fixture(scope="module", params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """The protocol era that the inspector has to negotiate."""
    return str(request.param)


@pytest.fixture
def inspect(peer_node: tuple[str, Path], tmp_path: Path, target: list[str], era: str) -> Any:
    """Runs one method of the inspector's command line and returns its JSON."""
    node, folder = peer_node
    program = folder / "node_modules" / ".bin" / "mcp-inspector"
    options = ["--protocol-era", era, "--format", "json", "-q"]

    def run(method: str, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [node, str(program), "--cli", *target, *options, "--method", method, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            # The inspector keeps a catalogue and a token store in the home folder; not in the person's.
            env={**os.environ, "HOME": str(tmp_path), "NO_COLOR": "1"},
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        answer = json.loads(done.stdout)
        return answer.get("result", answer)

    return run


def test_it_lists_tools(inspect: Any) -> None:
    """Names and schemas as the inspector shows them."""
    tools = {tool["name"]: tool for tool in inspect("tools/list")["tools"]}
    assert set(tools) == {"echo", "add", "cut"}
    assert tools["cut"]["inputSchema"]["required"] == ["metal", "length_mm"]


def test_it_calls_a_tool(inspect: Any) -> None:
    """Arguments arrive as numbers, the answer as structure."""
    result = inspect("tools/call", "--tool-name", "cut", "--tool-args-json", '{"metal": "steel", "length_mm": 100}')
    assert result["structuredContent"]["left_mm"] == 7900


def test_it_lists_and_reads_resources(inspect: Any) -> None:
    """A fixed resource, and one that a template makes."""
    assert [entry["uri"] for entry in inspect("resources/list")["resources"]] == ["workshop://stock"]
    templates = inspect("resources/templates/list")["resourceTemplates"]
    assert [entry["uriTemplate"] for entry in templates] == ["workshop://metals/{metal}"]
    read = inspect("resources/read", "--uri", "workshop://metals/copper")
    assert json.loads(read["contents"][0]["text"])["length_mm"] == 1200


def test_it_lists_and_gets_a_prompt(inspect: Any) -> None:
    """Prompt arguments are strings on the wire."""
    assert [entry["name"] for entry in inspect("prompts/list")["prompts"]] == ["quote"]
    got = inspect("prompts/get", "--prompt-name", "quote", "--prompt-args", "metal=copper", "pieces=3")
    assert "3 ferrule(s) of copper" in got["messages"][0]["content"]["text"]
