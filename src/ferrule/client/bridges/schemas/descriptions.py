"""Keywords that an API lacks: written in the description, or written by other keywords that it has."""

from __future__ import annotations

import json
from typing import Any, Final

from ferrule.client.bridges.schemas.cleaning import Schema, type_of, value_key
from ferrule.client.bridges.schemas.dialects import Dialect
from ferrule.wire.json_types import is_list

__all__ = ["enum_nodes", "typed_nodes", "with_null", "with_rest_described"]

_MAX_PHRASE_CHARS = 300

_PHRASES: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "pattern {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "contentEncoding": "{}",
    "contentMediaType": "{}",
    "default": "default {}",
}
_FORMAT_PHRASES: Final = {
    "date": "a date such as 2026-01-31",
    "uuid": "a UUID",
    "uri": "a URI",
    "email": "an email address",
}
_OF_KIND: Final = {
    "string": {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"},
    "object": {
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "minProperties",
        "maxProperties",
    },
}
_SPECIAL = frozenset[str]().union(*_OF_KIND.values())


def with_rest_described(node: Schema, dialect: Dialect) -> Schema:
    """Return the keywords of a node that the dialect has, with the rest written in the description.

    Schemas inside the node are left as they are.
    """
    made = {key: value for key, value in node.items() if key in dialect.keywords}
    phrases: list[str] = []
    kind: Any = node.get("type")
    is_integer = kind == "integer" or (is_list(kind) and "integer" in kind)
    for key, phrase in _PHRASES.items():
        if key not in node or key in dialect.keywords:
            continue
        bound = {"exclusiveMinimum": ("minimum", 1), "exclusiveMaximum": ("maximum", -1)}.get(key)
        if bound is not None and is_integer and isinstance(node[key], int) and bound[0] in dialect.keywords:
            within = node[key] + bound[1]
            pick = max if bound[1] > 0 else min
            made[bound[0]] = pick(within, made.get(bound[0], within))
            continue
        value = node[key]
        if key != "default" or value is not None:
            text = value if isinstance(value, str) and key != "default" else json.dumps(value, ensure_ascii=False)
            phrases.append(phrase.format(text))
    name = node.get("format")
    if name is not None and (dialect.formats is not None and name not in dialect.formats):
        made.pop("format", None)
        if "string" in (kind if is_list(kind) else [kind]):
            phrases.append(_FORMAT_PHRASES.get(name, f"format {name}"))
    if dialect.is_strict and "(?" in made.get("pattern", ""):  # lookarounds are refused
        phrases.append(f"pattern {made.pop('pattern')}")
    return _described(made, phrases)


def _described(made: Schema, phrases: list[str]) -> Schema:
    if not phrases:
        return made
    rest = ", ".join(phrases)
    if len(rest) > _MAX_PHRASE_CHARS:
        rest = f"{rest[: _MAX_PHRASE_CHARS - 1]}…"
    text = made.get("description")
    return {**made, "description": f"{text} ({rest})" if text else rest[:1].upper() + rest[1:]}


def enum_nodes(node: Schema, dialect: Dialect) -> list[Schema] | None:
    """Give a set of values a type; a set of several types becomes a union of sets.

    Values that the API takes in no set lose the set, which is then written in the description.

    Args:
        node: a node with ``enum``; a set of one type stays in it.
        dialect: the subset.

    Returns:
        The branches of the union; ``None`` if the node is complete.
    """
    given: Any = node.pop("enum")
    different: dict[Any, Any] = {}
    for value in given:
        different.setdefault((type(value), value_key(value)), value)
    values = list(different.values())
    allowed: Any = node.get("type")
    if allowed is not None:
        kinds = set(allowed if is_list(allowed) else [allowed])
        fitting = [
            each for each in values if type_of(each) in kinds or (type_of(each) == "integer" and "number" in kinds)
        ]
        values = fitting or values
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        by_kind.setdefault(type_of(value), []).append(value)
    if "number" in by_kind and "integer" in by_kind:
        by_kind["number"] = [each for each in values if type_of(each) in ("number", "integer")]
        del by_kind["integer"]
    made = [_set_of(kind, each, dialect) for kind, each in by_kind.items()]
    node.pop("type", None)
    if len(made) > 1:
        return made
    text = made[0].pop("description", None)
    node.update(made[0])
    if text is not None:
        node["description"] = f"{node['description']} ({text})" if node.get("description") else text
    return None


def _set_of(kind: str, values: list[Any], dialect: Dialect) -> Schema:
    if kind == "null":
        return {"type": "null"}
    if kind in dialect.enums and not (kind in ("array", "object") and dialect.typed):
        return {"type": kind, "enum": values}
    return _described(
        {"type": kind}, ["one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in values)]
    )


def typed_nodes(node: Schema, dialect: Dialect) -> list[Schema] | None:
    """Return the branches of a union for a list of types; ``None`` for one type, or one type and null, if that may
    stay. Keywords of one type go to its branch, out of the node."""
    kinds: list[str] = node["type"]
    others = [kind for kind in kinds if kind != "null"]
    if len(others) == 1 and (dialect.type_lists or dialect.nullable):
        return None
    del node["type"]
    about = {key: node.pop(key) for key in list(node) if key in _SPECIAL}
    return [{"type": kind, **{key: value for key, value in about.items() if key in _of_kind(kind)}} for kind in kinds]


def _of_kind(kind: str) -> set[str]:
    return _OF_KIND.get("number" if kind == "integer" else kind, set())


def with_null(node: Schema) -> Schema:
    """Return a node that takes null, too."""
    kind: Any = node.get("type")
    if "anyOf" in node:
        null = {"type": "null"}
        return node if null in node["anyOf"] else {**node, "anyOf": [*node["anyOf"], null]}
    if kind is None:
        return {"anyOf": [node, {"type": "null"}]}
    kinds: list[str] = kind if is_list(kind) else [kind]
    if "null" in kinds:
        return node
    made = {**node, "type": [*kinds, "null"]}
    if "enum" in node:
        made["enum"] = [*node["enum"], None]
    return made
