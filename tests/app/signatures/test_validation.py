"""Values against schemas of authors."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.app.signatures import validation
from ferrule.app.signatures.validation import problems_by


def test_small_values_get_all_their_problems_and_large_ones_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The validator finds every problem before it gives one: 200,000 wrong arguments of a caller took 12 s and
    1 GB of the server."""
    problems = problems_by({"type": "array", "items": {"type": "string"}})
    assert len(problems([1] * 3)) == 3
    assert len(problems([1] * 9)) == 5
    assert problems([1] * 200_000) == ['`[0]`: the value is not of type "string"']
    assert problems(["a"] * 200_000) == []
    monkeypatch.setattr(validation, "_MAX_EXPLAINED_BYTES", 4)
    assert len(problems([1] * 3)) == 1


def test_numbers_that_take_long_to_divide_are_refused() -> None:
    """The schema is the author's and the numbers are the peer's: six bytes take a millisecond each."""
    problems = problems_by({"type": "object", "properties": {"x": {"type": "array", "items": {"multipleOf": 0.5}}}})
    assert problems({"x": [1.5, 2]}) == []
    assert problems({"x": [1.3]})
    for numbers in ([1e300] * 20_000, [int("9" * 4000)]):
        assert problems({"x": numbers}) == ["`value`: its numbers are too many, or too long, to be divided"]


@pytest.mark.parametrize("depth", [256, 300, 511])
def test_a_value_that_is_nested_too_deeply_is_described(depth: int) -> None:
    """The validator stops at 255 levels, and a message may have 512: that is no failure of the tool."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    assert problems_by({"type": "object"})(value) == ["`value`: it is nested too deeply to be checked"]
    assert problems_by({"type": "object"})({"a": 1}) == []
