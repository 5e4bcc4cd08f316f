"""Walks a JSON Schema of a stranger: every subschema with its pointer, within a bound of number and depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import Value

__all__ = ["MAX_NODES", "Node", "subschemas"]

MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 100

_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_PLACES: Final = (
    "items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip


class Node(Value, frozen=True):
    """One subschema.

    Attributes:
        path: its JSON pointer; empty for the root.
        schema: the subschema; a boolean schema is not a node.
        is_property: whether it is a member of ``properties``.
    """

    path: str
    schema: Mapping[str, Any]
    is_property: bool = False


def subschemas(schema: Any) -> Iterator[Node]:
    """Return the schema and all that it contains, parents first; at most `MAX_NODES`, at most 100 deep."""
    stack: list[tuple[str, Any, bool, int]] = [("", schema, False, 0)]
    count = 0
    while stack and count < MAX_NODES:
        path, found, is_property, depth = stack.pop()
        if not is_mapping(found):
            continue
        count += 1
        yield Node(path, found, is_property)
        if depth < MAX_DEPTH:
            stack += reversed([(*part, depth + 1) for part in _children(path, found)])


def _children(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    for key in _MAPS:
        parts = schema.get(key)
        if is_mapping(parts):
            for name, part in parts.items():
                yield f"{path}/{key}/{_escaped(name)}", part, key == "properties"
    for key in _LISTS:
        branches = schema.get(key)
        if is_list(branches):
            for at, part in enumerate(branches):
                yield f"{path}/{key}/{at}", part, False
    for key in _PLACES:
        part = schema.get(key)
        if is_list(part):  # `items` of drafts before 2020-12
            for at, each in enumerate(part):
                yield f"{path}/{key}/{at}", each, False
        else:
            yield f"{path}/{key}", part, False


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
