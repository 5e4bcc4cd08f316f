"""How deep: the same answer as counting, in few steps whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire import nesting
from ferrule.wire.nesting import MAX_DEPTH, is_deeper, may_be_too_deep

FORMS = [
    (b"[", b"]"),
    (b'{"a":', b"}"),
    (b'[ [], {"]}": 0}, "[[{", "\\"[",', b', "]", [1]]'),
    (b"[", b""),
]


@pytest.mark.parametrize(("head", "tail"), FORMS)
@pytest.mark.parametrize("limit", [3, 4, MAX_DEPTH, MAX_DEPTH + 1])
def test_the_limit_is_exact(head: bytes, tail: bytes, limit: int) -> None:
    """Brackets in text and in keys count for nothing, and what is missing at the end changes nothing."""
    for depth in (1, limit - 1, limit, limit + 1, 4 * limit):
        data = head * (depth - 1) + b'{"x\\\\": "]]]}}}\\\\\\"{{[["}' + tail * (depth - 1)
        assert is_deeper(data, limit) is (depth > limit), depth


values = st.recursive(
    st.one_of(st.none(), st.integers(), st.text('ab"\\[]{}', max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text('a"\\[{', max_size=3), inner, max_size=4)
    ),
    max_leaves=40,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(values, st.integers(0, 8))
def test_any_json_is_judged_as_by_counting(value: Any, limit: int) -> None:
    for indent in (None, 1):
        assert is_deeper(json.dumps(value, indent=indent).encode(), limit) is (depth_of(value) > limit)


@given(st.binary(max_size=300), st.integers(0, 5))
def test_bytes_that_are_no_json_are_judged_all_the_same(data: bytes, limit: int) -> None:
    """The parser reports them."""
    assert is_deeper(data, limit) in (True, False)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b"]" * 1_000_000,
        (b"[" * 400 + b"]" * 400) * 1250,
        (b"[" * 30 + b"]" * 30) * 16_000,
        b"[],[" * 250_000,
        b"[[]" * 300_000,
        b'{"a":{}},' * 100_000,
        b'"[[" ' * 200_000,
        b"\\\\\\" * 300_000 + b"[" * 600,
    ],
    ids=["open", "close", "combs", "short combs", "stairs", "uneven", "rows", "texts", "escapes"],
)
def test_a_megabyte_of_anything_takes_few_steps(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level goes at once, and where that would take many looks, whole runs do."""
    runs = []

    def counted(marks: bytes) -> int:
        found = nesting._RUN.findall(marks)
        runs.append(len(found))
        return 0

    monkeypatch.setattr(nesting, "_deepest_of_runs", counted)
    is_deeper(data)
    assert sum(runs) <= len(data) // 8


@pytest.mark.parametrize("filling", [0, 7_000, 8_192, 20_000])
@pytest.mark.parametrize("brackets", [0, 1, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 3 * MAX_DEPTH])
@pytest.mark.parametrize("mixture", [b"[", b"{", b"[{", b'{"[":['])
def test_many_brackets_are_noticed_in_small_and_in_large_texts(filling: int, brackets: int, mixture: bytes) -> None:
    """As by counting, which reads a megabyte of text for a millisecond."""
    opening = (mixture * (brackets + 1)).translate(None, b'"":')[:brackets]
    for data in (
        b"x" * filling + opening,
        opening + b"x" * filling,
        b'"]'.join([b"x" * (filling // 2), opening, b"x"]),
    ):
        count = data.count(b"[") + data.count(b"{")
        assert may_be_too_deep(data) is (count > MAX_DEPTH)


@pytest.mark.parametrize("opening", [b"[", b"{", b"[{"])
def test_more_brackets_than_levels_are_allowed_may_be_too_deep(opening: bytes) -> None:
    """Arrays and objects count together; as many as are allowed can never be too deep."""
    assert MAX_DEPTH == 512
    brackets = opening * (512 // len(opening))
    assert not may_be_too_deep(brackets)
    assert not may_be_too_deep(brackets + b" " * 20_000)
    assert may_be_too_deep(brackets + b"[")
    assert may_be_too_deep(brackets + b"{")
