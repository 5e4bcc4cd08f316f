"""Patterns of server lines, and what client lines take over from them."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.testing.matching import fill, mismatch


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (1, 1),
        (1, 1.0),
        ("a", "a"),
        (None, None),
        (True, True),
        ([], []),
        ({}, {}),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ("$any", {"x": 1}),
        ("$any", None),
        ("$string", ""),
        ("$integer", 5),
        ("$integer", 5.0),
        ("$number", 1.5),
        ("$boolean", False),
        ("$array", [1]),
        ("$object", {}),
        ("$null", None),
        ("$revision", "r"),
        ("$$any", "$any"),
        ("$$$", "$$"),
        ({"a": 1, "...": True}, {"a": 1, "b": 2}),
        ({"...": True}, {}),
        ([1, "..."], [1]),
        ([1, "..."], [1, 2, 3]),
        (["..."], []),
        ("$is:known", 7),
    ],
)
def test_a_value_matches(pattern: Any, value: Any) -> None:
    """Exactly, unless the pattern says where it varies."""
    assert mismatch(pattern, value, {"revision": "r", "known": 7}) is None


@pytest.mark.parametrize(
    ("pattern", "value", "path"),
    [
        (1, 2, "$"),
        (1, True, "$"),
        (True, 1, "$"),
        (0, False, "$"),
        (None, False, "$"),
        ("a", "b", "$"),
        ({"a": 1}, {"a": 2}, "$.a"),
        ({"a": 1}, {}, "$.a"),
        ({"a": 1}, {"a": 1, "b": 2}, "$.b"),
        ({"a": None}, {}, "$.a"),
        ({}, [], "$"),
        ([], {}, "$"),
        ([1], [1, 2], "$"),
        ([1, 2], [1], "$"),
        ([1, 2, "..."], [1], "$"),
        ([{"a": 1}], [{"a": 2}], "$[0].a"),
        ("$string", 1, "$"),
        ("$integer", True, "$"),
        ("$integer", 1.5, "$"),
        ("$number", "1", "$"),
        ("$boolean", 1, "$"),
        ("$array", {}, "$"),
        ("$object", [], "$"),
        ("$null", 0, "$"),
        ("$revision", "other", "$"),
        ("$is:known", 8, "$"),
        ("$is:unknown", 8, "$"),
        ("$$any", "any", "$"),
    ],
)
def test_a_value_that_does_not_match_says_where(pattern: Any, value: Any, path: str) -> None:
    """The path is what a reader looks for."""
    problem = mismatch(pattern, value, {"revision": "r", "known": 7})
    assert problem is not None
    assert problem.startswith((f"{path} ", f"{path}:"))


def test_a_remembered_value_is_put_in_and_compared() -> None:
    """Ids that the server chooses come back in the client's answer."""
    names: dict[str, Any] = {}
    assert mismatch({"id": "$any:question", "to": ["$string:who"]}, {"id": 7, "to": ["x"]}, names) is None
    assert names == {"question": 7, "who": "x"}
    assert fill({"id": "$is:question", "list": ["$is:who", "$$x", 1]}, names) == {"id": 7, "list": ["x", "$x", 1]}
    assert mismatch("$is:question", 7, names) is None
    assert mismatch("$is:question", "7", names) is not None


@pytest.mark.parametrize("pattern", ["$any", "$string", "$is:unknown", {"a": ["$object"]}])
def test_a_client_line_holds_no_pattern(pattern: Any) -> None:
    """There is nothing that it could mean."""
    with pytest.raises(ValueError, match="cannot be put into"):
        fill(pattern, {"revision": "r"})


def test_an_unknown_pattern_is_refused() -> None:
    """A misspelt pattern must not match nothing in silence."""
    with pytest.raises(ValueError, match="no pattern"):
        mismatch("$strnig", "x", {})
