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
    InboundModernRoute,
    classify_inbound_request,
    has_modern_envelope,
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
