"""Values for schemas: what is ordinary fits, and what is wrong does not."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.calls.schema_check import SchemaCheck
from ferrule.testing.calls.values import LONGEST, edge_values, plain_value, wrong_values

SCHEMAS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "minLength": 8},
    {"type": "string", "maxLength": 2},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "enum": ["b", "a"]},
    {"type": "integer", "minimum": 5, "maximum": 9},
    {"type": "integer", "exclusiveMinimum": 5},
    {"type": "integer", "minimum": 7, "multipleOf": 5},
    {"type": "number", "maximum": -3},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 5},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"$ref": "#/$defs/Row"},
    {"const": 5},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]},
]
ROOT = {"$defs": {"Row": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_an_ordinary_value_fits(schema: dict[str, Any]) -> None:
    """The validator is the judge."""
    assert SchemaCheck({**ROOT, **schema}).problem(plain_value(schema, ROOT)) is None


@pytest.mark.parametrize("schema", SCHEMAS[:13], ids=str)
def test_some_wrong_value_does_not_fit(schema: dict[str, Any]) -> None:
    """For each kind of schema there is one."""
    check = SchemaCheck({**ROOT, **schema})
    assert any(check.problem(value) is not None for value, _ in wrong_values(schema, ROOT))


def test_examples_and_defaults_come_first() -> None:
    """They are what the author of the tool means."""
    assert plain_value({"type": "string", "examples": ["x"], "default": "y"}, {}) == "x"
    assert plain_value({"type": "string", "default": "y"}, {}) == "y"


def test_sizes_are_bounded() -> None:
    """A schema may allow a text of gigabytes, and may contain itself."""
    values = [value for value, _ in edge_values({"type": "string", "maxLength": 10**9}, {})]
    assert max(map(len, values)) == LONGEST
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert plain_value(tree, tree) is not None
