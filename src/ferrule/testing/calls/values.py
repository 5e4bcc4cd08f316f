"""Values for a part of a schema: an ordinary one, those at its edges, and some that it forbids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern

__all__ = ["edge_values", "plain_value", "wrong_values"]

MAX_DEPTH: Final = 12
LONGEST: Final = 10_000
"""Characters of the longest text, and members of the longest list, that is made for a bound."""

_FORMATS: Final[Mapping[str, str]] = {
    "date-time": "2026-01-31T12:30:00Z",
    "date": "2026-01-31",
    "time": "12:30:00Z",
    "duration": "P1DT2H",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/a",
    "uri-reference": "/a",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "byte": "aGk=",
    "binary": "aGk=",
}
_DESCRIBED: Final = (
    (pattern(r"(?i)\bdate such as\b"), "date"),
    (pattern(r"\bUUID\b"), "uuid"),
    (pattern(r"(?i)\bemail address\b"), "email"),
    (pattern(r"\bURI\b|\bURL\b"), "uri"),
)
"""What a description says in place of ``format``, which some model APIs refuse."""
_CANDIDATES: Final = (
    "text",
    "1.50",
    "14:30:00",
    "P1DT2H",
    "A1",
    "abc123",
    "0",
    "a-b",
    "1.0.0",
    "#ffffff",
    "en",
    "x@y.z",
)
"""Tried for a regular expression."""
_LARGEST: Final = 2**53 - 1


def plain_value(part: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """Return an ordinary value: an example or the default if there is one, else one that fits the type.

    Args:
        part: the schema of the value.
        root: the whole schema, for local references.
        depth: how deep the value stands in another one.
    """
    schema = _resolved(part, root)
    if not is_mapping(schema) or depth > MAX_DEPTH:
        return None
    for key in ("examples", "enum"):
        values = schema.get(key)
        if is_list(values) and values:
            return values[0]
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if is_list(branches) and branches:
            return plain_value(
                {**{k: v for k, v in schema.items() if k != key}, **_mapping(_resolved(branches[0], root))},
                root,
                depth + 1,
            )
    made = schema
    for branch in schema.get("allOf") or () if is_list(schema.get("allOf")) else ():
        made = {**made, **_mapping(_resolved(branch, root))}
    return _by_type(made, root, depth)


def _by_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kind = _kind(schema)
    if kind == "string":
        return _text(schema)
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "boolean":
        return True
    if kind == "array":
        return [
            plain_value(schema.get("items", {}), root, depth + 1) for _ in range(min(_bound(schema, "minItems", 1), 20))
        ]
    if kind == "object":
        properties, required = _mapping(schema.get("properties")), schema.get("required")
        named = required if is_list(required) else []
        return {name: plain_value(each, root, depth + 1) for name, each in properties.items() if name in named}
    return None if kind == "null" else "text"


def edge_values(part: Any, root: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Return values at the edges of a schema, with what is special about each; some may not fit it."""
    schema = _resolved(part, root)
    if not is_mapping(schema):
        return
    for branch in _branches(schema, root):
        values = branch.get("enum")
        for value in values if is_list(values) else ():
            yield value, f"the value {value!r}"
        kind = _kind(branch)
        if kind == "string" and not is_list(values):
            yield from _edges_of_text(branch)
        elif kind in ("integer", "number"):
            yield from _edges_of_number(branch, kind)
        elif kind == "boolean":
            yield False, "false"
            yield True, "true"
        elif kind == "array":
            yield [], "an empty list"
            item = plain_value(branch.get("items", {}), root, 1)
            longest = _bound(branch, "maxItems", 50)
            yield [item] * min(longest, LONGEST), "a long list"
        elif kind == "null":
            yield None, "null"
        elif kind == "object":
            properties = _mapping(branch.get("properties"))
            yield {name: plain_value(each, root, 1) for name, each in properties.items()}, "every member"


def _edges_of_text(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    if _format(schema) or "pattern" in schema:
        return
    low, high = _bound(schema, "minLength", 0), _bound(schema, "maxLength", 1000)
    yield "x" * min(low, LONGEST), f"{low} characters"
    yield "x" * min(high, LONGEST), f"{min(high, LONGEST)} characters"
    yield "Zürich 東京 \U0001f469\u200d\U0001f52c ' \" \\ <b> %s {x}\n", "other scripts and special characters"


def _edges_of_number(schema: Mapping[str, Any], kind: str) -> Iterator[tuple[Any, str]]:
    for key in ("minimum", "maximum"):
        if isinstance(schema.get(key), int | float):
            yield schema[key], f"the {key}"
    step = 1 if kind == "integer" else 0.5
    if isinstance(schema.get("exclusiveMinimum"), int | float):
        yield schema["exclusiveMinimum"] + step, "just above the bound"
    if isinstance(schema.get("exclusiveMaximum"), int | float):
        yield schema["exclusiveMaximum"] - step, "just below the bound"
    yield 0, "zero"
    yield -1, "a negative number"
    yield _LARGEST, "a large number"
    if kind == "number":
        yield 0.1, "a fraction"


def wrong_values(part: Any, root: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Return values that a schema usually forbids, with what is wrong; some may fit it.

    Values that a server may correct are left out: numbers as text, and null for a parameter with a default.
    """
    schema = _resolved(part, root)
    if not is_mapping(schema):
        return
    kinds = {_kind(branch) for branch in _branches(schema, root)}
    yield {"unexpected": {"nested": []}}, "an object"
    if not kinds & {"string", None}:
        yield "neither a number nor JSON {", "text"
    if kinds <= {"integer"}:
        yield 1.5, "a fraction"
    if any("enum" in branch for branch in _branches(schema, root)):
        yield "not one of the values", "another value"
    for key, step in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", -1), ("exclusiveMaximum", 1)):
        if isinstance(schema.get(key), int | float):
            yield schema[key] + step, f"beyond {key}"
    if isinstance(schema.get("maxLength"), int) and schema["maxLength"] < LONGEST:
        yield "x" * (schema["maxLength"] + 1), "text that is too long"
    if isinstance(schema.get("minLength"), int) and 0 < schema["minLength"] < LONGEST:
        yield "x" * (schema["minLength"] - 1), "text that is too short"
    if isinstance(schema.get("maxItems"), int) and schema["maxItems"] < LONGEST:
        yield [plain_value(schema.get("items", {}), root, 1)] * (schema["maxItems"] + 1), "a list that is too long"


def _branches(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schema as one branch for each type and each choice."""
    kinds = schema.get("type")
    if is_list(kinds):
        return [{**schema, "type": kind} for kind in kinds]
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        if is_list(choices):
            return [_mapping(_resolved(choice, root)) for choice in choices]
    return [schema]


def _kind(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type")
    if is_list(kind):
        kind = next((each for each in kind if each != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else None


def _text(schema: Mapping[str, Any]) -> str:
    expression = schema.get("pattern")
    if isinstance(expression, str):
        return _matching(expression)
    text = _FORMATS.get(_format(schema), "text")
    low, high = _bound(schema, "minLength", 0), _bound(schema, "maxLength", LONGEST)
    return text.ljust(min(low, LONGEST), "x")[:high]


def _format(schema: Mapping[str, Any]) -> str:
    """Return the format of a text, also where only the description says it; empty without one."""
    form, description = schema.get("format"), schema.get("description")
    if isinstance(form, str):
        return form
    found = (name for words, name in _DESCRIBED if isinstance(description, str) and words.search(description))
    return next(found, "")


def _matching(expression: str) -> str:
    """Return a short text that a regular expression accepts; any text if none of the candidates does."""
    try:
        return next((each for each in _CANDIDATES if re.search(expression, each)), "text")
    except re.error:
        return "text"


def _number(schema: Mapping[str, Any]) -> int | float:
    low, high = (
        schema.get("minimum", schema.get("exclusiveMinimum")),
        schema.get("maximum", schema.get("exclusiveMaximum")),
    )
    step = schema.get("multipleOf")
    value: int | float = 1
    if isinstance(low, int | float):
        value = low if "minimum" in schema else low + 1
    elif isinstance(high, int | float):
        value = high if "maximum" in schema else high - 1
    if isinstance(step, int | float) and step > 0:
        value = -(-value // step) * step
    return value


def _bound(schema: Mapping[str, Any], key: str, default: int) -> int:
    found = schema.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else default


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if is_mapping(value) else {}


def _resolved(part: Any, root: Mapping[str, Any]) -> Any:
    """Return what a local reference stands for, with the members beside it."""
    for _ in range(MAX_DEPTH):
        reference = part.get("$ref") if is_mapping(part) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return part
        found: Any = root
        for name in reference[2:].split("/"):
            found = _mapping(found).get(name.replace("~1", "/").replace("~0", "~"))
        part = {**_mapping(found), **{key: value for key, value in part.items() if key != "$ref"}}
    return part
