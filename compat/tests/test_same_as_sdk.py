"""The servers of these tests on ``mcp`` 1.30 itself: what a client sees must be what it sees through the runner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from compat.published.published import differences
from compat.tests.support import COMPAT, SERVERS, SOURCES, command
from ferrule import Client, StdioServer

pytestmark = [pytest.mark.peer, pytest.mark.anyio]

CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "fast.py": [
        ("add", {"a": 1}),
        ("add", {"a": "5", "b": 3, "surplus": 1}),
        ("bare", {"name": "x"}),
        ("typed", {"place": "Oslo"}),
        ("mapped", {}),
        ("many", {}),
        ("ready", {}),
        ("broken", {}),
        ("told", {"words": '["a", "b"]'}),
        ("asked", {}),
        ("nothing", {}),
    ],
    "low.py": [("echo", {"text": "ø"}), ("data", {}), ("changed", {}), ("asked", {}), ("unknown", {})],
    "forms.py": [
        ("mapping", {"kwargs": "x"}),
        ("text", {}),
        ("number", {}),
        ("nothing", {}),
        ("words", {}),
        ("pair", {}),
        ("old_mapping", {}),
        ("model", {}),
        ("models", {}),
        ("typed_dict", {}),
        ("data", {}),
        ("maybe", {}),
        ("profile", {}),
        ("opaque", {}),
        ("anything", {}),
        ("bare_list", {}),
        ("read", {"bare": "[1]", "any_value": '{"a": 1}', "either": '["x"]', "maybe": "null", "yes": "True"}),
        ("read", {"bare": "5", "any_value": '"x"', "either": "x", "maybe": "5", "yes": 1}),
        ("whole", {}),
        ("price", {}),
        ("ready", {}),
        ("keys", {}),
        ("picture", {}),
        ("block", {}),
        ("blocks", {}),
        ("choice", {}),
        ("when", {}),
    ],
}


def sdk_python() -> str:
    """The interpreter of an environment with ``mcp`` 1.30."""
    cache = Path(os.environ.get("FERRULE_CACHE") or COMPAT.parent / ".cache")
    found = cache / "peer-django-mcp" / "bin" / "python"
    if not found.exists():
        if os.environ.get("FERRULE_REQUIRE_PEERS"):
            pytest.fail("no environment peer-django-mcp, though scripts/test installs it")
        pytest.skip("no environment with mcp 1.30 (scripts/test installs it)")
    return str(found)


async def seen(line: list[str], calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What a client of the handshake era sees, in the shape that ``differences`` compares: once for each call."""
    program, *rest = line
    made: list[dict[str, Any]] = []
    async with Client(
        StdioServer(program, rest, env={"PYTHONPATH": SOURCES}),
        mode="legacy",
        timeout_s=60,
        elicitation_handler=lambda params: {"place": "Bergen"} if "Where" in params.message else {"yes": True},
    ) as client:
        lists = {
            "tools": (await client.request("tools/list"))["tools"],
            "resources": (await client.request("resources/list"))["resources"],
            "templates": [],
            "prompts": (await client.request("prompts/list"))["prompts"],
        }
        for name, arguments in calls:
            result = await client.request("tools/call", {"name": name, "arguments": arguments})
            kept = {key: result.get(key) for key in ("content", "structuredContent", "isError")}
            made.append({**lists, "result": kept})
    return made


@pytest.mark.parametrize("server", CALLS)
async def test_lists_and_results_are_those_of_the_sdk(server: str) -> None:
    """Names, required arguments, types, the tools with structured results, and each result as a whole."""
    file = str(SERVERS / server)
    expected = await seen([sdk_python(), file], CALLS[server])
    found = await seen(command(file), CALLS[server])
    told = {
        name: differences(wanted, has) for (name, _), wanted, has in zip(CALLS[server], expected, found, strict=True)
    }
    assert {name: each for name, each in told.items() if each} == {}
