"""ferrule.wire.types: results that ask for input."""

from __future__ import annotations

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError


def test_input_requests_are_read_by_their_method() -> None:
    """The three input requests have no frame of their own."""
    wire = {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "elicitation/create", "params": {"message": "?", "mode": "url", "url": "https://e.org"}},
            "b": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
            "c": {"method": "roots/list"},
        },
    }
    result = convert(wire, t.InputRequiredResult)
    assert result.input_requests is not None
    assert [type(q) for q in result.input_requests.values()] == [
        t.ElicitRequest,
        t.CreateMessageRequest,
        t.ListRootsRequest,
    ]
    assert result.input_requests["a"].method == "elicitation/create"
    assert decode(encode(result)) == wire
    with pytest.raises(ConvertError):
        convert({"resultType": "input_required", "inputRequests": {"a": {"method": "x"}}}, t.InputRequiredResult)


def test_an_input_required_result_has_requests_or_a_state() -> None:
    """2026-07-28: at least one of the two, else the client would repeat the same request for ever."""
    assert t.InputRequiredResult(request_state="s").result_type == "input_required"
    with pytest.raises(ValueError, match="requestState"):
        t.InputRequiredResult()
