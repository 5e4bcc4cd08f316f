"""How deep: the same answer as counting, in few steps whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire import nesting
from ferrule.wire.nesting import MAX_DEPTH, is_deeper

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
    """The parser says what they are."""
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
