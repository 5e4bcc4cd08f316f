"""The named parts of inbound classification, row by row, and every rung of the ladder."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.protocol.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    http_status,
)
from ferrule.types import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from ferrule.wire.headers import encode_header_value

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INFO = "io.modelcontextprotocol/clientInfo"

ENVELOPE = {VERSION: LATEST_MODERN_VERSION, CAPABILITIES: {"sampling": {}}, INFO: {"name": "c", "version": "1"}}


def body(method: Any = "tools/list", meta: Any = ENVELOPE, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def headers(
    method: str = "tools/list", name: str | None = None, changes: dict[str, str | None] | None = None
) -> dict[str, str]:
    found: dict[str, str | None] = {
        MCP_PROTOCOL_VERSION_HEADER: LATEST_MODERN_VERSION,
        MCP_METHOD_HEADER: method,
        MCP_NAME_HEADER: name,
        **(changes or {}),
    }
    return {key: value for key, value in found.items() if value is not None}


def rejected(outcome: Any, code: int) -> InboundLadderRejection:
    assert isinstance(outcome, InboundLadderRejection), outcome
    assert outcome.code == code
    assert type(outcome.code) is int
    assert outcome.message
    return outcome


# -- the rows ---------------------------------------------------------------------------------------------------------


def test_header_names_are_canonical_lower_case() -> None:
    """ASGI hands out lower-case names; one spelling everywhere."""
    assert MCP_PROTOCOL_VERSION_HEADER == "mcp-protocol-version"
    assert MCP_METHOD_HEADER == "mcp-method"
    assert MCP_NAME_HEADER == "mcp-name"
    assert MCP_PARAM_HEADER_PREFIX == "mcp-param-"


def test_the_status_table_is_the_specified_one_and_cannot_be_changed() -> None:
    """One table for classifier errors and handler errors of modern requests."""
    expected = dict.fromkeys((-32700, -32600, -32602, -32020, -32021, -32022), 400) | {-32601: 404}
    assert dict(ERROR_CODE_HTTP_STATUS) == expected
    with pytest.raises(TypeError):
        ERROR_CODE_HTTP_STATUS[-1] = 500  # type: ignore[index]


@pytest.mark.parametrize("code", [-32603, -32002, -32042, -1, 0, 7, 500])
def test_an_unmapped_code_takes_the_callers_default(code: int) -> None:
    """An application's own error is not a transport failure."""
    assert code not in ERROR_CODE_HTTP_STATUS
    assert http_status(code) == 200
    assert http_status(code, 202) == 202
    assert http_status(-32601, 202) == 404


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (InboundModernRoute, ["protocol_version", "client_info", "client_capabilities"]),
        (InboundLadderRejection, ["code", "message", "data"]),
    ],
)
def test_outcomes_are_frozen_dataclasses(kind: Any, fields: list[str]) -> None:
    """Middleware makes changed copies with `dataclasses.replace`."""
    assert isinstance(kind, type)
    assert [field.name for field in dataclasses.fields(kind)] == fields
    made: Any = kind(*([1] * len(fields)))
    assert dataclasses.replace(made, **{fields[0]: 2}) == kind(2, *([1] * (len(fields) - 1)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, fields[0], 2)
    assert InboundLadderRejection(1, "m").data is None


def test_the_signature_is_the_listed_one() -> None:
    """Callers from the founding documents pass these by name; what is added is keyword-only with a default."""
    parameters = inspect.signature(classify_inbound_request).parameters
    assert list(parameters)[:3] == ["body", "headers", "supported_modern_versions"]
    assert parameters["body"].default is inspect.Parameter.empty
    assert parameters["headers"].default is None
    assert parameters["supported_modern_versions"].default == MODERN_PROTOCOL_VERSIONS
    for name, parameter in list(parameters.items())[1:]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name
        assert parameter.default is not inspect.Parameter.empty


# -- rung 1: the envelope ---------------------------------------------------------------------------------------------


def test_an_envelope_routes_with_its_raw_values() -> None:
    """Presence is checked, not shape."""
    route = classify_inbound_request(body())
    assert route == InboundModernRoute(LATEST_MODERN_VERSION, ENVELOPE[INFO], ENVELOPE[CAPABILITIES])
    odd = {VERSION: LATEST_MODERN_VERSION, CAPABILITIES: "odd", INFO: [1]}
    assert classify_inbound_request(body(meta=odd)) == InboundModernRoute(LATEST_MODERN_VERSION, [1], "odd")


def test_client_info_is_recommended_only() -> None:
    """The published schema says SHOULD; its absence is accepted."""
    meta = {VERSION: LATEST_MODERN_VERSION, CAPABILITIES: {}}
    assert classify_inbound_request(body(meta=meta)) == InboundModernRoute(LATEST_MODERN_VERSION, None, {})
    refusal = rejected(classify_inbound_request(body(meta=meta), require_client_info=True), -32602)
    assert INFO in refusal.message
    assert VERSION not in refusal.message
    assert isinstance(classify_inbound_request(body(), require_client_info=True), InboundModernRoute)


@pytest.mark.parametrize("missing", [{VERSION}, {CAPABILITIES}, {VERSION, CAPABILITIES}])
@pytest.mark.parametrize("with_headers", [False, True])
def test_missing_keys_are_named(missing: set[str], with_headers: bool) -> None:
    """The author of the client reads which; this rung stands before the headers."""
    meta = {key: value for key, value in ENVELOPE.items() if key not in missing}
    sent = headers(changes={MCP_PROTOCOL_VERSION_HEADER: "other"}) if with_headers else None
    refusal = rejected(classify_inbound_request(body(meta=meta), headers=sent), -32602)
    assert {key for key in ENVELOPE if key in refusal.message} == missing


@pytest.mark.parametrize(
    "request_body",
    [
        {},
        [],
        None,
        "text",
        5,
        {"method": "tools/list"},
        {"params": None},
        {"params": []},
        {"params": {}},
        {"params": {"_meta": None}},
        {"params": {"_meta": []}},
        {"params": {"_meta": {}}},
    ],
)
def test_without_an_envelope_every_required_key_is_named(request_body: Any) -> None:
    """Whatever stands in its place."""
    refusal = rejected(classify_inbound_request(request_body), -32602)
    assert VERSION in refusal.message
    assert CAPABILITIES in refusal.message
    assert INFO not in refusal.message
    assert INFO in rejected(classify_inbound_request(request_body, require_client_info=True), -32602).message


@pytest.mark.parametrize("version", [None, 20260728, 1.5, True, [], ["2026-07-28"], {}])
def test_a_version_that_is_no_text_fails_the_first_rung(version: Any) -> None:
    """It cannot be unsupported: it is not a version. (A list must not raise for being unhashable.)"""
    meta = {**ENVELOPE, VERSION: version}
    rejected(classify_inbound_request(body(meta=meta)), -32602)
    rejected(classify_inbound_request(body(meta=meta), headers=headers()), -32602)


# -- rung 2: the version header ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stated", [None, "", "2025-11-25", "2026-07-2", LATEST_MODERN_VERSION + "x"])
def test_the_version_header_must_equal_the_envelope(stated: str | None) -> None:
    """A request that contradicts itself is refused with an error that names it."""
    rejected(classify_inbound_request(body(), headers=headers(changes={MCP_PROTOCOL_VERSION_HEADER: stated})), -32020)


def test_surrounding_white_space_of_a_header_is_no_difference() -> None:
    """RFC 9110, 5.5: it is not part of the value."""
    sent = headers(
        changes={MCP_PROTOCOL_VERSION_HEADER: f" {LATEST_MODERN_VERSION}\t", MCP_METHOD_HEADER: " tools/list "}
    )
    assert isinstance(classify_inbound_request(body(), headers=sent), InboundModernRoute)


def test_the_header_rung_stands_before_the_version_rung() -> None:
    """Both fail here; the contradiction wins."""
    meta = {**ENVELOPE, VERSION: "2099-01-01"}
    rejected(classify_inbound_request(body(meta=meta), headers=headers()), -32020)


def test_without_headers_there_is_no_header_rung() -> None:
    """stdio and memory have none."""
    assert isinstance(classify_inbound_request(body("tools/call", name="x"), headers=None), InboundModernRoute)
    rejected(classify_inbound_request(body(), headers={}), -32020)


# -- rung 3: the version ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2099-01-01", "", *HANDSHAKE_PROTOCOL_VERSIONS])
@pytest.mark.parametrize("with_headers", [False, True])
def test_an_unsupported_version_says_what_is_supported(version: str, with_headers: bool) -> None:
    """The client negotiates down by it; a legacy version in an envelope is unsupported too."""
    sent = headers(changes={MCP_PROTOCOL_VERSION_HEADER: version}) if with_headers else None
    refusal = rejected(classify_inbound_request(body(meta={**ENVELOPE, VERSION: version}), headers=sent), -32022)
    assert refusal.data == {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version}


def test_the_supported_versions_are_the_callers() -> None:
    """A server may speak fewer, or one that this library does not know yet."""
    refusal = rejected(classify_inbound_request(body(), supported_modern_versions=("2030-01-01",)), -32022)
    assert refusal.data == {"supported": ["2030-01-01"], "requested": LATEST_MODERN_VERSION}
    meta = {**ENVELOPE, VERSION: "2030-01-01"}
    route = classify_inbound_request(body(meta=meta), supported_modern_versions=("2030-01-01",))
    assert isinstance(route, InboundModernRoute)


def test_the_version_rung_stands_before_the_mirror_rung() -> None:
    """A client of a newer revision mirrors other things; it must be able to negotiate down first."""
    meta = {**ENVELOPE, VERSION: "2099-01-01"}
    sent = {MCP_PROTOCOL_VERSION_HEADER: "2099-01-01"}
    rejected(classify_inbound_request(body("tools/call", meta=meta), headers=sent), -32022)


# -- rung 4: method and name (beyond) ---------------------------------------------------------------------------------

NAMED = [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")]


@pytest.mark.parametrize("stated", [None, "", "tools/call", "Tools/List", "tools/lists", "zools/list"])
def test_the_method_header_must_equal_the_method(stated: str | None) -> None:
    """Proxies route by it; it must not lie."""
    rejected(classify_inbound_request(body(), headers=headers(changes={MCP_METHOD_HEADER: stated})), -32020)


@pytest.mark.parametrize(("method", "param"), NAMED)
@pytest.mark.parametrize("value", ["plain", "with space", "ünïcode 😀", " edge ", "=?base64?x?=", "", "a/b?c=d#e"])
def test_the_name_header_is_compared_after_decoding(method: str, param: str, value: str) -> None:
    """What a header cannot carry travels in the base64 sentinel."""
    request = body(method, **{param: value})
    sent = headers(method, encode_header_value(value))
    assert isinstance(classify_inbound_request(request, headers=sent), InboundModernRoute)
    rejected(classify_inbound_request(request, headers=headers(method, encode_header_value(value + "x"))), -32020)


@pytest.mark.parametrize(("method", "param"), NAMED)
@pytest.mark.parametrize(
    "stated",
    [
        *(None, "", "other", "X", "w", "y", "xx"),
        *("=?base64?!!!?=", "=?base64?eA", "=?base64?/w==?=", "=?utf-8?q?x?=", "=?base64?dw==?=", "=?base64?eQ==?="),
    ],
)
def test_a_missing_malformed_or_unequal_name_header_is_a_mismatch(method: str, param: str, stated: str | None) -> None:
    """Always -32020, never an exception."""
    request = body(method, **{param: "x"})
    rejected(classify_inbound_request(request, headers=headers(method, stated)), -32020)


@pytest.mark.parametrize(("method", "param"), NAMED)
@pytest.mark.parametrize("value", [None, 5, True, ["x"], {"x": 1}])
def test_a_name_that_is_no_text_equals_no_header(method: str, param: str, value: Any) -> None:
    """Text of a number is not the number."""
    for stated in ("5", "True", "None", "x", None):
        rejected(classify_inbound_request(body(method, **{param: value}), headers=headers(method, stated)), -32020)


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "no/such", "completion/complete"])
def test_other_methods_need_no_name_header_and_ignore_one(method: str) -> None:
    """Whether the method exists is not a rung."""
    for name in (None, "anything", "=?base64?!!!?="):
        found = classify_inbound_request(body(method), headers=headers(method, name))
        assert isinstance(found, InboundModernRoute)


def test_an_extension_may_mirror_names_of_its_own_methods() -> None:
    """Tasks mirror their id."""
    request = body("tasks/get", taskId="t1")
    names = {"tasks/get": "taskId"}
    found = classify_inbound_request(request, headers=headers("tasks/get", "t1"), name_params=names)
    assert isinstance(found, InboundModernRoute)
    rejected(classify_inbound_request(request, headers=headers("tasks/get", "t2"), name_params=names), -32020)


# -- never raises -----------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
META = st.fixed_dictionaries(
    {},
    optional={VERSION: st.sampled_from([LATEST_MODERN_VERSION, "2025-11-25"]) | JSON, CAPABILITIES: JSON, INFO: JSON},
)
PARAMS = st.fixed_dictionaries({}, optional={"_meta": META | JSON, "name": JSON, "uri": JSON})
METHODS = st.sampled_from(["tools/call", "prompts/get", "resources/read", "ping"])
BODIES = JSON | st.fixed_dictionaries({}, optional={"method": METHODS | JSON, "params": PARAMS | JSON})
HEADERS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        MCP_PROTOCOL_VERSION_HEADER: st.just(LATEST_MODERN_VERSION) | st.text(),
        MCP_METHOD_HEADER: METHODS | st.text(),
        MCP_NAME_HEADER: st.text() | st.text().map(lambda text: f"=?base64?{text}?="),
    },
)


@given(BODIES, HEADERS, st.booleans())
def test_no_json_value_makes_the_ladder_raise(value: Any, sent: dict[str, str] | None, strict: bool) -> None:
    """It stands in front of everything; what it raised would be a dead connection."""
    found = classify_inbound_request(value, headers=sent, require_client_info=strict)
    if isinstance(found, InboundModernRoute):
        assert found.protocol_version in MODERN_PROTOCOL_VERSIONS
        meta = value["params"]["_meta"]
        assert found.client_capabilities is meta[CAPABILITIES]
        assert found.client_info is meta.get(INFO)
    else:
        assert found.code in (-32602, -32020, -32022)
        assert sent is not None or found.code != -32020


@given(JSON, JSON)
def test_presence_is_all_that_the_first_rung_asks_of_the_two_objects(capabilities: Any, info: Any) -> None:
    """Their shape is judged where they are used."""
    meta = {VERSION: LATEST_MODERN_VERSION, CAPABILITIES: capabilities, INFO: info}
    found = classify_inbound_request(body(meta=meta), require_client_info=True)
    assert isinstance(found, InboundModernRoute)
    assert found.client_capabilities is capabilities
    assert found.client_info is info
