"""Names: their form, and names that are confused."""

from __future__ import annotations

import pytest

from ferrule.checks.rules.names import name_problems
from tests.checks.samples import codes, tool


def test_a_plain_name_is_fine() -> None:
    """Most names are."""
    assert codes(tool("find_rows"), tool("add-row", "Add one row.")) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("find rows", ["F01", "F03"]),
        ("", ["F01"]),
        ("x" * 129, ["F01", "F03"]),
        ("x" * 65, ["F03"]),
        ("x" * 49, ["F05"]),
        ("x" * 48, []),
        ("find.rows", ["F03"]),
        ("1_find", ["F03"]),
        ("поиск", ["F01", "F03", "F03"]),
    ],
)
def test_the_form_of_a_name(name: str, expected: list[str]) -> None:
    """The specification has 1 to 128 characters and the dot; model APIs have 64 and no dot."""
    assert codes(tool(name)) == expected


def test_the_same_name_twice_is_an_error_for_each_kind() -> None:
    """A resource may be called as a tool is."""
    twice = [{"uri": "memo://a", "description": "a"}, {"uri": "memo://a", "description": "b"}]
    assert codes(tool(), tool(description="Another one.")) == ["F02"]
    assert codes(resources=twice) == ["F02"]
    assert codes(tool("a"), prompts=[{"name": "a", "description": "b"}]) == []


@pytest.mark.parametrize("name", ["Find_Rows", "find-rows", "findRows"])
def test_names_that_differ_in_case_or_marks_are_alike(name: str) -> None:
    """``findRows`` differs from ``find_rows`` in a mark that no host rewrites."""
    assert codes(tool(), tool(name, "Another one.")) == ([] if name == "findRows" else ["F04"])


def test_the_reasons_name_the_number() -> None:
    """They are shown by `ferrule inspect` too."""
    assert name_problems("x" * 70) == ["70 characters; model APIs take 64"]
    assert name_problems("a") == []
