"""Schemas: valid, complete, and with defaults that fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.samples import codes, found, takes, tool

TEXT = {"type": "string", "description": "d"}


@pytest.mark.parametrize(
    "part",
    [{"type": "strin"}, {"type": "integer", "minimum": "1"}, {"required": True}, {"enum": "x"}, {"properties": []}],
)
def test_an_invalid_schema(part: dict[str, Any]) -> None:
    """The schema of schemas decides."""
    (finding,) = [each for each in found(takes({"a": {"description": "d", **part}})) if each.severity == "error"]
    assert finding.code == "F20"
    assert finding.path.startswith("/inputSchema/properties/a")


def test_an_output_schema_is_judged_too() -> None:
    """A client refuses results by it."""
    assert codes(tool(outputSchema={"type": "objct"})) == ["F20"]
    assert codes(tool(outputSchema={"type": "array", "items": {"type": "string"}})) == []
    assert codes(tool(outputSchema=[])) == ["F20"]


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-07/schema#", "https://nowhere.example/schema"])
def test_other_dialects(dialect: str) -> None:
    """A known one is judged by its own schema; of an unknown one nothing is fetched."""
    assert codes(takes({"a": TEXT}, **{"$schema": dialect})) == []


@pytest.mark.parametrize("schema", [{"type": "array", "items": {}}, {}, {"properties": {}}])
def test_the_root_of_an_input_schema(schema: dict[str, Any]) -> None:
    """It is of type object in every revision."""
    assert "F21" in codes(tool(inputSchema=schema))


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#/$defs/Row", []),
        ("#", []),
        ("#/properties/b", []),
        ("#/$defs/Gone", ["F22"]),
        ("https://example.com/row.json", ["F22"]),
        ("#anchor", []),
    ],
)
def test_references(reference: str, expected: list[str]) -> None:
    """What cannot be judged, an anchor, is not."""
    schema = takes({"a": {"$ref": reference}, "b": TEXT}, **{"$defs": {"Row": {"type": "string"}}})
    assert [code for code in codes(schema) if code == "F22"] == expected


def test_a_required_parameter_that_is_not_described() -> None:
    """A misspelt name."""
    assert codes(takes({"a": TEXT}, required=["b"])) == ["F23"]


@pytest.mark.parametrize(
    ("part", "expected"), [({"description": "d"}, ["F24"]), ({"anyOf": [TEXT]}, ["F15"]), (True, ["F15", "F24"])]
)
def test_a_parameter_of_any_type(part: Any, expected: list[str]) -> None:
    """A union says a type."""
    assert codes(takes({"a": part})) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "integer", "default": "1"}, ["F25"]),
        ({"type": "string", "default": None}, ["F25"]),
        ({"type": "integer", "default": 1}, []),
        ({"enum": ["a"], "default": "b"}, ["F25"]),
        ({"$ref": "#/$defs/Row", "default": "x"}, []),
        ({"$ref": "#/$defs/Row", "default": 1}, ["F25"]),
    ],
)
def test_defaults(part: dict[str, Any], expected: list[str]) -> None:
    """A model repeats a default."""
    schema = takes({"a": {"description": "d", **part}}, **{"$defs": {"Row": {"type": "string"}}})
    assert [code for code in codes(schema) if code == "F25"] == expected


def test_a_malformed_header_annotation() -> None:
    """Clients of the modern era drop the tool."""
    assert codes(takes({"a": {**TEXT, "x-mcp-header": "Region"}})) == []
    assert codes(takes({"a": {**TEXT, "x-mcp-header": "no token"}})) == ["F26"]


def test_a_malformed_template() -> None:
    """RFC 6570."""
    assert codes(templates=[{"uriTemplate": "memo://{day", "description": "d"}]) == ["F27"]


def test_a_schema_without_end_is_judged_in_bounded_time() -> None:
    """A schema that contains itself, and one that is nested deep."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    assert "F20" not in codes(takes({"a": {"$ref": "#", "description": "d"}, "b": {"description": "d", **deep}}))
