"""The limits of size that a strict subset documents, checked on a finished schema."""

from __future__ import annotations

from typing import Any

from ferrule.client.bridges.schemas.cleaning import Schema
from ferrule.client.bridges.schemas.dialects import Dialect
from ferrule.wire.json_types import is_list, is_object

__all__ = ["Sizes", "excess", "sizes_of"]


class Sizes:
    """How large a schema is.

    Attributes:
        depth: levels of objects.
        properties, optional: properties, and those that are not required.
        values: values in all sets.
        chars: characters of names and of values in sets.
        unions: unions and lists of types.
    """

    __slots__ = ("chars", "depth", "optional", "properties", "unions", "values")

    def __init__(self) -> None:
        self.depth = self.properties = self.optional = self.values = self.chars = self.unions = 0


def sizes_of(schema: Schema) -> Sizes:
    """Return the sizes of a rewritten schema."""
    found = Sizes()
    _count(schema, 0, found)
    return found


def excess(schema: Schema, dialect: Dialect) -> str | None:
    """Return which limit of the dialect a schema exceeds; ``None`` if it exceeds none."""
    found = sizes_of(schema)
    for what, size, limit in (
        ("levels", found.depth, dialect.max_depth),
        ("properties", found.properties, dialect.max_properties),
        ("values in sets", found.values, dialect.max_enum),
        ("characters", found.chars, dialect.max_chars),
    ):
        if limit is not None and size > limit:
            return f"{size} {what}, at most {limit}"
    return None


def _count(node: Any, depth: int, found: Sizes) -> None:
    if not is_object(node):
        return
    found.depth = max(found.depth, depth)
    properties: Any = node.get("properties")
    if is_object(properties):
        found.properties += len(properties)
        required = set(node.get("required", ()))
        found.optional += sum(name not in required for name in properties)
        for name, part in properties.items():
            found.chars += len(name)
            _count(part, depth + 1, found)
    values: Any = node.get("enum")
    if is_list(values):
        found.values += len(values)
        found.chars += sum(len(value) for value in values if isinstance(value, str))
    found.unions += "anyOf" in node or is_list(node.get("type"))
    for key in ("anyOf", "prefixItems"):
        for part in node.get(key, ()):
            _count(part, depth, found)
    for key in ("items", "additionalProperties"):
        _count(node.get(key), depth + 1, found)
    for name, part in node.get("$defs", {}).items():
        found.chars += len(name)
        _count(part, depth + 1, found)
