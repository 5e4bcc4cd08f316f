"""What of inbound classification the seed names do not cover: how a modern request is recognised."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.protocol.inbound import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    NAME_PARAMS,
    PROTOCOL_VERSION_KEY,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    has_modern_envelope,
    http_status,
)
from ferrule.types import LATEST_MODERN_VERSION


@pytest.mark.parametrize("key", [PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY])
@pytest.mark.parametrize("value", [None, "x", {}, 0])
def test_one_key_of_the_envelope_makes_a_request_modern(key: str, value: Any) -> None:
    """An incomplete envelope is explained by the ladder instead of being taken for a legacy request."""
    assert has_modern_envelope({"_meta": {key: value}})


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        "x",
        {},
        {"_meta": None},
        {"_meta": []},
        {"_meta": {}},
        {"_meta": {"progressToken": 1, "traceparent": "x"}},
        {"_meta": {LOG_LEVEL_KEY: "debug"}},
        {PROTOCOL_VERSION_KEY: "x"},
    ],
)
def test_anything_else_is_not_modern(params: Any) -> None:
    """Progress tokens and trace data are of both eras."""
    assert not has_modern_envelope(params)


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_recognising_never_raises(value: Any) -> None:
    """It judges whatever stands in `params`."""
    assert has_modern_envelope(value) is False
    assert has_modern_envelope({"_meta": value}) is False


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType, UserDict])
def test_any_kind_of_mapping_is_an_object(kind: Any) -> None:
    """Callers in one process need not send exact dicts."""
    meta = kind({PROTOCOL_VERSION_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_KEY: kind({})})
    params = kind({"_meta": meta})
    assert has_modern_envelope(params)
    found = classify_inbound_request(kind({"method": "tools/list", "params": params}))
    assert found == InboundModernRoute(LATEST_MODERN_VERSION, None, kind({}))


def test_the_table_of_mirrored_names_cannot_be_changed() -> None:
    """Extensions pass their own."""
    with pytest.raises(TypeError):
        NAME_PARAMS["tasks/get"] = "taskId"  # type: ignore[index]


MODERN = {PROTOCOL_VERSION_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_KEY: {}}


def call(method: str = "tools/call", meta: Any = MODERN, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"_meta": meta, **params}}


def headers(
    method: str = "tools/call", name: str | None = None, version: str = LATEST_MODERN_VERSION
) -> dict[str, str]:
    named = {} if name is None else {"mcp-name": name}
    return {"mcp-protocol-version": version, "mcp-method": method, **named}


def refused(body: dict[str, Any], **options: Any) -> tuple[int, str]:
    found = classify_inbound_request(body, **options)
    assert isinstance(found, InboundLadderRejection)
    return found.code, found.message


@pytest.mark.parametrize("missing", [PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY])
def test_each_required_key_of_the_envelope_is_asked_for_by_its_name(missing: str) -> None:
    """The other one is not a substitute."""
    code, message = refused(call(meta={key: value for key, value in MODERN.items() if key != missing}))
    assert code == -32602
    assert message == f"params._meta must carry {missing}"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mcp-protocol-version": None}, "The MCP-Protocol-Version header is missing"),
        ({"mcp-protocol-version": "0"}, "The MCP-Protocol-Version header differs from the version in params._meta"),
        ({"mcp-protocol-version": "9"}, "The MCP-Protocol-Version header differs from the version in params._meta"),
        ({"mcp-method": None}, "The Mcp-Method header is missing"),
        ({"mcp-method": "a"}, "The Mcp-Method header differs from the method in the body"),
        ({"mcp-method": "z"}, "The Mcp-Method header differs from the method in the body"),
        ({"mcp-name": None}, "The Mcp-Name header is missing"),
        ({"mcp-name": "a"}, "The Mcp-Name header differs from params.name"),
        ({"mcp-name": "z"}, "The Mcp-Name header differs from params.name"),
        ({"mcp-name": "=?base64?YQ==?="}, "The Mcp-Name header differs from params.name"),
        ({"mcp-name": "=?base64?eg==?="}, "The Mcp-Name header differs from params.name"),
    ],
)
def test_a_header_that_contradicts_the_body_is_refused(changed: dict[str, str | None], message: str) -> None:
    """Proxies route by headers, so that both must say the same (2026-07-28, Streamable HTTP); values around the
    right one are tried on both sides."""
    sent = {**headers(name="echo"), **changed}
    found = refused(call(name="echo"), headers={key: value for key, value in sent.items() if value is not None})
    assert found == (-32020, message)


@pytest.mark.parametrize("name", ["=?base64?!!?=", "=?base64?_w==?=", "=?base64?/w==?=", "=?base64?YQ=="])
def test_a_name_that_cannot_be_decoded_is_refused(name: str) -> None:
    """The peer gets an error of headers, not an internal one."""
    code, message = refused(call(name="echo"), headers=headers(name=name))
    assert code == -32020
    assert message.startswith("The Mcp-Name header")


@pytest.mark.parametrize("name", ["echo", " echo\t", "=?base64?ZWNobw==?="])
def test_headers_that_agree_with_the_body_are_taken(name: str) -> None:
    """White space around a value belongs to HTTP, and any text may be encoded."""
    sent = {key: f" {value}\t" for key, value in headers().items()} | {"mcp-name": name}
    assert classify_inbound_request(call(name="echo"), headers=sent) == InboundModernRoute(
        LATEST_MODERN_VERSION, None, {}
    )


def test_a_method_without_a_name_needs_no_name_header() -> None:
    """Only three methods of the specification are mirrored, and those of extensions."""
    body, sent = call("tasks/get", taskId="t"), headers("tasks/get")
    assert isinstance(classify_inbound_request(body, headers=sent), InboundModernRoute)
    assert refused(body, headers=sent, name_params={"tasks/get": "taskId"})[1] == "The Mcp-Name header is missing"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (-32700, 400), (-32600, 400), (-32602, 400), (-32020, 400), (-32021, 400), (-32022, 400), (-32601, 404),
        (-32603, 200), (-32000, 200), (1, 200),
    ],
)  # fmt: skip
def test_the_status_of_a_modern_error_is_that_of_the_specification(code: int, status: int) -> None:
    """2026-07-28, Streamable HTTP: what is not prescribed is the caller's default."""
    assert http_status(code) == status
    assert http_status(code, 500) == (500 if status == 200 else status)
