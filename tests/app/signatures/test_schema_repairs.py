"""ferrule.app.signatures.schema_repairs: what a model means by an argument that does not fit an author's schema."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, MCPServer
from ferrule.app.signatures.schema_repairs import repaired
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "integer"}},
        "filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}]},
        "count": {"type": "integer"},
        "exact": {"type": "boolean"},
        "size": {"enum": [1, 2, 3]},
        "text": {"type": "string"},
        "either": {"type": ["string", "array"]},
        "any": {},
        "loop": {"$ref": "#/$defs/Loop"},
        "needed": {"type": "integer"},
    },
    "required": ["needed"],
    "$defs": {"Filter": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}},
}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"tags": "[1, 2]"}, {"tags": [1, 2]}),
        ({"filter": '{"a": 1}'}, {"filter": {"a": 1}}),
        ({"filter": "null"}, {"filter": None}),
        ({"count": "5"}, {"count": 5}),
        ({"count": "5.0"}, {"count": 5.0}),
        ({"exact": "true"}, {"exact": True}),
        ({"size": "2"}, {"size": 2}),
        ({"tags": None, "count": 1}, {"count": 1}),
        ({"text": None}, {}),
    ],
)
def test_what_can_mean_one_value_only_is_that_value(given: dict[str, Any], made: dict[str, Any]) -> None:
    before = dict(given)
    assert repaired(given, SCHEMA) == made
    assert given == before


@pytest.mark.parametrize(
    "given",
    [
        {"tags": "1, 2"},
        {"tags": '{"a": 1}'},
        {"tags": "[1,"},
        {"tags": "[" * 200_000},
        {"count": "five"},
        {"exact": "True"},
        {"text": "[1]"},
        {"either": "[1]"},
        {"any": "[1]"},
        {"any": None},
        {"loop": "{}"},
        {"filter": None},
        {"needed": None},
        {"unknown": "[1]"},
        {"count": 1.5},
    ],
)
def test_anything_else_stays_as_it_came(given: dict[str, Any]) -> None:
    """Text where text is allowed above all: it may be JSON by intention."""
    assert repaired(given, SCHEMA) is given


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": 7}, {"properties": {"a": True}}])
def test_a_schema_without_members_repairs_nothing(schema: dict[str, Any]) -> None:
    given = {"a": "[1]"}
    assert repaired(given, schema) is given


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]])
async def test_a_tool_with_a_schema_of_its_own_gets_what_was_meant(mode: str) -> None:
    """What is still wrong is described by its place."""
    app = MCPServer("x")

    def show(**arguments: Any) -> Any:
        return arguments

    app.add_tool(show, name="show", input_schema=SCHEMA)
    async with Client(app, mode=mode) as client:
        good = await client.call_tool("show", {"needed": "7", "tags": "[1]", "text": None, "either": "[1]"})
        assert good.structured_content == {"needed": 7, "tags": [1], "either": "[1]"}
        bad = await client.call_tool("show", {"needed": "7", "tags": '["a"]'})
    assert bad.is_error
    assert "`tags[0]`" in bad.text


@pytest.mark.anyio
async def test_arguments_that_decide_the_scopes_are_repaired_too() -> None:
    """The function of ``scopes=`` judges what is repaired; see ``tests/app/authorization/test_guards.py``."""
    app = MCPServer("x")

    def needed(principal: Any, arguments: dict[str, Any]) -> list[str]:
        return ["admin"] if arguments.get("exact") is True else []

    def show(**arguments: Any) -> Any:
        return arguments

    app.add_tool(show, name="show", input_schema=SCHEMA, scopes=needed)
    async with Client(app) as client:
        result = await client.call_tool("show", {"needed": 7, "exact": "true"})
    assert result.structured_content == {"needed": 7, "exact": True}
