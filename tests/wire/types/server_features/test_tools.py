"""Tools and their results."""

from __future__ import annotations

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError


def test_schemas_are_plain_json_schema_documents() -> None:
    """No model of JSON Schema stands between: every keyword passes, known or not."""
    wire = {
        "name": "n",
        "inputSchema": {"type": "object", "$defs": {"A": {"x-y": 1}}, "allOf": [True]},
        "outputSchema": {"type": ["array", "null"]},
    }
    tool = convert(wire, t.Tool)
    assert type(tool.input_schema) is dict
    assert decode(encode(tool)) == wire


@pytest.mark.parametrize("schema", [None, [], "object", True])
def test_an_input_schema_is_an_object(schema: object) -> None:
    """2025-11-25 on: never null, always an object."""
    with pytest.raises(ConvertError) as caught:
        convert({"tools": [{"name": "n", "inputSchema": schema}]}, t.ListToolsResult)
    assert caught.value.path == "$.tools[0].inputSchema"


def test_unknown_hints_are_kept() -> None:
    """The hint bundle grows from revision to revision."""
    wire = {"name": "n", "inputSchema": {}, "annotations": {"readOnlyHint": True, "costHint": 3}}
    tool = convert(wire, t.Tool)
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True
    assert tool.annotations.destructive_hint is None
    assert decode(encode(tool)) == wire


def test_structured_content_null_is_an_answer_and_absent_is_none() -> None:
    """2026-07-28 allows any JSON value, null included."""
    assert convert({"content": []}, t.ToolResult).structured_content is t.UNSET
    assert convert({"content": [], "structuredContent": None}, t.ToolResult).structured_content is None
    assert decode(encode(t.ToolResult([], None))) == {"content": [], "structuredContent": None}
    assert decode(encode(t.ToolResult([]))) == {"content": []}


def test_an_explicit_false_is_written() -> None:
    """What a peer said is not what it left out."""
    assert decode(encode(t.ToolResult([], is_error=False))) == {"content": [], "isError": False}


def test_the_official_name_is_the_same_type() -> None:
    """The schema says CallToolResult."""
    assert t.CallToolResult is t.ToolResult


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ({}, "$"),
        ({"name": 1}, "$.name"),
        ({"name": "n", "arguments": [1]}, "$.arguments"),
        ({"name": "n", "_meta": "x"}, "$._meta"),
        ({"name": "n", "requestState": 1}, "$.requestState"),
        ({"name": "n", "inputResponses": {"k": 1}}, "$.inputResponses[...]"),
    ],
)
def test_malformed_call_params_are_refused_with_a_path(wire: dict[str, object], path: str) -> None:
    """This becomes the -32602 that a client's author has to understand."""
    with pytest.raises(ConvertError) as caught:
        convert(wire, t.CallToolRequestParams)
    assert caught.value.path == path
