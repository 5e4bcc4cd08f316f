"""`check`: which rules count, and how gravely."""

from __future__ import annotations

import pytest

from ferrule.checks.judge import check, make_settings, rule_code
from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RULES, SEVERITIES
from tests.checks.samples import codes, found, tool

BARE = tool(description=None, annotations=None)


def test_the_gravest_comes_first() -> None:
    """Then the order of the numbers."""
    assert codes(BARE, tool("b", "x\u200b")) == ["F50", "F10", "F40"]


def test_rules_are_switched_by_number_and_by_name() -> None:
    """In any case of letters."""
    assert codes(BARE, settings=make_settings(disable=["f10"])) == ["F40"]
    assert codes(BARE, settings=make_settings(disable=["tool-description-missing", "F40"])) == []
    assert codes(BARE, settings=make_settings(only=["Hints-Missing"])) == ["F40"]


def test_a_severity_of_ones_own() -> None:
    """Stricter and milder."""
    levels = {
        each.code: each.severity
        for each in found(BARE, settings=make_settings(severities={"F10": "error", "F40": "warning"}))
    }
    assert levels == {"F10": "error", "F40": "warning"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"disable": ["F99"]},
        {"only": ["x"]},
        {"severities": {"F10": "fatal"}},
        {"severities": {"F99": "error"}},
        {"apis": ["grok"]},
        {"list_budget": 0},
    ],
)
def test_settings_that_mean_nothing(wrong: dict[str, object]) -> None:
    """A misspelt rule would otherwise be judged after all."""
    with pytest.raises(ValueError, match=r"There is no|one of|above 0"):
        make_settings(**wrong)  # type: ignore[arg-type]


def test_every_rule_can_be_explained() -> None:
    """Number, name and sentences of each, and no name twice."""
    for code, rule in RULES.items():
        assert rule_code(rule.name) == code == rule.code
        assert rule.severity in SEVERITIES
        assert all((rule.title, rule.why, rule.do))
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_an_empty_server_has_no_findings() -> None:
    """Nothing to judge."""
    assert check(ServerPicture()) == []


def test_the_place_of_a_finding() -> None:
    """Kind, name and pointer in one text."""
    places = [each.place for each in found(tool(description="x\u200b"), instructions="y" * 600)]
    assert places == ["tools/find_rows#/description", "server#/instructions"]
