"""The settings of an entry, in the spellings of the known hosts."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ferrule.client.config import read_target
from ferrule.client.config_file import DisabledServer
from ferrule.client.config_settings import ServerSettings, ServerSettingsError, ToolSettings, read_settings
from ferrule.client.targets import GroupTarget, StdioTarget

SPELLINGS: dict[str, tuple[dict[str, Any], ServerSettings]] = {
    "none": ({}, ServerSettings()),
    "Cline": (
        {"timeout": 60, "disabledTools": ["rm"], "autoApprove": ["ls"]},
        ServerSettings(timeout_s=60.0, exclude=("rm",)),
    ),
    "Gemini CLI": (
        {"timeout": 30000, "includeTools": ["a", "b"], "excludeTools": ["b"], "trust": False},
        ServerSettings(timeout_s=30.0, include=("a", "b"), exclude=("b",)),
    ),
    "Codex": (
        {"startup_timeout_sec": 20, "tool_timeout_sec": 7200, "enabled_tools": ["a"], "disabled_tools": ["b"]},
        ServerSettings(timeout_s=7200.0, connect_timeout_s=20.0, include=("a",), exclude=("b",)),
    ),
    "Copilot CLI": ({"tools": ["*"]}, ServerSettings(include=("*",))),
    "own": (
        {"tools": {"q": {"name": "search", "description": "Finds."}, "x": {"disabled": True}}, "maxConcurrent": 4},
        ServerSettings(
            max_concurrent=4,
            tools={"q": ToolSettings(name="search", description="Finds."), "x": ToolSettings(shown=False)},
        ),
    ),
}


@pytest.mark.parametrize("host", SPELLINGS)
def test_the_spellings_of_hosts(host: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each is read, and no key of a known host is called unknown."""
    entry, expected = SPELLINGS[host]
    assert read_settings({"command": "x", **entry}, "f: s") == expected
    assert caplog.records == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "time": ({"timeout": "5"}, r"s\.timeout is '5'; it is a number of seconds above 0"),
    "a truth value": ({"timeout": True}, r"s\.timeout is True"),
    "no time": ({"timeout": 0}, r"s\.timeout is 0"),
    "for ever": ({"timeout": float("inf")}, r"s\.timeout is inf"),
    "number": ({"maxConcurrent": 0}, r"s\.maxConcurrent is 0"),
    "one name": ({"includeTools": "a"}, r"s\.includeTools is a list of the names of tools"),
    "no names": ({"disabledTools": [1]}, r"s\.disabledTools is a list"),
    "tools": ({"tools": "a"}, r"s\.tools is a list of names, or an object"),
    "a tool": ({"tools": {"a": "b"}}, r"s\.tools\.a is an object"),
    "its key": ({"tools": {"a": {"nmae": "b"}}}, r"s\.tools\.a has the unknown key 'nmae'; known are description,"),
    "its text": ({"tools": {"a": {"title": 1}}}, r"s\.tools\.a\.title is a text"),
    "its name": ({"tools": {"a": {"name": ""}}}, r"s\.tools\.a\.name has 1 to 128 characters"),
    "two": ({"tools": {"a": {"name": "c"}, "b": {"name": "c"}}}, "'b' and 'a' are both called 'c'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_malformed_setting_is_refused_with_its_key(case: str) -> None:
    """The message names the key and what belongs there."""
    entry, message = WRONG[case]
    with pytest.raises(ServerSettingsError, match=message):
        read_settings(entry, "s")


def test_a_filter_shows_what_is_included_and_not_excluded() -> None:
    """Exclusion wins, as in Gemini CLI."""
    settings = read_settings({"includeTools": ["get_*", "rm"], "excludeTools": ["rm", "get_secret"]}, "s")
    assert [name for name in ("get_a", "rm", "get_secret", "put") if settings.shows(name)] == ["get_a"]
    assert settings.changes_tools
    assert not ServerSettings().changes_tools


def test_a_renamed_tool_is_found_by_its_new_name_only() -> None:
    """The old name leads nowhere, also where it was given to another tool."""
    settings = read_settings({"tools": {"a": {"name": "b"}, "x": {"name": "y", "disabled": True}}}, "s")
    assert [settings.own_name(name) for name in ("b", "a", "x", "y", "c")] == ["a", None, None, None, "c"]
    tools = [{"name": name, "inputSchema": {}} for name in ("a", "b", "c", "x")]
    shown = [settings.shown_tool(tool) for tool in tools]
    assert shown == [{"name": "b", "inputSchema": {}}, None, tools[2], None]


def test_a_description_replaces_the_servers() -> None:
    """And nothing else."""
    settings = read_settings({"tools": {"a": {"title": "T", "description": ""}}}, "s")
    tool = {"name": "a", "description": "long", "annotations": {"title": "x"}}
    assert settings.shown_tool(tool) == {**tool, "title": "T", "description": ""}


def test_unknown_keys_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """In one line of the log; the entry is used."""
    with caplog.at_level(logging.WARNING, "ferrule.client"):
        assert read_settings({"url": "http://h/", "zap": 1, "retries": 3}, "f: s") == ServerSettings()
    assert [record.getMessage() for record in caplog.records] == ["f: s has keys that are not read: 'retries', 'zap'"]


def test_a_group_has_the_settings_of_its_entries(tmp_path: Path) -> None:
    """A malformed setting takes away its own entry and no other."""
    path = tmp_path / "mcp.json"
    entries = {
        "a": {"command": "x", "timeout": 5},
        "b": {"command": "x", "timeout": -5},
        "c": {"command": "x", "disabled": True},
        "d": {"command": "x"},
    }
    path.write_text(json.dumps({"mcpServers": entries}))
    group = read_target(path)
    assert isinstance(group, GroupTarget)
    assert group.settings == {"a": ServerSettings(timeout_s=5.0)}
    assert "b.timeout is -5" in str(group.servers["b"])
    assert isinstance(group.servers["c"], DisabledServer)
    assert isinstance(group.servers["d"], StdioTarget)
