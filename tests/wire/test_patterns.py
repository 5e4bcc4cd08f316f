"""Patterns that are compiled on first use."""

from __future__ import annotations

import re

import pytest

from ferrule.wire.patterns import pattern


def test_a_pattern_is_compiled_by_its_first_use() -> None:
    """And does then what one of the standard library does; an error in it shows no earlier."""
    found = pattern(r"a(?P<rest>.*)", re.DOTALL)
    assert "match" not in vars(found)
    assert found.match("ab\nc")["rest"] == "b\nc"  # type: ignore[index]
    assert found.match is vars(found)["match"]
    assert found.sub("x", "ba") == "bx"
    assert pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
