"""ferrule.app.components.fast_tools: which tools the fast path may call."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.app.components import fast_tools
from ferrule.app.components.options import ToolOptions


class NewerOptions(ToolOptions, frozen=True, kw_only=True, eq=False):
    """Options with one that the fast path does not support."""

    in_capitals: bool = False


def shout(text: str) -> str:
    """Return the text."""
    return text


@pytest.mark.parametrize(("in_capitals", "is_fast"), [(False, True), (True, False)])
def test_a_tool_with_an_option_that_is_not_listed_is_called_by_the_general_path(
    in_capitals: bool, is_fast: bool
) -> None:
    """A new option that changes how a tool is called would be ignored otherwise."""
    app: MCPServer[Any] = MCPServer("x")
    tool = app.tools.add(shout, NewerOptions(in_capitals=in_capitals))
    assert (tool.make_plain() is not None) is is_fast


@pytest.mark.parametrize(
    ("option", "is_fast"),
    [
        ({"title": "T", "tags": ["a"], "meta": {"a": 1}}, True),
        ({"timeout_s": 5.0, "max_concurrent": 2}, True),
        ({"scopes": ["a"], "structured": False, "max_result_bytes": 99}, True),
        ({"task_after_s": 1.0, "resumable": True}, True),
        ({"input_schema": {"type": "object"}}, True),
        ({"task": "optional"}, False),
    ],
    ids=str,
)
def test_listed_options_leave_a_tool_on_the_fast_path(option: dict[str, Any], is_fast: bool) -> None:
    """Titles, limits, guards and results are respected there."""
    app: MCPServer[Any] = MCPServer("x")
    assert (app.tools.add(shout, ToolOptions(**option)).make_plain() is not None) is is_fast


def test_the_list_names_options_that_exist() -> None:
    """An option that is renamed is renamed in the list too."""
    assert set(ToolOptions.__struct_fields__) >= fast_tools._HONOURED
