"""The budget in tokens: a warning by default, an error where somebody set it."""

from __future__ import annotations

from ferrule.checks.judge import make_settings
from ferrule.checks.rules.budget import LIST_BUDGET, TOOL_BUDGET
from ferrule.checks.tokens import tokens_of_tool
from tests.checks.samples import found, takes, tool


def test_a_tool_over_the_budget() -> None:
    """The finding has both numbers."""
    cost = tokens_of_tool(tool())
    (finding,) = found(tool(), settings=make_settings(tool_budget=cost - 1))
    assert (finding.code, finding.severity) == ("F60", "error")
    assert finding.message == f"costs about {cost} tokens; the budget is {cost - 1}"
    assert found(tool(), settings=make_settings(tool_budget=cost)) == []


def test_a_list_over_the_budget() -> None:
    """The sum of its tools."""
    tools = [tool("a"), tool("b", "Another one.")]
    cost = sum(map(tokens_of_tool, tools))
    (finding,) = found(*tools, settings=make_settings(list_budget=cost - 1))
    assert (finding.code, finding.severity, finding.kind) == ("F61", "error", "server")
    assert found(*tools, settings=make_settings(list_budget=cost)) == []


def test_the_usual_budgets_are_warnings() -> None:
    """They were not asked for."""
    big = takes({"a": {"type": "string", "description": "word " * (TOOL_BUDGET + 1)}})
    assert [(each.code, each.severity) for each in found(big)] == [("F60", "warning")]
    many = [tool(f"t{at}", f"Number {at}.") for at in range(LIST_BUDGET // 20)]
    assert {each.code: each.severity for each in found(*many)} == {"F61": "warning", "F62": "note"}
