"""Schemas of tools as servers send them, each with arguments that fit it: pydantic's, zod's, older drafts, mistakes."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["SCHEMAS"]


def of(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """An object."""
    made: dict[str, Any] = {"type": "object", "properties": properties, **more}
    return {**made, "required": list(required)} if required else made


TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["value"],
}
LINKED = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Linked"}, {"type": "null"}], "default": None}},
}
POINT = of({"x": {"type": "number"}, "y": {"type": "number"}}, "x", "y")

SCHEMAS: Final[dict[str, tuple[Any, list[dict[str, Any]]]]] = {
    "empty schema": ({}, [{}]),
    "no parameters": ({"type": "object"}, [{}]),
    "no parameters, closed": (of({}, additionalProperties=False), [{}]),
    "texts and numbers": (
        of({"a": {"type": "string"}, "n": {"type": "integer"}, "f": {"type": "number"}}, "a"),
        [{"a": "x"}, {"a": "", "n": 1, "f": 0.5}],
    ),
    "optional with null": (
        of({"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}),
        [{}, {"a": None}, {"a": "x"}],
    ),
    "optional without null": (
        of({"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}}),
        [{}, {"b": True}],
    ),
    "list of types": (
        of({"a": {"type": ["string", "null"]}, "b": {"type": ["string", "integer"]}}),
        [{"a": None, "b": 3}],
    ),
    "three types": (of({"v": {"type": ["string", "number", "boolean", "null"], "minLength": 1}}), [{"v": False}]),
    "const": (of({"kind": {"const": "a"}, "n": {"const": 3}}, "kind"), [{"kind": "a", "n": 3}]),
    "enum of texts": (of({"unit": {"enum": ["C", "F"]}}, "unit"), [{"unit": "C"}]),
    "enum of numbers": (of({"n": {"type": "integer", "enum": [1, 2, 3]}}), [{"n": 2}]),
    "enum of several types": (
        of({"v": {"enum": ["auto", 1, 2.5, True, None]}}),
        [{"v": "auto"}, {"v": 2.5}, {"v": None}],
    ),
    "enum of objects": (of({"v": {"enum": [{"a": 1}, {"a": 2}]}}), [{"v": {"a": 1}}]),
    "enum with an empty text": (of({"v": {"type": "string", "enum": ["", "x"]}}), [{"v": ""}]),
    "bounds of numbers": (
        of(
            {
                "n": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 3},
                "f": {"type": "number", "exclusiveMaximum": 1},
            }
        ),
        [{"n": 3, "f": 0.5}],
    ),
    "bounds of draft 4": (of({"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}), [{"n": 1}]),
    "bounds of texts": (
        of({"s": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"}}),
        [{"s": "abc"}],
    ),
    "lookaround": (of({"s": {"type": "string", "pattern": "^(?!x)"}}), [{"s": "abc"}]),
    "formats": (
        of(
            {name: {"type": "string", "format": name} for name in ("date", "date-time", "uri", "email", "uuid", "byte")}
        ),
        [{"date": "2026-01-31", "byte": "AA=="}],
    ),
    "content encoding": (
        of({"data": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}}),
        [{"data": "AA=="}],
    ),
    "array of texts": (
        of({"tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 4, "uniqueItems": True}}),
        [{"tags": ["a"]}],
    ),
    "array without items": (of({"list": {"type": "array"}}), [{"list": [1, "a", None]}]),
    "tuple": (
        of({"pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}}),
        [{"pair": [1, "a"]}],
    ),
    "tuple of draft 7": (
        of({"pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}}),
        [{"pair": [1, "a"]}],
    ),
    "tuple with a rest": (
        of({"row": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}}}),
        [{"row": ["a", 1, 2.5]}],
    ),
    "object of any members": (of({"labels": {"type": "object"}}), [{"labels": {"a": 1}}]),
    "object of texts": (
        of({"labels": {"type": "object", "additionalProperties": {"type": "string"}}}),
        [{"labels": {"a": "b"}}],
    ),
    "pattern properties": (
        of({"env": {"type": "object", "patternProperties": {"^X_": {"type": "string"}}}}),
        [{"env": {"X_A": "b"}}],
    ),
    "nested objects": (of({"p": POINT, "q": of({"inner": POINT}, "inner")}, "p"), [{"p": {"x": 1, "y": 2}}]),
    "reference": (
        {**of({"p": {"$ref": "#/$defs/Point", "description": "Where"}}, "p"), "$defs": {"Point": POINT}},
        [{"p": {"x": 1, "y": 2}}],
    ),
    "reference to definitions": (
        {**of({"p": {"$ref": "#/definitions/Point"}}), "definitions": {"Point": POINT}},
        [{"p": {"x": 1, "y": 2}}],
    ),
    "reference to a property": (of({"a": POINT, "b": {"$ref": "#/properties/a"}}), [{"b": {"x": 1, "y": 2}}]),
    "reference to elsewhere": (of({"a": {"$ref": "https://example.com/schema.json"}}), [{"a": 1}]),
    "tree": (
        {**of({"tree": {"$ref": "#/$defs/Tree"}}, "tree"), "$defs": {"Tree": TREE}},
        [{"tree": {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}}],
    ),
    "linked list at the root": (
        {"$ref": "#/$defs/Linked", "$defs": {"Linked": LINKED}},
        [{"next": {"next": None}}, {}],
    ),
    "itself": (of({"again": {"$ref": "#"}, "n": {"type": "integer"}}), [{"again": {"again": {"n": 1}}}]),
    "union at the root": (
        {
            "anyOf": [
                of({"kind": {"const": "a"}, "x": {"type": "integer"}}, "kind", "x"),
                of({"kind": {"const": "b"}, "y": {"type": "string"}}, "kind", "y"),
            ]
        },
        [{"kind": "a", "x": 1}, {"kind": "b", "y": "z"}],
    ),
    "one of two required": (
        of({"id": {"type": "string"}, "url": {"type": "string"}}, oneOf=[{"required": ["id"]}, {"required": ["url"]}]),
        [{"id": "a"}, {"url": "b"}],
    ),
    "union of objects": (
        of(
            {
                "shape": {
                    "oneOf": [
                        of({"r": {"type": "number"}}, "r"),
                        of({"w": {"type": "number"}, "h": {"type": "number"}}, "w", "h"),
                    ],
                    "discriminator": {"propertyName": "kind"},
                }
            }
        ),
        [{"shape": {"r": 1}}, {"shape": {"w": 1, "h": 2}}],
    ),
    "all of": ({"allOf": [of({"a": {"type": "string"}}, "a"), of({"b": {"type": "integer"}})]}, [{"a": "x", "b": 1}]),
    "all of in a property": (
        {
            **of({"p": {"allOf": [{"$ref": "#/$defs/Point"}], "description": "Where", "default": {"x": 0, "y": 0}}}),
            "$defs": {"Point": POINT},
        },
        [{"p": {"x": 1, "y": 2}}],
    ),
    "conditions": (
        of(
            {"a": {"type": "string"}, "b": {"type": "string"}},
            **{"if": {"required": ["a"]}, "then": {"required": ["b"]}, "dependentRequired": {"a": ["b"]}},
        ),
        [{"a": "x", "b": "y"}],
    ),
    "not": (of({"a": {"type": "string", "not": {"enum": ["x"]}}}), [{"a": "y"}]),
    "boolean schemas": (of({"any": True, "b": {"type": "array", "items": True}}), [{"any": [1], "b": [None]}]),
    "any value": (of({"value": {}, "described": {"description": "Any JSON"}}), [{"value": {"a": [1]}, "described": 2}]),
    "nullable of OpenAPI": (
        of({"a": {"type": "string", "nullable": True}, "p": {**POINT, "nullable": True}}),
        [{"a": None, "p": None}],
    ),
    "unusual names": (
        of(
            {
                "$filter": {"type": "string"},
                "user.name": {"type": "string"},
                "größe": {"type": "integer"},
                "x" * 80: {"type": "integer"},
            },
            "$filter",
        ),
        [{"$filter": "a", "größe": 1}],
    ),
    "names of keywords": (
        of(
            {
                "type": {"type": "string"},
                "properties": {"type": "object", "properties": {"required": {"type": "boolean"}}},
                "$ref": {"type": "string"},
            },
            "type",
        ),
        [{"type": "a", "properties": {"required": True}}],
    ),
    "mistakes": (
        of(
            {
                "a": {"type": "any"},
                "b": {"type": "string", "required": True},
                "c": {"type": "array", "items": "string"},
                "d": None,
                "e": {"enum": []},
                "f": {"type": "string", "minLength": "3"},
            },
            "a",
            "zzz",
        ),
        [{"a": 1, "b": "x", "c": ["y"]}],
    ),
    "words": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "x",
            "title": "Args",
            "description": "The arguments",
            **of(
                {
                    "a": {
                        "type": "string",
                        "title": "A",
                        "examples": ["x"],
                        "default": "y",
                        "deprecated": True,
                        "x-order": 1,
                        "example": "z",
                    }
                }
            ),
        },
        [{"a": "b"}],
    ),
}
"""Name → schema and arguments that fit it."""
