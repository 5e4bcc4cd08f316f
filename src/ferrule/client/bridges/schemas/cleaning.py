"""One schema node of any server as a plain node of JSON Schema 2020-12: older drafts, OpenAPI and mistakes put right.

What has no meaning, such as a text as ``required``, is left out: one such tool would make an API refuse all tools.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from ferrule.wire.codec import canonical
from ferrule.wire.json_types import is_list, is_object

__all__ = ["JSON_TYPES", "Schema", "cleaned", "type_of", "value_key"]

Schema: TypeAlias = dict[str, Any]

JSON_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")

_TEXTS = ("title", "description", "pattern", "format", "$ref", "contentEncoding", "contentMediaType")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LISTS = ("enum", "anyOf", "oneOf", "allOf", "examples", "prefixItems")
_MAPS = ("properties", "patternProperties")
_TYPE_OF: Final = (
    ("object", ("properties", "additionalProperties", "required", "patternProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems")),
    ("string", ("minLength", "maxLength", "pattern")),
)


def cleaned(schema: Any) -> Schema:
    """Return a copy of a node with valid keywords only, and with a type where its keywords tell it.

    Args:
        schema: a node; ``{}``, which means any value, for what is no object.
    """
    if not is_object(schema):
        return {}
    made: Schema = dict(schema)
    for key in _TEXTS:
        if not isinstance(made.get(key, ""), str):
            del made[key]
    for key in _LISTS:
        if key in made and not (is_list(made[key]) and made[key]):
            del made[key]
    for key in _MAPS:
        if key in made and not is_object(made[key]):
            del made[key]
    _types(made)
    _numbers(made)
    _arrays(made)
    required: Any = made.pop("required", None)
    if is_list(required):
        made["required"] = list(dict.fromkeys(name for name in required if isinstance(name, str)))
    if not isinstance(made.get("additionalProperties", True), bool | dict):
        del made["additionalProperties"]
    if not made.keys() & {"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"}:
        kind = next((kind for kind, keys in _TYPE_OF if made.keys() & set(keys)), None)
        if kind is not None:
            made["type"] = kind
    return made


def type_of(value: Any) -> str:
    """Return the JSON Schema type of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def value_key(value: Any) -> Any:
    """Return a key that equal JSON values share; ``1`` and ``1.0`` are equal, ``1`` and ``true`` are not."""
    return canonical(value) if isinstance(value, list | dict) else (isinstance(value, bool), value)


def _types(made: Schema) -> None:
    """Keep known types; ``nullable`` of OpenAPI becomes a type."""
    given: Any = made.pop("type", None)
    kinds = [kind for kind in (given if is_list(given) else [given]) if kind in JSON_TYPES]
    kinds = list(dict.fromkeys(kinds))
    if made.pop("nullable", None) is True:
        if kinds and "null" not in kinds:
            kinds.append("null")
        for key in ("anyOf", "oneOf"):
            if key in made:
                made[key] = [*made[key], {"type": "null"}]
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    if kinds:
        made["type"] = kinds[0] if len(kinds) == 1 else kinds


def _numbers(made: Schema) -> None:
    for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if made.get(exclusive) is True and inclusive in made:  # draft 4
            made[exclusive] = made.pop(inclusive)
    for key in _BOUNDS:
        value = made.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            del made[key]
    if made.get("multipleOf", 1) <= 0:
        del made["multipleOf"]
    for key in _COUNTS:
        value = made.get(key, 0)
        if isinstance(value, float) and value.is_integer():
            made[key] = value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            del made[key]


def _arrays(made: Schema) -> None:
    items: Any = made.get("items")
    if is_list(items):  # a tuple before 2020-12
        if items:
            made["prefixItems"] = items
        made["items"] = made.get("additionalItems", True)
    made.pop("additionalItems", None)
    if not isinstance(made.get("items", True), bool | dict):
        del made["items"]
