"""ferrule.wire.types: cursors, hints, numbers and the envelope of requests."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError


def test_an_empty_cursor_is_a_cursor() -> None:
    """2026-07-28: `""` is a valid cursor and not the end of the list."""
    assert convert({"cursor": ""}, t.PaginatedRequestParams).cursor == ""
    assert decode(encode(t.ListToolsResult([], next_cursor=""))) == {"tools": [], "nextCursor": ""}


def test_zero_is_a_cache_hint() -> None:
    """0 means stale; absence means no hint."""
    assert decode(encode(t.ListToolsResult([], ttl_ms=0, cache_scope="private"))) == {
        "tools": [],
        "ttlMs": 0,
        "cacheScope": "private",
    }


@pytest.mark.parametrize(
    ("type_", "wire", "field"),
    [
        (t.ListResourcesResult, {"resources": [{"uri": "a:b", "name": "n", "size": 1.0}]}, "resources"),
        (t.ListToolsResult, {"tools": [], "ttlMs": 1.0}, "tools"),
        (t.ToolResult, {"content": [{"type": "resource_link", "uri": "a:b", "name": "n", "size": 1.0}]}, "content"),
        (t.CompleteResult, {"completion": {"values": [], "total": 1.0}}, "completion"),
    ],
)
def test_an_integer_may_be_written_as_a_float(type_: Any, wire: Any, field: str) -> None:
    """`1.0` is an integer to JSON Schema and to JavaScript, and peers without integers write it so."""
    written = decode(encode(convert(wire, type_)))
    assert written[field] == wire[field]
    assert "1.0" not in str(written)


def test_a_fraction_is_no_integer_and_content_keeps_its_floats() -> None:
    """Only the library's own integers are read so: what a tool answered stays as it is."""
    with pytest.raises(ConvertError, match="size"):
        convert({"resources": [{"uri": "a:b", "name": "n", "size": 1.5}]}, t.ListResourcesResult)
    block = {"type": "resource_link", "uri": "a:b", "name": "n", "size": 1.0}
    read = convert({"content": [block], "structuredContent": {"x": 1.0}, "_meta": {"y": 1.0}}, t.ToolResult)
    assert type(read.structured_content["x"]) is float
    assert read.meta is not None
    assert type(read.meta["y"]) is float


@pytest.mark.parametrize("wire", [1, 2.5, 10**20])
def test_numbers_keep_their_kind(wire: Any) -> None:
    """50 must not come back as 50.0."""
    params = convert({"progressToken": "t", "progress": wire}, t.ProgressNotificationParams)
    assert type(params.progress) is type(wire)
    assert params.progress == wire


@pytest.mark.parametrize("priority", [-1, 2, 1.5])
def test_a_priority_is_between_0_and_1(priority: float) -> None:
    """By the schema; hosts sort by it."""
    with pytest.raises(ConvertError) as caught:
        convert({"priority": priority}, t.Annotations)
    assert caught.value.path == "$.priority"


def test_the_envelope_is_read_and_written_by_name() -> None:
    """The keys of the modern `_meta` are long; their Python names are not."""
    meta = t.RequestMetaObject(protocol_version="2026-07-28", client_capabilities={}, progress_token=1)
    assert meta == {
        t.META_PROTOCOL_VERSION: "2026-07-28",
        t.META_CLIENT_CAPABILITIES: {},
        t.META_PROGRESS_TOKEN: 1,
    }


def test_every_public_name_is_defined_once() -> None:
    """`ferrule.types` is the union of the chapters, without a name twice."""
    assert len(set(t.__all__)) == len(t.__all__)
    assert all(hasattr(t, name) for name in t.__all__)


@pytest.mark.parametrize(
    "type_",
    [
        t.CacheableResult,
        t.CreateMessageRequestParams,
        t.CreateMessageResult,
        t.DetailedTask,
        t.ElicitRequestParams,
        t.EmptyResult,
        t.InputRequiredResult,
        t.InputResponseRequestParams,
        t.NotificationParams,
        t.PaginatedRequestParams,
        t.PaginatedResult,
        t.RequestParams,
        t.Result,
        t.TaskNotificationParams,
        t.TaskStatusNotificationParams,
    ],
)
def test_types_whose_fields_have_no_obvious_order_take_them_by_name(type_: Any) -> None:
    """A field that a revision adds must not change what the position of another one means."""
    with pytest.raises(TypeError, match="positional"):
        type_(None)
