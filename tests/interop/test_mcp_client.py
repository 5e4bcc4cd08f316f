"""The official ``mcp`` client against the example server: what works for it works for most of the hosts in use."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("mcp_client_script.py")

LEGACY, MODERN = "2025-11-25", "2026-07-28"

pytestmark = pytest.mark.peer


def converse(python: str, mode: str, target: list[str]) -> dict[str, Any]:
    """All that the client saw, by the name of the call."""
    done = subprocess.run([python, str(SCRIPT), mode, *target], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-6000:]
    # A server's stray line would land on the client's stderr, never in its answers.
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["stdio", "http"])
def target(request: pytest.FixtureRequest, stdio_command: list[str]) -> list[str]:
    """How the client reaches the server."""
    if request.param == "stdio":
        return ["stdio", *stdio_command]
    return ["http", request.getfixturevalue("http_url")]


@pytest.fixture(scope="module", params=[("auto", MODERN), ("legacy", LEGACY), (MODERN, MODERN)], ids=lambda p: p[0])
def seen(request: pytest.FixtureRequest, peer_python: str, target: list[str]) -> dict[str, Any]:
    """One conversation per mode and transport; the tests below look at its parts."""
    mode, revision = request.param
    return {**converse(peer_python, mode, target), "expected_revision": revision}


def test_the_revision_is_the_expected_one(seen: dict[str, Any]) -> None:
    """`auto` must find the modern era without a fallback, and `legacy` must still find its own."""
    assert seen["protocol_version"] == seen["expected_revision"]
    # An envelope without a handshake carries the server's identity in each result, so a pinned client may not have it.
    assert seen["server_name"] in ({"workshop"} if seen["expected_revision"] == LEGACY else {"workshop", None})


def test_lists_are_complete(seen: dict[str, Any]) -> None:
    """A component that is not listed does not exist for a model."""
    tools = {tool["name"]: tool for tool in seen["tools"]["tools"]}
    assert list(tools) == ["echo", "add", "cut"]
    assert tools["add"]["inputSchema"]["properties"]["a"]["description"] == "the first summand"
    assert tools["add"]["inputSchema"]["required"] == ["a"]
    assert tools["cut"]["outputSchema"]["type"] == "object"
    assert [resource["uri"] for resource in seen["resources"]["resources"]] == ["workshop://stock"]
    assert [entry["uriTemplate"] for entry in seen["templates"]["resourceTemplates"]] == ["workshop://metals/{metal}"]
    assert [prompt["name"] for prompt in seen["prompts"]["prompts"]] == ["quote"]


def test_calls_give_text_and_structure(seen: dict[str, Any]) -> None:
    """The client validates structured content against the output schema that we published."""
    assert seen["echo"]["content"][0]["text"] == "grüße, \U0001f529"
    assert seen["add"]["content"][0]["text"] == "42"
    expected: Any = {"result": 42} if seen["expected_revision"] == LEGACY else seen["add"]["structuredContent"]
    assert seen["add"]["structuredContent"] == expected
    assert seen["add"]["structuredContent"] in (42, {"result": 42})
    assert seen["cut"]["structuredContent"] == {
        "metal": "brass",
        "length_mm": 12,
        "left_mm": 2988,
        "tags": ["deburred", "brass"],
    }
    assert json.loads(seen["cut"]["content"][0]["text"]) == seen["cut"]["structuredContent"]


def test_progress_arrives_in_order(seen: dict[str, Any]) -> None:
    """Progress that comes after the result, or not at all, leaves a person before a dead screen."""
    assert [step[0] for step in seen["progress"]] == [1, 2, 3]
    assert seen["progress"][0] == [1, 3, "pass 1 of the saw"]


def test_a_tool_error_is_a_result_for_the_model(seen: dict[str, Any]) -> None:
    """The model must be able to read what to do differently."""
    assert seen["too_long"]["isError"] is True
    assert "ask for a shorter piece" in seen["too_long"]["content"][0]["text"]


def test_resources_and_templates_are_read(seen: dict[str, Any]) -> None:
    """A template must be matched, not only listed."""
    assert seen["stock"]["contents"][0] == {
        "uri": "workshop://stock",
        "mimeType": "text/plain",
        "text": "brass: 3000 mm\ncopper: 1200 mm\nsteel: 8000 mm",
    }
    assert json.loads(seen["bar"]["contents"][0]["text"]) == {"metal": "steel", "length_mm": 8000}
    assert seen["bar"]["contents"][0]["uri"] == "workshop://metals/steel"


def test_a_prompt_is_filled_in(seen: dict[str, Any]) -> None:
    """Optional arguments may be left out."""
    message = seen["quote"]["messages"][0]
    assert message["role"] == "user"
    assert message["content"]["text"].startswith("Write a short quotation for 1 ferrule(s) of brass")


def test_an_unknown_prompt_is_an_invalid_parameter(seen: dict[str, Any]) -> None:
    """-32602 is what the specification names; the client shows it as its own error."""
    assert seen["unknown_prompt"]["code"] == -32602


def test_a_hundred_calls_at_once_keep_their_answers(seen: dict[str, Any]) -> None:
    """Correlation by id, not by order."""
    assert seen["many"] == [str(2 * n) for n in range(100)]
