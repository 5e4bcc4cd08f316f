"""What each model API takes of JSON Schema, checked independently of the code that rewrites: from its documentation.

Sources, read 2026-11-29: OpenAI, "Structured outputs" (supported schemas) and the errors of function calling;
Anthropic, "Structured outputs" (JSON Schema limitations) and the errors of the Messages API; Google, "Structured
outputs" (JSON Schema support) and the reference of ``Schema``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["CHECKS", "nodes"]

TYPES = {"string", "integer", "number", "boolean", "null", "array", "object"}
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
COUNTS = {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}


def nodes(schema: Any, path: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema with its path."""
    assert isinstance(schema, dict), f"{path} is {schema!r}"
    yield path, schema
    for key in ("properties", "patternProperties", "$defs"):
        for name, part in schema.get(key, {}).items():
            yield from nodes(part, f"{path}/{key}/{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, part in enumerate(schema.get(key, [])):
            yield from nodes(part, f"{path}/{key}/{index}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}/{key}")


def object_root(schema: dict[str, Any]) -> Iterator[str]:
    """The rule of all: the arguments are an object, and no union."""
    if schema.get("type") != "object":
        yield "the root is no object"
    for key in ("anyOf", "oneOf", "allOf", "enum", "not", "$ref"):
        if key in schema:
            yield f"{key} at the root"


def well_formed(path: str, node: dict[str, Any]) -> Iterator[str]:
    """What 2020-12 demands of each keyword that occurs."""
    kinds = node.get("type", [])
    if not set([kinds] if isinstance(kinds, str) else kinds) <= TYPES:
        yield f"{path}: type {kinds!r}"
    for key in ("anyOf", "enum", "prefixItems", "oneOf", "allOf"):
        if key in node and not (isinstance(node[key], list) and node[key]):
            yield f"{path}: {key}"
    for key in BOUNDS & node.keys():
        if isinstance(node[key], bool) or not isinstance(node[key], int | float):
            yield f"{path}: {key}"
    for key in COUNTS & node.keys():
        if not isinstance(node[key], int) or isinstance(node[key], bool):
            yield f"{path}: {key}"
    required = node.get("required", [])
    if not isinstance(required, list) or not set(required) <= set(node.get("properties", {})):
        yield f"{path}: required {required!r}"
    if "items" in node and isinstance(node["items"], list):
        yield f"{path}: items"


def references(schema: dict[str, Any]) -> Iterator[str]:
    """References are to definitions that are there, with nothing beside."""
    for path, node in nodes(schema):
        if "$ref" in node:
            name = node["$ref"].removeprefix("#/$defs/")
            if name not in schema.get("$defs", {}):
                yield f"{path}: {node['$ref']}"
            if node.keys() != {"$ref"}:
                yield f"{path}: words beside $ref"


def openai(schema: dict[str, Any]) -> Iterator[str]:
    """Functions without strict mode."""
    yield from object_root(schema)
    yield from references(schema)
    if "properties" not in schema:
        yield "an object without properties"
    for path, node in nodes(schema):
        yield from well_formed(path, node)
        if node.get("type") == "array" and not {"items", "prefixItems"} & node.keys():
            yield f"{path}: array without items"


def openai_strict(schema: dict[str, Any]) -> Iterator[str]:
    """Strict mode."""
    yield from object_root(schema)
    yield from references(schema)
    allowed = {"type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs", "properties", "required"}
    allowed |= {"additionalProperties", "items", "minItems", "maxItems", "pattern", "format"} | BOUNDS
    for path, node in nodes(schema):
        yield from well_formed(path, node)
        if extra := node.keys() - allowed:
            yield f"{path}: {extra}"
        if not {"type", "anyOf", "$ref", "enum", "const"} & node.keys():
            yield f"{path}: any value"
        if "format" in node and node["format"] not in STRICT_FORMATS:
            yield f"{path}: {node['format']}"
        if "(?" in node.get("pattern", ""):
            yield f"{path}: lookaround"
        if "object" in node.get("type", ""):
            if node.get("additionalProperties") is not False:
                yield f"{path}: open"
            if sorted(node.get("required", [])) != sorted(node.get("properties", {})):
                yield f"{path}: not all required"


def anthropic(schema: dict[str, Any]) -> Iterator[str]:
    """Tools without strict mode."""
    yield from openai(schema)
    for path, node in nodes(schema):
        for name in node.get("properties", {}):
            if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
                yield f"{path}: property {name!r}"


def anthropic_strict(schema: dict[str, Any]) -> Iterator[str]:
    """Strict mode."""
    yield from anthropic(schema)
    for path, node in nodes(schema):
        if "$ref" in node:
            yield f"{path}: recursion"
        if extra := node.keys() & (BOUNDS | COUNTS | {"uniqueItems", "prefixItems", "patternProperties"}):
            yield f"{path}: {extra}"
        if any(isinstance(value, list | dict) for value in node.get("enum", [])):
            yield f"{path}: enum of lists or objects"
        if "format" in node and node["format"] not in STRICT_FORMATS | {"uri"}:
            yield f"{path}: {node['format']}"
        if "object" in node.get("type", "") and node.get("additionalProperties") is not False:
            yield f"{path}: open"


def gemini(schema: dict[str, Any]) -> Iterator[str]:
    """``parametersJsonSchema``."""
    yield from object_root(schema)
    allowed = {"type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems"}
    allowed |= {"minimum", "maximum", "anyOf", "properties", "additionalProperties", "required"}
    for path, node in nodes(schema):
        yield from well_formed(path, node)
        if extra := node.keys() - allowed:
            yield f"{path}: {extra}"
        if any(isinstance(value, bool) or not isinstance(value, str | int | float) for value in node.get("enum", [])):
            yield f"{path}: enum {node['enum']}"
        if isinstance(node.get("type"), list) and not (len(node["type"]) == 2 and "null" in node["type"]):
            yield f"{path}: {node['type']}"


def gemini_openapi(schema: dict[str, Any]) -> Iterator[str]:
    """``parameters``: ``Schema``, a subset of OpenAPI 3.0."""
    yield from object_root({**schema})
    allowed = {"type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties"}
    allowed |= {"required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "items"}
    allowed |= {"minimum", "maximum"}
    for path, node in nodes(schema):
        yield from well_formed(path, node)
        if extra := node.keys() - allowed:
            yield f"{path}: {extra}"
        if not isinstance(node.get("type", ""), str) or node.get("type") == "null":
            yield f"{path}: {node['type']!r}"
        if not {"type", "anyOf"} & node.keys():
            yield f"{path}: no type"
        if node.get("type") == "array" and "items" not in node:
            yield f"{path}: no items"
        if not all(isinstance(value, str) for value in node.get("enum", [])):
            yield f"{path}: enum {node['enum']}"
        for name in node.get("properties", {}):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
                yield f"{path}: property {name!r}"


CHECKS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "OpenAI": openai,
    "OpenAI, strict": openai_strict,
    "Anthropic": anthropic,
    "Anthropic, strict": anthropic_strict,
    "Gemini": gemini,
    "Gemini, OpenAPI": gemini_openapi,
}
"""Name of a dialect → what its API would refuse."""
