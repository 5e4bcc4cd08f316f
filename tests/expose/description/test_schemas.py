"""Schemas of OpenAPI as JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from ferrule.expose.description.bounds import complete
from ferrule.expose.description.references import References, UnresolvedReference
from ferrule.expose.description.schemas import SchemaConverter


def convert(
    raw: Any, *, schemas: dict[str, Any] | None = None, version: str = "3.1", direction: Any = "input"
) -> tuple[Any, list[str]]:
    """Return the converted schema with its definitions, and what was repaired."""
    document = {"components": {"schemas": schemas or {}}}
    converter = SchemaConverter(References(document), has_nullable=version == "3.0", direction=direction)
    notes: list[str] = []
    schema, used = converter.convert(raw, "", notes)
    if isinstance(schema, dict):
        schema = complete(schema, used, converter, 100_000, notes)
    if isinstance(schema, dict):
        jsonschema_rs.validator_for(schema)
    return schema, notes


def definitions(converter: SchemaConverter, used: list[str], notes: list[str]) -> dict[str, Any]:
    """Return the ``$defs`` of a schema that uses these definitions."""
    return complete({}, used, converter, 100_000, notes).get("$defs", {})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 3}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": False}, {"type": "integer", "minimum": 3}),
        ({"type": "integer", "maximum": 3, "exclusiveMaximum": True}, {"type": "integer", "exclusiveMaximum": 3}),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
        (
            {"oneOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
    ],
)
def test_keywords_of_3_0_get_the_form_of_2020_12(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    assert convert(raw, version="3.0")[0] == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"type": "object", "required": []}, {"type": "object"}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "str"}, {"type": "string"}),
        ({"type": "datetime", "required": True}, {"type": "string"}),
        ({"type": "unheard-of"}, {}),
        ({"type": "string", "minLength": "3"}, {"type": "string"}),
        ({"type": "number", "minimum": "3"}, {"type": "number", "minimum": 3}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}),
        ({"type": "object", "properties": []}, {"type": "object"}),
        ({"allOf": []}, {}),
        ({"type": "string", "enum": ["a", "a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "string", "x-mcp-header": "X", "xml": {}, "externalDocs": {}}, {"type": "string"}),
        ({"properties": {"a": None}}, {"properties": {"a": True}}),
        ({"type": "number", "minimum": float("inf")}, {"type": "number"}),
        ({"type": "integer", "minimum": 10**400}, {"type": "integer", "minimum": 10**400}),  # no float, but a number
    ],
)
def test_what_is_wrong_is_repaired(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    assert convert(raw)[0] == expected


def test_a_reference_to_nothing_accepts_anything() -> None:
    schema, notes = convert({"properties": {"a": {"$ref": "#/components/schemas/Missing"}}})
    assert schema == {"properties": {"a": True}}
    assert "Missing" in notes[0]


def test_a_reference_to_another_document_is_refused() -> None:
    with pytest.raises(UnresolvedReference, match="not fetched"):
        convert({"$ref": "https://example.com/evil.json#/X"})


def test_recursive_types_stay_references() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    schema, _ = convert({"$ref": "#/components/schemas/Node"}, schemas={"Node": node, "Unused": node})
    assert schema == {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    }


def test_two_types_that_contain_each_other_are_converted_once_each() -> None:
    schemas = {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}}},
    }
    assert sorted(convert({"$ref": "#/components/schemas/B"}, schemas=schemas)[0]["$defs"]) == ["A", "B"]


def test_definitions_of_the_same_last_name_stay_apart() -> None:
    document = {
        "components": {
            "schemas": {"Pet": {"type": "object", "properties": {"a": {}}}},
            "x-other": {"Pet": {"type": "object", "properties": {"b": {}}}},
        }
    }
    converter = SchemaConverter(References(document), has_nullable=False, direction="input")
    raw = {"anyOf": [{"$ref": "#/components/schemas/Pet"}, {"$ref": "#/components/x-other/Pet"}]}
    schema, used = converter.convert(raw, "", [])
    assert schema == {"anyOf": [{"$ref": "#/$defs/Pet"}, {"$ref": "#/$defs/Pet_2"}]}
    assert definitions(converter, used, [])["Pet_2"] == {"type": "object", "properties": {"b": {}}}


@pytest.mark.parametrize(("direction", "kept"), [("input", "secret"), ("output", "id")])
def test_a_member_for_the_other_direction_is_left_out(direction: str, kept: str) -> None:
    schemas = {
        "Base": {
            "type": "object",
            "properties": {"id": {"readOnly": True}, "secret": {"writeOnly": True}},
            "required": ["id", "secret"],
        },
        "Both": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "required": ["id", "secret"]}]},
    }
    base, _ = convert({"$ref": "#/components/schemas/Base"}, schemas=schemas, direction=direction)
    shown = {"writeOnly": True} if kept == "secret" else {}
    assert base["$defs"]["Base"] == {"type": "object", "properties": {kept: shown}, "required": [kept]}
    both, _ = convert({"$ref": "#/components/schemas/Both"}, schemas=schemas, direction=direction)
    assert both["$defs"]["Both"]["allOf"][1] == {"type": "object", "required": [kept]}


def test_a_discriminated_union_says_which_value_belongs_to_which_alternative() -> None:
    schemas = {
        "Cat": {"type": "object", "properties": {"kind": {"type": "string"}, "lives": {"type": "integer"}}},
        "Dog": {"type": "object", "properties": {"kind": {"type": "string"}, "barks": {"type": "boolean"}}},
    }
    raw = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat", "dog": "Dog"}},
    }
    schema, _ = convert(raw, schemas=schemas)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"kind": "cat", "lives": 9})
    assert validator.is_valid({"kind": "dog", "barks": True})
    assert not validator.is_valid({"kind": "cow"})


def test_a_schema_that_is_nested_without_end_is_cut() -> None:
    raw: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        raw = {"type": "array", "items": raw}
    schema, notes = convert(raw)
    depth = 0
    while isinstance(schema, dict) and "items" in schema:
        schema, depth = schema["items"], depth + 1
    assert schema is True
    assert depth < 100
    assert notes


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            [{"enum": ["a", "b"], "type": "string", "description": "* a"}, {"enum": [""]}],
            {"type": "string", "enum": ["a", "b", ""], "description": "* a"},
        ),
        ([{"enum": [1]}, {"enum": [None]}], {"type": ["integer", "null"], "enum": [1, None]}),
        ([{"enum": [1]}, {"enum": [True]}], {"type": ["integer", "boolean"], "enum": [1, True]}),
        ([{"enum": ["a"]}, {"enum": ["a"]}], None),
        ([{"enum": ["a", None], "type": "string"}, {"enum": [""]}], None),
        ([{"enum": ["a"]}, {"type": "integer"}], None),
        ([{"enum": [["a"]]}, {"enum": [""]}], None),
        ([{"enum": [1.5]}, {"enum": [1]}], None),
    ],
)
def test_alternatives_that_are_enumerations_become_one(keyword: str, parts: Any, expected: Any) -> None:
    """So that an error names the values; drf-spectacular writes a choice that may be blank as alternatives."""
    found, notes = convert({keyword: parts}, version="3.0")
    assert (found, notes) == (expected or {keyword: parts}, [])
    described, _ = convert({keyword: parts, "description": "of both"}, version="3.0")
    assert described[keyword] == parts
