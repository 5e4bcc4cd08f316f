"""The share of the examples' calls that the fast path serves: what a reader copies from there stays on it."""

from __future__ import annotations

import asyncio
import runpy
import sys
from typing import Any

import pytest

from ferrule import MCPServer
from tests.conftest import EXAMPLES
from tests.kernel.harness import initialize, modern, note, request
from tests.pipes import line_to

CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "server": [("echo", {"text": "hi"}), ("add", {"a": 1, "b": 2})],
    "weather": [("climate", {"city": "Oslo", "month": 5}), ("warmest", {"month": 5})],
    "search": [("search", {"words": "import"})],
    "picture": [("bar_chart", {"values": [1.0, 2.0]})],
    "explorer": [],
}
"""Calls of tools in the examples; of the others only what is known without a call."""


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> MCPServer[Any]:
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.chdir(EXAMPLES)
    app: MCPServer[Any] = runpy.run_path(str(EXAMPLES / f"{name}.py"))["app"]
    return app


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_tool_of_an_example_may_be_called_plainly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them uses anything that keeps its calls off the fast path."""
    app = load(name, monkeypatch)
    unusual = [tool.name for tool in app.tools.index if app.tools.find_plain(tool.name) is None]
    assert unusual == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_nearly_all_calls_of_the_examples_are_served_by_the_fast_path(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 95 of 100, whatever the results are: data, text, pictures or errors."""
    fast = general = 0
    for name, calls in CALLS.items():
        app = load(name, monkeypatch)

        async def test(app: MCPServer[Any] = app, calls: list[tuple[str, dict[str, Any]]] = calls) -> None:
            async with line_to(app) as line:
                if era == "modern":
                    await line.tell(modern(-1, "server/discover"))
                else:
                    await line.tell(initialize(-1), note("notifications/initialized"))
                asked = 1
                for tool, arguments in calls * 5:
                    asked += 1
                    params = {"name": tool, "arguments": arguments}
                    await line.tell(
                        modern(asked, "tools/call", params) if era == "modern" else request(asked, "tools/call", params)
                    )
                    await line.wait_for(asked)
                assert not [message for message in line.messages() if "error" in message]

        asyncio.run(test())
        fast += app.tools.fast_calls
        general += app.tools.general_calls
    assert fast + general == 5 * sum(map(len, CALLS.values()))
    assert fast >= 0.95 * (fast + general)
