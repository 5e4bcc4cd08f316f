"""Breaking, compatible, wording: as a caller and a reader of the old version sees it."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.checks.changes.differences import differences
from ferrule.checks.picture import ServerPicture
from tests.checks.samples import takes, tool

TEXT = {"type": "string"}


def changed(old: dict[str, Any], new: dict[str, Any], kind: str = "tools") -> list[str]:
    """The categories of the changes of one definition."""
    before, after = (ServerPicture(**dict[str, Any]({kind: [each]})) for each in (old, new))
    return [each.category for each in differences(before, after)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (tool(), tool(), []),
        (tool(), tool("other"), ["breaking", "compatible"]),
        (tool(), tool(description="Other words."), ["wording"]),
        (tool(), tool(title="Rows"), ["wording"]),
        (takes({"a": TEXT}), takes({"a": TEXT, "b": TEXT}), ["compatible"]),
        (takes({"a": TEXT}), takes({"a": TEXT, "b": TEXT}, required=["b"]), ["breaking"]),
        (takes({"a": TEXT}), takes({"a": {"type": "integer"}}), ["breaking"]),
        (takes({"a": TEXT}), takes({"a": {**TEXT, "description": "d"}}), ["wording"]),
        (tool(), tool(annotations={"readOnlyHint": False}), ["breaking"]),
        (tool(), tool(annotations={"readOnlyHint": True, "idempotentHint": True}), ["compatible"]),
        (tool(outputSchema=TEXT), tool(), ["breaking"]),
        (tool(), tool(outputSchema=TEXT), ["compatible"]),
        (tool(outputSchema=TEXT), tool(outputSchema={"type": ["string", "null"]}), ["breaking"]),
        (tool(outputSchema={"type": ["string", "null"]}), tool(outputSchema=TEXT), ["compatible"]),
    ],
)
def test_tools(old: dict[str, Any], new: dict[str, Any], expected: list[str]) -> None:
    """An argument may become wider, a result narrower."""
    assert changed(old, new) == expected


def test_prompts_and_resources() -> None:
    """Arguments of prompts, media types of resources."""
    prompt = {"name": "p", "arguments": [{"name": "a", "required": True}]}
    assert changed(prompt, {"name": "p", "arguments": []}, "prompts") == ["breaking"]
    assert changed(prompt, {"name": "p", "arguments": [{"name": "a"}]}, "prompts") == ["compatible"]
    assert changed({"name": "p"}, prompt, "prompts") == ["breaking"]
    assert changed({"name": "p"}, {"name": "p", "arguments": [{"name": "a"}]}, "prompts") == ["compatible"]
    assert changed({"uri": "m://"}, {"uri": "m://", "mimeType": "text/plain"}, "resources") == ["breaking"]
    assert changed({"uri": "m://"}, {"uri": "n://"}, "resources") == ["breaking", "compatible"]


def test_the_server_itself_is_wording() -> None:
    """A version is there to change."""
    found = differences(ServerPicture(version="1", instructions="a"), ServerPicture(version="2", instructions="b"))
    assert [(each.category, each.path, each.message) for each in found] == [
        ("wording", "/version", "version was '1' and is '2'"),
        ("wording", "/instructions", "instructions changed"),
    ]


def test_the_gravest_comes_first() -> None:
    """Whatever the order of the lists."""
    old = ServerPicture(tools=[tool("a", "One."), tool("b")])
    new = ServerPicture(tools=[tool("a", "Two."), tool("c")])
    assert [each.category for each in differences(old, new)] == ["breaking", "compatible", "wording"]
