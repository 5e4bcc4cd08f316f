"""ferrule.client.groups.reloading: which servers a new configuration touches."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.client.config_settings import ServerSettings
from ferrule.client.groups.reloading import difference, read_group_target
from ferrule.client.targets import GroupTarget, HttpTarget, InProcessTarget, StdioTarget


def entries(config: Any) -> dict[str, Any]:
    """What a group has after reading a configuration."""
    found = read_group_target(config)
    return {name: (entry, found.settings.get(name, ServerSettings())) for name, entry in found.servers.items()}


def test_only_entries_that_differ_are_started() -> None:
    """Settings count; the order of keys and comments do not."""
    old = {
        "same": {"command": "x", "env": {"A": "1", "B": "2"}},
        "gone": {"url": "http://h/gone"},
        "header": {"url": "http://h/mcp", "headers": {"K": "1"}},
        "filter": {"url": "http://h/mcp", "includeTools": ["a"]},
    }
    new = {
        "new": {"command": "y"},
        "filter": {"url": "http://h/mcp", "includeTools": ["a", "b"]},
        "header": {"url": "http://h/mcp", "headers": {"K": "2"}},
        "same": {"env": {"B": "2", "A": "1"}, "command": "x"},
    }
    wanted = difference(entries({"mcpServers": old}), read_group_target({"mcpServers": new}))
    assert list(wanted.start) == ["new", "filter", "header"]
    assert set(wanted.stop) == {"gone", "filter", "header"}
    assert wanted.order == ("new", "filter", "header", "same")
    report = wanted.report
    assert (report.added, report.removed) == (("new",), ("gone",))
    assert (report.changed, report.unchanged, report.refused) == (("filter", "header"), ("same",), {})
    again = difference(entries({"mcpServers": new}), read_group_target({"mcpServers": new}))
    assert (again.start, again.stop, again.report.unchanged) == ({}, (), ("new", "filter", "header", "same"))


def test_a_malformed_entry_keeps_the_usable_one() -> None:
    """A new one is there with its error, and is tried again with the next configuration."""
    old = entries({"mcpServers": {"a": {"command": "x"}}})
    broken = read_group_target({"mcpServers": {"a": {"command": 3}, "b": {"command": 4}}})
    wanted = difference(old, broken)
    assert (list(wanted.start), wanted.stop, wanted.order) == (["b"], (), ("a", "b"))
    assert set(wanted.report.refused or {}) == {"a", "b"}
    mended = difference(
        {**old, "b": (ValueError("4"), ServerSettings())},
        read_group_target({"a": {"command": "x"}, "b": {"command": "y"}}),
    )
    assert list(mended.start) == ["b"]
    assert mended.stop == ("b",)


def test_every_form_of_a_group() -> None:
    """Servers by name with any target, a configuration, and one server alone."""
    app = MCPServer("app")
    found = read_group_target(
        {"app": app, "web": "http://h/mcp", "run": ["x", "y"], "entry": {"command": "z"}, "no": 3}
    )
    kinds = {name: type(target) for name, target in found.servers.items()}
    assert kinds == {
        "app": InProcessTarget,
        "web": HttpTarget,
        "run": StdioTarget,
        "entry": StdioTarget,
        "no": TypeError,
    }
    assert list(read_group_target("http://h/mcp").servers) == ["server"]
    assert read_group_target(found) is found
    assert isinstance(read_group_target({"a": {"mcpServers": {}}}).servers["a"], Exception)
    with pytest.raises(ValueError):
        read_group_target("")
    with pytest.raises(TypeError):
        read_group_target(3)
    assert read_group_target({}) == GroupTarget({})
