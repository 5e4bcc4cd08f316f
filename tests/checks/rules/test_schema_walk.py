"""Every subschema is visited once, with its pointer, within bounds."""

from __future__ import annotations

from typing import Any

from ferrule.checks.rules.schema_walk import MAX_NODES, subschemas


def test_places_of_subschemas() -> None:
    """Values of enum and default are data."""
    schema = {
        "properties": {"a/b": {"type": "string"}, "c": {"items": [{"x": 1}], "default": {"type": 5}}},
        "anyOf": [{"enum": [{"type": "x"}]}, True],
        "additionalProperties": False,
        "not": {},
    }
    assert [node.path for node in subschemas(schema)] == [
        "",
        "/properties/a~1b",
        "/properties/c",
        "/properties/c/items/0",
        "/anyOf/0",
        "/not",
    ]
    assert [node.path for node in subschemas(schema) if node.is_property] == ["/properties/a~1b", "/properties/c"]


def test_number_and_depth_are_bounded() -> None:
    """A stranger chooses both."""
    wide: dict[str, Any] = {"properties": {str(at): {} for at in range(MAX_NODES + 10)}}
    assert sum(1 for _ in subschemas(wide)) == MAX_NODES
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"items": deep}
    assert sum(1 for _ in subschemas(deep)) == 101


def test_what_is_no_schema() -> None:
    """Nothing is visited."""
    assert list(subschemas([1])) == []
    assert [node.path for node in subschemas({"properties": 1, "anyOf": {}, "items": "x"})] == [""]
