"""A snapshot is the server again, whatever the order of its lists."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.checks.changes.snapshots import is_snapshot, picture_of, snapshot_of
from ferrule.checks.picture import ServerPicture
from ferrule.protocol.digests import definition_digest
from tests.checks.samples import tool

PICTURE = ServerPicture(
    name="s",
    version="1",
    protocol_version="2026-07-28",
    instructions="i",
    tools=[tool("b"), tool("a")],
    resources=[{"uri": "m://", "name": "m"}],
    templates=[{"uriTemplate": "t://{x}", "name": "t"}],
    prompts=[{"name": "p"}],
)


def test_there_and_back() -> None:
    """Sorted by name; nothing else is lost."""
    snapshot = snapshot_of(PICTURE)
    assert is_snapshot(snapshot)
    assert list(snapshot["tools"]) == ["a", "b"]
    assert snapshot["tools"]["a"]["digest"] == definition_digest(tool("a"))
    back = picture_of(snapshot)
    assert snapshot_of(back) == snapshot
    assert (back.name, back.version, back.instructions, back.protocol_version) == ("s", "1", "i", "2026-07-28")


@pytest.mark.parametrize(
    "wrong",
    [
        {"ferruleSnapshot": 2},
        {"ferruleSnapshot": 1, "tools": []},
        {"ferruleSnapshot": 1, "tools": {"a": {}}},
        {"ferruleSnapshot": 1, "tools": {"a": {"definition": {"name": "b"}}}},
    ],
)
def test_a_malformed_snapshot(wrong: dict[str, Any]) -> None:
    """The error says what is wrong."""
    with pytest.raises(ValueError, match="snapshot"):
        picture_of(wrong)


def test_other_json_is_no_snapshot() -> None:
    """A configuration of servers is none."""
    assert not is_snapshot({"mcpServers": {}})
    assert not is_snapshot([])
