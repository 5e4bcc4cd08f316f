"""Ids, tokens and progress values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.protocol.correlation import IdSequence, ProgressGate, cancelled_request_id, own_id, progress_token

NO_IDS: list[Any] = [None, True, False, 1.0, 0.5, [], {}, [1]]


def test_ids_rise_and_never_repeat() -> None:
    """Right for the legacy rule (never in a session) and the modern one (never in flight)."""
    ids = IdSequence()
    assert [ids.next() for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("id", [0, 1, -5, 2**70, "", "1", "x"])
def test_a_real_id_keeps_its_type(id: Any) -> None:
    """1 and "1" are different."""
    for found in (cancelled_request_id({"requestId": id}), progress_token({"_meta": {"progressToken": id}})):
        assert found == id
        assert type(found) is type(id)


@pytest.mark.parametrize("id", NO_IDS)
def test_a_value_that_equals_an_id_in_python_is_not_an_id_on_the_wire(id: Any) -> None:
    """`true` and `1.0` would hit the request 1 in a dict."""
    assert cancelled_request_id({"requestId": id}) is None
    assert progress_token({"_meta": {"progressToken": id}}) is None


@pytest.mark.parametrize(
    ("echoed", "id"),
    [
        (1, 1), ("1", 1), (1.0, 1), (0, 0), ("0", 0), (2**53, 2**53), (-0.0, 0),
        (True, None), (None, None), (1.5, None), (math.inf, None), (math.nan, None), ("", None), ("x", None),
        ("1.0", None), (" 1", None), ("+1", None), ("\u0661", None), ("9" * 5000, None), ([1], None), ({}, None),
        ("9" * 18, 10**18 - 1), ("9" * 19, None),
    ],
    ids=repr,
)  # fmt: skip
def test_our_own_id_is_known_in_other_spellings(echoed: Any, id: Any) -> None:
    """Peers that keep ids as text or as floating-point numbers; anything else is not ours."""
    assert own_id(echoed) == id
    assert type(own_id(echoed)) in (int, type(None))


@pytest.mark.parametrize("params", [None, {}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}, {"_meta": {}}])
def test_absent_ids_and_tokens_are_none(params: Any) -> None:
    """No shape of params raises."""
    assert cancelled_request_id(params) is None
    assert progress_token(params) is None


def test_progress_must_rise() -> None:
    """Strictly; floats and negative starts are fine."""
    gate = ProgressGate()
    assert [gate.passes(value) for value in (-1, -1, 0, 0.5, 0.5, 0.25, 1, 1.0, 2**70)] == [
        True, False, True, True, False, False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_without_a_json_form_never_pass(value: float) -> None:
    """It would be written as null, which is not progress; and infinity would block all that follows."""
    gate = ProgressGate()
    assert not gate.passes(value)
    assert gate.passes(1)
    assert not gate.passes(value)
    assert gate.passes(2)


@given(st.lists(st.integers() | st.floats()))
def test_what_passes_is_strictly_rising(values: list[float]) -> None:
    """And a value above all before it always passes."""
    gate = ProgressGate()
    passed = [value for value in values if gate.passes(value)]
    assert passed == sorted(set(passed))
    finite = [value for value in values if math.isfinite(value)]
    assert (max(passed) if passed else None) == (max(finite) if finite else None)
