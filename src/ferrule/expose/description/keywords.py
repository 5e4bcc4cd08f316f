"""Keywords of a schema that hold no schema: what they become in JSON Schema 2020-12, and how wrong values are repaired.

`plain_keywords` takes one keyword; schemas inside schemas are `SchemaConverter`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from ferrule.wire.json_types import is_list, is_object

__all__ = [
    "ANNOTATIONS",
    "LISTS",
    "MAPS",
    "PLACES",
    "is_small",
    "or_null",
    "plain_keywords",
    "says_the_name",
    "type_names",
    "without_keywords",
]

MAX_EXAMPLES = 5
"""Examples of one schema that are kept."""

SMALL_ENUM = 20
"""Values of an enumeration that is put in place of its references."""

SMALL_BYTES = 1000
"""Characters of a definition that is put in place of its references."""

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that say nothing of which values fit."""

MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
PLACES = frozenset(
    {
        "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip
"""Keywords that hold schemas: by name, in a list, and one."""

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_MISSPELT = {
    "str": "string", "text": "string", "char": "string", "uuid": "string", "date": "string", "datetime": "string",
    "date-time": "string", "timestamp": "string", "email": "string", "uri": "string", "url": "string",
    "int": "integer", "int32": "integer", "int64": "integer", "long": "integer", "float": "number", "double": "number",
    "decimal": "number", "bool": "boolean", "dict": "object", "map": "object", "list": "array", "none": "null",
    "nil": "null",
}  # fmt: skip

_NAMED = MAPS | {"$defs"}
_VALUES = frozenset({"enum", "const", "required", "dependentRequired"})
_NESTING = MAPS | LISTS | PLACES | {"discriminator"}
_COMBINED = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "$ref", "const"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_TEXTS = frozenset({"title", "description", "format", "contentEncoding", "contentMediaType", "pattern"})
_FLAGS = frozenset({"uniqueItems", "deprecated"})
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

Note = Callable[[str], None]


def plain_keywords(
    raw: dict[str, Any], keyword: str, value: Any, note: Note, *, has_nullable: bool = False
) -> dict[str, Any]:
    """Return the keywords of 2020-12 that stand for one keyword of a schema; none where it has no meaning there.

    Args:
        raw: the schema it stands in.
        keyword, value: the keyword and its value.
        note: is called with what had to be repaired.
        has_nullable: the schema is one of OpenAPI 3.0.
    """
    if keyword in ("const", "default"):
        return {keyword: value}
    if keyword in _TEXTS:
        return _if_right(keyword, value, isinstance(value, str), note)
    if keyword in _FLAGS:
        return _if_right(keyword, value, isinstance(value, bool), note)
    if keyword in _COUNTS:
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return _if_right(keyword, value, is_count, note)
    if keyword in _NUMBERS:
        return _number(raw, keyword, value, note)
    if keyword == "type":
        return _type(value, note)
    if keyword == "enum":
        return _enum(value, note, or_null=has_nullable and raw.get("nullable") is True)
    if keyword == "required":
        return _required(value, note)
    if keyword == "example":
        return {} if "examples" in raw or value is None else {"examples": [value]}
    if keyword == "examples":
        return _examples(value)
    if keyword == "dependentRequired":
        return _if_right(keyword, value, is_object(value) and all(is_list(names) for names in value.values()), note)
    return {}


def _if_right(keyword: str, value: Any, is_right: bool, note: Note) -> dict[str, Any]:
    if is_right:
        return {keyword: value}
    if value is not None:
        note(f"{keyword!r} was {_said(value)}")
    return {}


def _number(raw: dict[str, Any], keyword: str, value: Any, note: Note) -> dict[str, Any]:
    if isinstance(value, bool):  # 3.0: the bound beside it is exclusive
        bound = raw.get(_EXCLUSIVE.get(keyword, ""))
        return {keyword: bound} if value and _is_number(bound) else {}
    if keyword in ("minimum", "maximum") and raw.get(f"exclusive{keyword.title()}") is True:
        return {}
    if isinstance(value, str):
        value = _number_in(value)
    return _if_right(keyword, value, _is_number(value) and (keyword != "multipleOf" or value > 0), note)


def _type(value: Any, note: Note) -> dict[str, Any]:
    if value == "file":  # of Swagger 2.0, still seen
        return {"type": "string", "contentEncoding": "base64"}
    given: list[Any] = value if is_list(value) else [value]
    names: list[str] = []
    for name in given:
        found = name if isinstance(name, str) and name in _TYPES else _MISSPELT.get(str(name).lower())
        if found != name:
            note(f"a type was {_said(name)}")
        if found is not None and found not in names:
            names.append(found)
    if not names:
        return {}
    return {"type": names if len(names) > 1 else names[0]}


def _enum(value: Any, note: Note, *, or_null: bool) -> dict[str, Any]:
    if not is_list(value) or not value:
        note(f"'enum' was {_said(value)}")
        return {}
    values: list[Any] = []
    seen: set[str] = set()
    for member in value:
        key = f"{type(member).__name__}:{member!r}"
        if key not in seen:
            seen.add(key)
            values.append(member)
    if or_null and None not in values:
        values.append(None)
    return {"enum": values}


def _required(value: Any, note: Note) -> dict[str, Any]:
    if is_list(value):
        names = list(dict.fromkeys(name for name in value if isinstance(name, str)))
        return {"required": names} if names else {}
    if not isinstance(value, bool):  # true stands where a parameter was meant: nothing is lost
        note(f"'required' was {_said(value)}")
    return {}


def _examples(value: Any) -> dict[str, Any]:
    if is_object(value):  # named ones, as parameters have them
        value = [part["value"] for part in value.values() if is_object(part) and "value" in part]
    return {"examples": value[:MAX_EXAMPLES]} if is_list(value) and value else {}


def type_names(value: Any) -> set[str]:
    """Return the types that a ``type`` keyword names; empty where it names none."""
    given: list[Any] = value if is_list(value) else [value]
    return {name for name in given if isinstance(name, str)}


def or_null(schema: dict[str, Any] | bool) -> dict[str, Any] | bool:
    """Return a schema that takes null, too."""
    if isinstance(schema, bool):
        return schema or {"type": "null"}
    kind: Any = schema.get("type")
    if not schema.keys() & _COMBINED and kind is not None:
        names: list[str] = kind if is_list(kind) else [kind]
        return schema if "null" in names else {**schema, "type": [*names, "null"]}
    if not schema.keys() - ANNOTATIONS:  # it takes anything
        return schema
    shown = {name: schema[name] for name in schema if name in ANNOTATIONS}
    return {**shown, "anyOf": [{name: schema[name] for name in schema if name not in shown}, {"type": "null"}]}


def is_small(raw: dict[str, Any]) -> bool:
    """Return whether a definition is that of a plain, short value, so that it can stand in place of its references."""
    if raw.keys() & _NESTING or "$ref" in raw:
        return False
    size = 0
    for keyword, value in raw.items():
        members: list[Any] = value if is_list(value) else [value]
        if len(members) > SMALL_ENUM or any(is_list(member) or is_object(member) for member in members):
            if keyword in ("example", "examples") or keyword.startswith("x-"):
                return False
            if keyword == "enum":
                return False
        size += sum(len(member) for member in members if isinstance(member, str))
    return size <= SMALL_BYTES


def without_keywords(value: Any, keywords: frozenset[str], *, of_names: bool = False) -> Any:
    """Return a schema without some keywords in it or in its inner schemas.

    Args:
        value: a schema, or a list or a map of schemas.
        keywords: to leave out.
        of_names: ``value`` is a map of schemas by name; names are not keywords.
    """
    if is_list(value):
        return [without_keywords(part, keywords) for part in value]
    if not is_object(value):
        return value
    if of_names:
        return {name: without_keywords(part, keywords) for name, part in value.items()}
    made: dict[str, Any] = {}
    for name, part in value.items():
        if name in _NAMED:
            made[name] = without_keywords(part, keywords, of_names=True)
        elif name in _VALUES:
            made[name] = part
        elif name not in keywords:
            made[name] = without_keywords(part, keywords)
    return made


def says_the_name(title: Any, name: str) -> bool:
    """Return whether a title only repeats the name of its member, as generators write it."""
    return isinstance(title, str) and _letters(title) == _letters(name)


def _letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _number_in(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
