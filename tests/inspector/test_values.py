"""Numbers keep their text, and a schema's problems have places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule.inspector.errors import BadCall
from ferrule.inspector.values import MAX_PROBLEMS, as_received, check_value, decode_any_number, decode_exactly
from ferrule.wire.codec import encode
from ferrule.wire.faults import DecodeError

NUMBERS = b'{"a":[1.0,1e400,0.10,0.10000000000000000555,1E2,-0.0],"b":123456789012345678901234567890}'


def test_numbers_are_written_as_they_were_read() -> None:
    """Python would write 1e400 as null, and 0.10 as 0.1."""
    assert encode(decode_exactly(NUMBERS)) == NUMBERS


def test_a_number_beyond_a_double_is_infinity() -> None:
    """The client passes it on; its text is in the message."""
    assert decode_any_number(b"[1e400,-1e400,1.5]") == [float("inf"), float("-inf"), 1.5]


def test_everything_else_is_read_as_elsewhere() -> None:
    """Lone surrogates are accepted, deep nesting and invalid text are not."""
    assert decode_exactly(rb'"\ud800"') == "\ufffd"
    for text in (b"[" * 600 + b"]" * 600, b"{", b"NaN"):
        with pytest.raises(DecodeError):
            decode_exactly(text)


def test_a_result_gets_the_text_of_its_message() -> None:
    """Member by member: what the client changed stays changed."""
    message = (
        b'{"id":1,"result":{"structuredContent":{"x":1e400},"content":[{"type":"text","text":"a","odd":1.0}],"more":1}}'
    )
    result = {"structuredContent": {"x": float("inf")}, "content": [{"type": "text", "text": "a"}]}
    found = encode(as_received(result, [b"no JSON", b'{"result":5}', message]))
    assert found == b'{"structuredContent":{"x":1e400},"content":[{"type":"text","text":"a"}]}'


def test_a_result_without_a_message_stays_as_it_is() -> None:
    """The message may be removed, or belong to another call."""
    assert as_received({"a": 1}, [b'{"result":{"a":2}}']) == {"a": 1}
    assert as_received([1], []) == [1]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}, "l": {"items": {"type": "string"}}}}


def problems(schema: Any, value: Any) -> list[dict[str, Any]]:
    """As the page gets them."""
    return check_value(decode_exactly(json.dumps({"schema": schema, "value": value}).encode()))["problems"]


def test_problems_have_their_path() -> None:
    """All of a small value, each with the names and indexes that lead to it."""
    found = problems(SCHEMA | {"required": ["q"]}, {"n": 7, "l": ["a", 5]})
    assert sorted((each["path"] for each in found), key=str) == [["l", 1], ["n"], []]
    assert problems(SCHEMA, {"n": 3}) == []


def test_the_number_and_the_length_of_problems_are_bounded() -> None:
    """A value of a page is what a server proposed."""
    found = problems({"items": {"type": "integer"}}, ["x" * 600] * 40)
    assert len(found) == MAX_PROBLEMS
    assert all(len(each["text"]) <= 501 for each in found)


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"type": 5}, {"$ref": "https://example.com/x"}, {"pattern": "("}], ids=str
)
def test_a_schema_that_cannot_be_used_is_said(schema: Any) -> None:
    """The arguments can be sent nevertheless."""
    assert [each["path"] for each in problems(schema, {})] == [None]


def test_a_schema_is_an_object() -> None:
    """Anything else is a mistake of the page."""
    with pytest.raises(BadCall):
        check_value({"schema": []})


def test_a_number_beyond_a_double_is_checked() -> None:
    """The validator has no infinity."""
    body = decode_exactly(b'{"schema":{"maximum":5},"value":1e400}')
    assert len(check_value(body)["problems"]) == 1
