"""JSON-RPC messages: shapes, invariants, and the one classifier."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.codec import Encoded, decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.jsonrpc import (
    InvalidMessage,
    JsonRpcError,
    JsonRpcErrorCode,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    decode_message,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    message_kind,
    parse_message,
    readable_id,
    shown_text,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)

NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text() | JSON,
        "method": st.text(min_size=1) | JSON,
        "params": st.dictionaries(st.text(), JSON, max_size=2) | JSON,
        "result": JSON,
        "error": st.fixed_dictionaries({"code": st.integers(), "message": st.text()}) | JSON,
    },
)
"""Values that are messages, or almost."""


def message(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


# -- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (message(id=1, method="a"), JsonRpcRequest(1, "a")),
        (message(id="1", method="a", params={}), JsonRpcRequest("1", "a", {})),
        (message(id="", method="a", params=None), JsonRpcRequest("", "a")),
        (message(id=0, method="a", params={"b": [1]}), JsonRpcRequest(0, "a", {"b": [1]})),
        (message(id=-(2**70), method="a"), JsonRpcRequest(-(2**70), "a")),
        (message(method="a"), JsonRpcNotification("a")),
        (message(method="a", params={"b": 1}), JsonRpcNotification("a", {"b": 1})),
        (message(id=1, result={}), JsonRpcResponse(1, {})),
        (message(id=1, result=None), JsonRpcResponse(1, None)),
        (message(id="x", error={"code": 1, "message": "m"}), JsonRpcResponse("x", error=JsonRpcError(1, "m"))),
        (
            message(id=None, error={"code": -32700, "message": "m", "data": None}),
            JsonRpcResponse(None, error=JsonRpcError(-32700, "m", None)),
        ),
        (message(error={"code": 7, "message": "m"}), JsonRpcResponse(None, error=JsonRpcError(7, "m"))),
        (message(id=1, method="a", surprise=True), JsonRpcRequest(1, "a")),
    ],
)
def test_messages_are_classified_by_shape(payload: dict[str, Any], expected: Any) -> None:
    """The mapping and the bytes have one classifier; unknown members are ignored."""
    assert parse_message(payload) == expected
    assert type(parse_message(payload)) is type(expected)
    assert decode_message(json.dumps(payload)) == expected


REFUSED = [
    ([], None, -32600),
    ([message(id=1, method="a")], None, -32600),
    (None, None, -32600),
    ("text", None, -32600),
    (1, None, -32600),
    ({}, None, -32600),
    (message(), None, -32600),
    (message(id=99), 99, -32600),
    ({"id": 99, "method": "a"}, 99, -32600),
    ({"jsonrpc": "1.0", "id": "x", "method": "a"}, "x", -32600),
    ({"jsonrpc": 2.0, "id": "x", "method": "a"}, "x", -32600),
    (message(id=1, method=""), 1, -32600),
    (message(id=1, method=5), 1, -32600),
    (message(id=1, method=None), 1, -32600),
    (message(id=None, method="a"), None, -32600),
    (message(id=1.0, method="a"), None, -32600),
    (message(id=1.5, method="a"), None, -32600),
    (message(id=True, method="a"), None, -32600),
    (message(id={}, method="a"), None, -32600),
    (message(id=[1], method="a"), None, -32600),
    (message(id=1, method="a", params=[]), 1, -32602),
    (message(id=1, method="a", params="x"), 1, -32602),
    (message(id=1, method="a", params=0), 1, -32602),
    (message(id=1, method="a", params=False), 1, -32602),
]


@pytest.mark.parametrize(("payload", "id", "code"), REFUSED, ids=[json.dumps(row[0]) for row in REFUSED])
def test_an_invalid_message_has_the_error_to_send(payload: Any, id: Any, code: int) -> None:
    """The id is echoed where one can be read, so that the peer's request does not wait for ever."""
    with pytest.raises(InvalidMessage) as caught:
        message_kind(payload)
    assert (caught.value.id, caught.value.code) == (id, code)
    assert caught.value.wants_answer
    with pytest.raises(ValueError):
        parse_message(payload)
    with pytest.raises(InvalidMessage):
        decode_message(encode(payload))


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (message(id=1, result={}, error=None), message(id=1, result={})),
        (message(id=1, result=None, error=None), message(id=1, result=None)),
        (
            message(id=1, result=None, error={"code": -1.0, "message": "m"}),
            message(id=1, error={"code": -1, "message": "m"}),
        ),
        (message(id=1.0, result={}), message(id=1.0, result={})),
    ],
)
def test_harmless_forms_of_a_response_are_set_right(payload: Any, expected: Any) -> None:
    """Peers that write every member of their type, or that have no integers; other libraries take them."""
    assert message_kind(payload) == "response"
    assert payload == expected
    assert type(parse_message(payload).id) is int  # type: ignore[union-attr]


UNANSWERABLE = [
    message(id=1, result={}, error={"code": 1, "message": "m"}),
    {"id": 1, "result": {}},
    message(id=1, error={"code": "1", "message": "m"}),
    message(id=1, error={"code": True, "message": "m"}),
    message(id=1, error={"code": 1.5, "message": "m"}),
    message(id=1, error={"code": 1}),
    message(id=1, error=None),
    message(id=1, error="text"),
    message(id=True, result={}),
    message(id=None, result={}),
    message(result={}),
    message(id=1.5, result={}),
    message(method="a", params=[]),
    {"method": "a"},
]


@pytest.mark.parametrize("payload", UNANSWERABLE, ids=json.dumps)
def test_malformed_responses_and_notifications_get_no_response(payload: Any) -> None:
    """An error under a response's id would be taken for the answer to the peer's own request of that id."""
    with pytest.raises(InvalidMessage) as caught:
        message_kind(payload)
    assert not caught.value.wants_answer


def test_bytes_that_are_no_json_are_another_fault() -> None:
    """-32700 against -32600."""
    with pytest.raises(DecodeError):
        decode_message(b"{")


@given(JSON | NEARLY)
def test_the_classifier_raises_one_error_only(payload: Any) -> None:
    """Whatever a peer sends, the reading loop catches one type; and parsing agrees with classifying."""
    refusal: InvalidMessage | None = None
    kind = "none"
    try:
        kind = message_kind(payload)
    except InvalidMessage as error:
        refusal = error
    if refusal is not None:
        assert refusal.code in (-32600, -32602)
        assert refusal.id is None or type(refusal.id) is int or type(refusal.id) is str
        with pytest.raises(InvalidMessage):
            parse_message(payload)
        return
    expected = {"request": JsonRpcRequest, "notification": JsonRpcNotification, "response": JsonRpcResponse}[kind]
    parsed = parse_message(payload)
    assert type(parsed) is expected
    assert parse_message(decode(encode(parsed))) == parsed


@pytest.mark.parametrize(
    ("payload", "id"),
    [
        ({"id": 1}, 1),
        ({"id": "a"}, "a"),
        ({"id": True}, None),
        ({"id": 1.0}, None),
        ({"id": None}, None),
        ({}, None),
        ([{"id": 1}], None),
        (None, None),
    ],
)
def test_only_a_real_id_is_echoed(payload: Any, id: Any) -> None:
    """`true` and `1.0` equal 1 in Python and are not ids on the wire."""
    found = readable_id(payload)
    assert found == id
    assert type(found) is type(id)


# -- invariants -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [None, True, 1.0, {}, b"1"])
def test_a_request_refuses_a_bad_id_at_construction(id: Any) -> None:
    """Never null, float, bool or object."""
    with pytest.raises(TypeError):
        JsonRpcRequest(id, "a")


def test_a_response_has_exactly_one_of_result_and_error() -> None:
    """Enforced where it is made, so that it cannot be sent; a null result is a result."""
    error = JsonRpcError(1, "m")
    with pytest.raises(ValueError):
        JsonRpcResponse(1)
    with pytest.raises(ValueError):
        JsonRpcResponse(1, {}, error)
    with pytest.raises(ValueError):
        JsonRpcResponse(1, None, error)
    with pytest.raises(ValueError):
        dataclasses.replace(JsonRpcResponse(1, {}), error=error)
    assert JsonRpcResponse(1, None).result is None


def test_a_result_needs_an_id_and_an_error_does_not() -> None:
    """A request that could not be read is answered with a null id."""
    with pytest.raises(ValueError):
        JsonRpcResponse(None, {})
    assert encode(JsonRpcResponse(None, error=JsonRpcError(-32700, "m"))) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}'
    )


def test_messages_cannot_be_changed_after_the_check() -> None:
    """An invariant that is checked at construction only could be broken later."""
    with pytest.raises(AttributeError):
        JsonRpcRequest(1, "a").id = None  # type: ignore[misc,assignment]
    with pytest.raises(AttributeError):
        JsonRpcResponse(1, {}).error = JsonRpcError(1, "m")  # type: ignore[misc]


@pytest.mark.parametrize("kind", [JsonRpcRequest, JsonRpcNotification, JsonRpcResponse, JsonRpcError])
def test_the_dataclasses_functions_work(kind: Any) -> None:
    """The founding text calls them dataclasses."""
    assert [field.name for field in dataclasses.fields(kind)]
    assert dataclasses.is_dataclass(kind)


def test_replace_and_asdict_work_on_messages() -> None:
    """What middleware and tests do with dataclasses."""
    request = JsonRpcRequest(1, "a", {"b": 1})
    assert dataclasses.replace(request, id=2) == JsonRpcRequest(2, "a", {"b": 1})
    assert dataclasses.asdict(request) == {"id": 1, "method": "a", "params": {"b": 1}}
    match request:
        case JsonRpcRequest(id=1, method=method):
            assert method == "a"
        case _:
            pytest.fail("no pattern matched")


# -- errors -----------------------------------------------------------------------------------------------------------


def test_any_integer_code_survives_a_round_trip() -> None:
    """Peers have codes of their own; data absent and data null are different."""
    for error in (JsonRpcError(-1, "m"), JsonRpcError(2**40, "m", None), JsonRpcError(-32002, "m", {"uri": "x"})):
        found = decode_message(encode_error("x", error))
        assert isinstance(found, JsonRpcResponse)
        assert found.error is not None
        assert found.error == error
        assert type(found.error.code) is int
    assert b"data" not in encode_error(1, JsonRpcError(1, "m"))
    assert b'"data":null' in encode_error(1, JsonRpcError(1, "m", None))


def test_the_codes_are_the_specifications() -> None:
    """Five of JSON-RPC and those that MCP defines, and none beside them."""
    assert {code.name: int(code) for code in JsonRpcErrorCode} == {
        "PARSE_ERROR": -32700,
        "INVALID_REQUEST": -32600,
        "METHOD_NOT_FOUND": -32601,
        "INVALID_PARAMS": -32602,
        "INTERNAL_ERROR": -32603,
        "RESOURCE_NOT_FOUND": -32002,
        "HEADER_MISMATCH": -32020,
        "MISSING_REQUIRED_CLIENT_CAPABILITY": -32021,
        "UNSUPPORTED_PROTOCOL_VERSION": -32022,
        "URL_ELICITATION_REQUIRED": -32042,
    }


# -- writing ----------------------------------------------------------------------------------------------------------


def test_encoded_messages_read_back() -> None:
    """Params and results are written together with their envelope; absent params are not written."""
    assert decode_message(encode_request(1, "a")) == JsonRpcRequest(1, "a")
    assert b"params" not in encode_request(1, "a")
    assert decode_message(encode_request("1", "a", {"b": 1})) == JsonRpcRequest("1", "a", {"b": 1})
    assert decode_message(encode_notification("a")) == JsonRpcNotification("a")
    assert decode_message(encode_notification("a", {"b": 1})) == JsonRpcNotification("a", {"b": 1})
    assert decode_message(encode_response(1, Encoded(b'{"b":1}'))) == JsonRpcResponse(1, {"b": 1})
    assert decode_message(encode_error(None, JsonRpcError(1, "m"))) == JsonRpcResponse(None, error=JsonRpcError(1, "m"))


@pytest.mark.parametrize("typed", [JsonRpcRequest(1, "a"), JsonRpcNotification("a"), JsonRpcResponse("1", {"b": []})])
def test_typed_messages_have_their_version(typed: Any) -> None:
    """A struct that is encoded as it is must be a whole message."""
    assert decode(encode(typed))["jsonrpc"] == "2.0"
    assert decode_message(encode(typed)) == typed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tools/call", "tools/call"),
        ("größe", "größe"),
        ("", ""),
        ("a\nERROR forged", "a\\nERROR forged"),
        ("\x1b[2J", "\\x1b[2J"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        ("\n" * 300, "\\n" * 200 + "…"),
    ],
)
def test_a_text_of_a_peer_is_one_short_line_in_the_log(text: str, shown: str) -> None:
    assert shown_text(text) == shown
