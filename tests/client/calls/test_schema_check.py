"""Schemas of a server: the first problem, or those of a small value, each with its place."""

from __future__ import annotations

from typing import Any

from ferrule.client.calls.schema_check import SchemaCheck

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}}},
    "required": ["n"],
}


def test_a_value_that_fits_has_no_problem() -> None:
    """Neither one nor a list of them."""
    check = SchemaCheck(SCHEMA)
    assert check.problem({"n": 1, "list": ["a"]}) is None
    assert check.problems({"n": 1}, 10) == []


def test_all_problems_of_a_small_value_are_listed() -> None:
    """With the names and indexes that lead to them."""
    found = SchemaCheck(SCHEMA).problems({"list": ["a", 1, 2]}, 10)
    assert sorted((path for path, _ in found), key=str) == [["list", 1], ["list", 2], []]


def test_their_number_is_bounded() -> None:
    """By the caller; a large value has the first one only."""
    check = SchemaCheck(SCHEMA)
    assert len(check.problems({"n": 1, "list": [1, 2, 3, 4]}, 2)) == 2
    assert len(check.problems({"n": 1, "list": [1] * 3000}, 20)) == 1


def test_the_first_problem_has_its_path_as_text() -> None:
    """As errors show it."""
    found = SchemaCheck(SCHEMA).problem({"n": 1, "list": ["a", 1]})
    assert found is not None
    assert found[0] == "$.list[1]"
