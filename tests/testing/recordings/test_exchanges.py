"""Requests of a recording with what belongs to each."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.testing.recordings.exchanges import exchanges_of, identity_of, key_of
from ferrule.testing.recordings.lines import Line


def test_progress_goes_to_its_request_and_a_question_to_the_open_one() -> None:
    """Two calls overlap; a changed list belongs to none."""
    messages: list[tuple[Any, dict[str, Any]]] = [
        ("client", {"id": 1, "method": "tools/call", "params": {"name": "a", "_meta": {"progressToken": 7}}}),
        ("client", {"id": 2, "method": "tools/call", "params": {"name": "b"}}),
        ("server", {"method": "notifications/progress", "params": {"progressToken": 7, "progress": 1}}),
        ("server", {"method": "notifications/tools/list_changed"}),
        ("server", {"id": 1, "method": "roots/list"}),
        ("client", {"id": 1, "result": {"roots": []}}),
        ("server", {"id": 1, "result": {"content": []}}),
        ("server", {"id": 2, "result": {"content": []}}),
        ("client", {"id": 3, "method": "tools/call", "params": {"name": "c"}}),
    ]
    first, second = exchanges_of(Line(0.0, sender, message) for sender, message in messages)
    assert [each["method"] for each in first.before] == ["notifications/progress"]
    assert [each["method"] for each in second.before] == ["roots/list"]


def test_a_batch_is_its_messages() -> None:
    """2025-03-26 has them."""
    lines = [
        Line(0, "client", [{"id": 1, "method": "ping"}, {"id": 2, "method": "tools/list"}]),
        Line(1, "server", [{"id": 2, "result": {"tools": []}}, {"id": 1, "result": {}}]),
    ]
    assert [each.method for each in exchanges_of(lines)] == ["ping", "tools/list"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"name": "a", "arguments": {}}, {"name": "a"}, True),
        ({"name": "a", "_meta": {"x": 1}}, {"name": "a", "_meta": {"x": 2}}, True),
        ({"name": "a", "arguments": {"n": 1}}, {"name": "a", "arguments": {"n": 1.0}}, True),
        ({"name": "a", "arguments": {"password": "x"}}, {"name": "a", "arguments": {"password": "(masked)"}}, True),
        ({"name": "a", "arguments": {"n": 1}}, {"name": "a", "arguments": {"n": 2}}, False),
        ({"name": "a", "requestState": "x"}, {"name": "a"}, False),
    ],
)
def test_equal_requests(one: dict[str, Any], other: dict[str, Any], is_same: bool) -> None:
    """The state of a round tells rounds apart."""
    assert (key_of("tools/call", one) == key_of("tools/call", other)) is is_same


def test_a_server_without_a_name() -> None:
    """A part of a recording."""
    assert identity_of([]) == ({"name": "recording", "version": "0"}, {}, None)
