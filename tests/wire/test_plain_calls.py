"""The envelope of plain calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.plain_calls import (
    ABSENT,
    ANSWER_HEAD,
    cut_answer,
    decode_plain_call,
    without_progress_token,
)

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add"}}


def test_a_plain_call_is_read_with_its_members_as_bytes() -> None:
    """Arguments and ``_meta`` are decoded later, to their types."""
    call = decode_plain_call(json.dumps({**CALL, "id": "a"}).encode())
    assert (call.id, call.params.name) == ("a", "add")
    assert call.params.arguments is ABSENT
    assert call.params.meta is ABSENT
    params = {"name": "add", "arguments": {"a": 1}, "_meta": {"x": [2]}}
    call = decode_plain_call(json.dumps({**CALL, "params": params}).encode())
    assert (json.loads(bytes(call.params.arguments)), json.loads(bytes(call.params.meta))) == ({"a": 1}, {"x": [2]})


@pytest.mark.parametrize(
    "changed",
    [
        {"jsonrpc": "1.0"},
        {"id": None},
        {"id": 1.5},
        {"method": "tools/list"},
        {"params": {}},
        {"params": {"name": 1}},
        {"params": {"name": "add", "task": {}}},
        {"extra": 1},
    ],
)
def test_what_has_another_member_or_type_is_no_plain_call(changed: dict[str, Any]) -> None:
    """The general path reads it, or reports its error."""
    with pytest.raises(Exception, match=r"Invalid|Expected|missing|unknown"):
        decode_plain_call(json.dumps({**CALL, **changed}).encode())


def test_an_answer_is_cut_where_marks_stand() -> None:
    """What stands between the pieces is put in for each call."""
    head, middle, tail = cut_answer({"a": 111, "b": "one"}, b"111", b'"one"')
    assert json.loads(ANSWER_HEAD + b"7" + head + b"2" + middle + b"[]" + tail) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {"a": 2, "b": []},
    }
    assert [len(cut_answer(result, b"111")) for result in ({}, {"a": 111}, {"a": 111, "b": 111})] == [1, 2, 3]


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text(max_size=5) | st.just(',"progressToken":7}'),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "progressToken"]), inner),
    max_leaves=5,
)


def test_the_rest_of_meta_is_the_same_for_every_request_of_a_client() -> None:
    """Clients number their requests and use the number as the token."""
    assert without_progress_token(b'{"a":{"b":1},"progressToken":12}') == b'{"a":{"b":1}}'
    assert without_progress_token(b'{"progressToken":0}') == b"{}"


@pytest.mark.parametrize(
    "meta",
    [
        b'{"progressToken":"text"}',
        b'{"progressToken":1.5}',
        b'{"progressToken":01}',
        b'{"progressToken":-1}',
        b'{"progressToken":1234567890123456}',
        b'{"a":{"progressToken":1}}',
        b'{"a" "progressToken":1}',
        b'{"progressToken":1,"a":2}',
        b"{}",
    ],
)
def test_any_other_meta_stays_as_it_is(meta: bytes) -> None:
    """The general path judges the token."""
    assert without_progress_token(meta) == meta


@given(st.dictionaries(st.text(max_size=3) | st.just("progressToken"), VALUES, max_size=3))
def test_nothing_but_the_token_is_taken_out(meta: dict[str, Any]) -> None:
    """Whatever else ``_meta`` holds."""
    data = json.dumps(meta, separators=(",", ":")).encode()
    rest = json.loads(without_progress_token(data))
    assert rest in (meta, {key: value for key, value in meta.items() if key != "progressToken"})
