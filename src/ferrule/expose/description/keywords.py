"""Converts keywords without inner schemas to JSON Schema 2020-12, and repairs invalid values.

`plain_keywords` converts one keyword; `SchemaConverter` converts inner schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

from ferrule.wire.json_types import is_list, is_object

__all__ = [
    "ANNOTATIONS",
    "LISTS",
    "MAPS",
    "PLACES",
    "is_small",
    "one_enumeration",
    "or_null",
    "patterns_in",
    "plain_keywords",
    "says_the_name",
    "type_names",
    "without_keywords",
]

MAX_EXAMPLES = 5
"""Maximum number of examples of one schema."""

SMALL_ENUM = 20
"""Maximum number of values of an enumeration that replaces its references."""

SMALL_BYTES = 1000
"""Maximum number of characters of a definition that replaces its references."""

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that do not restrict values."""

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
_FLAGS = frozenset({"uniqueItems", "deprecated", "writeOnly"})
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

Note = Callable[[str], None]


def plain_keywords(
    raw: dict[str, Any], keyword: str, value: Any, note: Note, *, has_nullable: bool = False
) -> dict[str, Any]:
    """Return the keywords of 2020-12 for one keyword of a schema; empty if it has no meaning there.

    Args:
        raw: the schema with the keyword.
        keyword, value: the keyword and its value.
        note: called with the description of each repair.
        has_nullable: whether the schema is one of OpenAPI 3.0.
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
    """Return the types that a ``type`` keyword names; empty if it names none."""
    given: list[Any] = value if is_list(value) else [value]
    return {name for name in given if isinstance(name, str)}


def one_enumeration(alternatives: list[Any]) -> dict[str, Any] | None:
    """Return the one enumeration that alternatives make which are enumerations of different plain values.

    drf-spectacular describes a choice that may be left blank by two. Of one, an error can name the values.
    ``None``: they are no such alternatives.
    """
    values: list[Any] = []
    texts: list[str] = []
    for each in alternatives:
        if not is_object(each) or each.keys() - {"enum", "type", "description"} or not is_list(each.get("enum")):
            return None
        allowed = type_names(each.get("type"))
        if allowed and not allowed.issuperset(_json_type(value) for value in each["enum"]):
            return None
        values += each["enum"]
        texts += [each["description"]] if "description" in each else []
    kinds = [_json_type(value) for value in values]
    if not kinds or None in kinds or len(set(zip(kinds, values, strict=True))) != len(values):
        return None
    kinds = list(dict.fromkeys(kinds))
    described = {"description": "\n".join(texts)} if texts else {}
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values, **described}


_JSON_TYPES: dict[type, str] = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


def _json_type(value: object) -> str | None:
    return _JSON_TYPES.get(type(value))


def or_null(schema: dict[str, Any] | bool) -> dict[str, Any] | bool:
    """Return a schema that also accepts null."""
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
    """Return whether a definition describes a plain value and is short, so that it can replace its references."""
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
        if name in keywords:
            continue
        if name in _NAMED:
            made[name] = without_keywords(part, keywords, of_names=True)
        elif name in _VALUES:
            made[name] = part
        else:
            made[name] = without_keywords(part, keywords)
    return made


def patterns_in(value: Any, *, of_names: bool = False) -> Iterator[str]:
    """Yield the regular expressions of a schema and of its inner schemas.

    Args:
        value: a schema, or a list or a map of schemas.
        of_names: ``value`` is a map of schemas by name; names are not keywords.
    """
    if is_list(value):
        for part in value:
            yield from patterns_in(part)
    elif is_object(value):
        for name, part in value.items():
            if of_names or name not in _VALUES:
                yield from patterns_in(part, of_names=not of_names and name in _NAMED)
            if of_names:
                continue
            if name == "pattern" and isinstance(part, str):
                yield part
            elif name == "patternProperties" and is_object(part):
                yield from part


def says_the_name(title: Any, name: str) -> bool:
    """Return whether a title only repeats the name of its member, as generators write it."""
    return isinstance(title, str) and _letters(title) == _letters(name)


def _letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


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
