"""Answers to plain calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET

from ferrule.wire.nesting import MAX_DEPTH
from ferrule.wire.plain_answers import decode_plain_answer, plain_result
from ferrule.wire.types import ToolResult


def answer_with(result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()


def result_of(data: bytes) -> ToolResult | None:
    return plain_result(decode_plain_answer(data), data)


def test_an_answer_with_only_content_is_a_result_with_nothing_else() -> None:
    """The other members are absent: structured content may be ``null``, and older revisions have no result type."""
    result = result_of(answer_with({"content": [{"type": "text", "text": "hi"}]}))
    assert result is not None
    assert [(block.type, block.text) for block in result.content] == [("text", "hi")]
    assert result.structured_content is UNSET
    assert (result.is_error, result.result_type, result.meta) == (None, None, None)


def test_every_member_of_a_final_result_is_kept() -> None:
    """A caller gets the same from both paths."""
    members = {"content": [], "structuredContent": None, "isError": True, "resultType": "complete", "_meta": {"x": 1}}
    result = result_of(answer_with(members))
    assert result is not None
    assert result.structured_content is None
    assert (result.is_error, result.result_type, result.meta) == (True, "complete", {"x": 1})


@pytest.mark.parametrize(
    "result", [{}, {"content": [], "resultType": "input_required"}, {"content": [], "ttlMs": 1}, {"content": {}}]
)
def test_what_is_no_final_result_of_a_tool_is_not_plain(result: dict[str, Any]) -> None:
    """The general path reads it."""
    with pytest.raises(Exception, match=r"Invalid|Expected|missing|unknown"):
        decode_plain_answer(answer_with(result))


def test_an_answer_that_may_be_too_deep_is_left_to_the_general_path() -> None:
    """It counts exactly."""
    nested: Any = 1
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert result_of(answer_with({"content": [], "structuredContent": nested})) is None
