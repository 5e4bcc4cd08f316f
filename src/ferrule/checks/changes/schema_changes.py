"""Compares two versions of a schema: which values did the old one allow that the new one does not, and the reverse.

For an input schema a value that is no longer taken breaks callers; for an output schema a value that is newly possible
breaks readers. A difference that cannot be judged counts as breaking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["Effect", "SchemaChange", "schema_changes"]

Effect: TypeAlias = Literal["narrower", "wider", "changed", "wording"]
"""What became of the values that fit: fewer, more, others or unknown, the same."""

SchemaChange = tuple[str, Effect, str]
"""A JSON pointer, the effect, and a sentence."""

MAX_DEPTH: Final = 60
_WORDING: Final = frozenset({"title", "description", "examples", "$comment", "$schema", "deprecated", "$id"})
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_JUDGED: Final = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "default",
     "$ref", "$defs", "definitions", *_LOWER, *_UPPER, *_WORDING}
)  # fmt: skip
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def schema_changes(old: Any, new: Any) -> Iterator[SchemaChange]:
    """Return the changes from one schema to another, outermost first.

    Schemas that are nested too deep to be compared are another one each.

    Args:
        old, new: schemas with local references.
    """
    try:
        yield from _Comparison(old, new).compare(old, new, "", 0)
    except RecursionError:  # they may be of another server
        yield "", "changed", "it is nested too deep to be compared"


class _Comparison:
    def __init__(self, old: Any, new: Any) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[int, int]] = set()
        # What a part of the old and of the new schema stands for, by its id. Kept: the id of a deleted object could be
        # used again, and a part that refers to itself would be another one each time.
        self._stands_for: tuple[dict[int, Any], dict[int, Any]] = {}, {}

    def compare(self, old: Any, new: Any, path: str, depth: int) -> Iterator[SchemaChange]:
        """Return the changes between two subschemas; a pair that was compared before is left out."""
        before = self._stands_for[0].setdefault(id(old), _resolved(old, self._old))
        after = self._stands_for[1].setdefault(id(new), _resolved(new, self._new))
        if (id(before), id(after)) in self._seen or (before == after and not _has_references(before)):
            return
        self._seen.add((id(before), id(after)))
        if depth > MAX_DEPTH or not (is_mapping(before) and is_mapping(after)):
            yield path, _of_whole(before, after), "another schema"
            return
        yield from _wording(before, after, path)
        yield from _types(before, after, path)
        yield from _values(before, after, path)
        yield from _bounds(before, after, path)
        yield from self._objects(before, after, path, depth)
        yield from self._unions(before, after, path, depth)
        if "items" in before or "items" in after:
            one, other = before.get("items", _ANYTHING), after.get("items", _ANYTHING)
            yield from self.compare(one, other, f"{path}/items", depth + 1)
        if before.get("default", _ABSENT) != after.get("default", _ABSENT):
            yield f"{path}/default", "wider", f"the default was {_shown(before)} and is {_shown(after)}"
        for key in sorted((before.keys() | after.keys()) - _JUDGED):
            if before.get(key, _ABSENT) != after.get(key, _ABSENT):
                effect: Effect = "narrower" if key not in before else "wider" if key not in after else "changed"
                yield (
                    f"{path}/{key}",
                    effect,
                    f"{key} is {'new' if key not in before else 'gone' if key not in after else 'another'}",
                )

    def _objects(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: str, depth: int
    ) -> Iterator[SchemaChange]:
        old, new = _mapping(before, "properties"), _mapping(after, "properties")
        was, required = _names(before), _names(after)
        for name in old:
            if name not in new:
                closed = after.get("additionalProperties") is False
                yield f"{path}/properties/{name}", "narrower" if closed else "changed", f"{name!r} is gone"
        for name in new:
            if name not in old:
                if name in required:
                    yield f"{path}/properties/{name}", "narrower", f"{name!r} is new and required"
                else:
                    yield f"{path}/properties/{name}", "wider", f"{name!r} is new"
                continue
            yield from self.compare(old[name], new[name], f"{path}/properties/{name}", depth + 1)
        for name in sorted(required - was - (new.keys() - old.keys())):
            yield f"{path}/required", "narrower", f"{name!r} is required now"
        for name in sorted((was - required) & new.keys()):
            yield f"{path}/required", "wider", f"{name!r} is no longer required"
        one, other = before.get("additionalProperties", True), after.get("additionalProperties", True)
        if isinstance(one, bool) and isinstance(other, bool):
            if one != other:
                yield (
                    f"{path}/additionalProperties",
                    "wider" if other else "narrower",
                    f"other members are {'allowed' if other else 'refused'} now",
                )
        else:
            yield from self.compare(
                one if one is not True else _ANYTHING,
                other if other is not True else _ANYTHING,
                f"{path}/additionalProperties",
                depth + 1,
            )

    def _unions(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: str, depth: int
    ) -> Iterator[SchemaChange]:
        for key in ("anyOf", "oneOf"):
            old, new = before.get(key), after.get(key)
            if not is_list(old) or not is_list(new):
                if old != new:
                    yield f"{path}/{key}", "changed", f"{key} is {'gone' if new is None else 'new'}"
                continue
            if len(old) == len(new):
                for at, (one, other) in enumerate(zip(old, new, strict=True)):
                    yield from self.compare(one, other, f"{path}/{key}/{at}", depth + 1)
            elif all(branch in new for branch in old):
                yield f"{path}/{key}", "wider", f"{len(new) - len(old)} more choices"
            elif all(branch in old for branch in new):
                yield f"{path}/{key}", "narrower", f"{len(old) - len(new)} fewer choices"
            else:
                yield f"{path}/{key}", "changed", "other choices"


_ABSENT: Final = object()
_ANYTHING: Final[Mapping[str, Any]] = {}
_NOT_BESIDE: Final = frozenset({"$ref", "$defs", "definitions"})


def _shown(schema: Mapping[str, Any]) -> str:
    return repr(schema["default"])[:80] if "default" in schema else "absent"


def _of_whole(before: Any, after: Any) -> Effect:
    if after is False:
        return "narrower"
    if before is False or after is True or after == {}:
        return "wider"
    return "narrower" if before is True or before == {} else "changed"


def _wording(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    for key in sorted(_WORDING - {"$schema", "$id"}):
        if before.get(key) != after.get(key):
            yield (
                f"{path}/{key}",
                "wording",
                f"{key} is {'new' if key not in before else 'gone' if key not in after else 'another'}",
            )


def _types(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    if before.get("type") == after.get("type"):
        return
    old, new = _kinds(before), _kinds(after)
    if new > old:
        yield f"{path}/type", "wider", f"{_words(old)} became {_words(new)}"
    elif new < old:
        yield f"{path}/type", "narrower", f"{_words(old)} became {_words(new)}"
    elif old != new:
        yield f"{path}/type", "changed", f"{_words(old)} became {_words(new)}"


def _kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    kind = schema.get("type")
    found = (
        {kind}
        if isinstance(kind, str)
        else {each for each in kind if isinstance(each, str)}
        if is_list(kind)
        else _TYPES
    )
    return frozenset(found | {"integer"} if "number" in found else found)


def _words(kinds: frozenset[str]) -> str:
    return "anything" if kinds >= _TYPES else " or ".join(sorted(kinds - ({"integer"} if "number" in kinds else set())))


def _values(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    old, new = _choices(before), _choices(after)
    if old == new:
        return
    if old is None:
        yield f"{path}/enum", "narrower", "only some values are left"
    elif new is None:
        yield f"{path}/enum", "wider", "any value is possible"
    else:
        gone, added = [each for each in old if each not in new], [each for each in new if each not in old]
        if gone:
            yield f"{path}/enum", "narrower", f"without {', '.join(map(repr, gone[:10]))}"
        if added:
            yield f"{path}/enum", "wider", f"with {', '.join(map(repr, added[:10]))}"


def _choices(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if is_list(values) else None


def _bounds(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    for keys, sign in ((_LOWER, 1), (_UPPER, -1)):
        for key in keys:
            old, new = before.get(key), after.get(key)
            if old == new:
                continue
            if not isinstance(new, int | float):
                yield f"{path}/{key}", "wider", f"{key} is gone"
            elif not isinstance(old, int | float):
                yield f"{path}/{key}", "narrower", f"{key} {new} is new"
            else:
                yield (
                    f"{path}/{key}",
                    "narrower" if (new - old) * sign > 0 else "wider",
                    f"{key} was {old} and is {new}",
                )


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    return found if is_mapping(found) else {}


def _names(schema: Mapping[str, Any]) -> frozenset[str]:
    found = schema.get("required")
    return frozenset(each for each in found if isinstance(each, str)) if is_list(found) else frozenset()


def _has_references(schema: Any) -> bool:
    return (is_mapping(schema) and ("$ref" in schema or any(map(_has_references, schema.values())))) or (
        is_list(schema) and any(map(_has_references, schema))
    )


def _resolved(schema: Any, root: Any) -> Any:
    """Return what a local reference stands for, with the members beside it; the schema itself without one."""
    for _ in range(MAX_DEPTH):
        reference = schema.get("$ref") if is_mapping(schema) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = root
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if is_mapping(found) else None
        if not is_mapping(found):
            return schema
        beside = {key: value for key, value in schema.items() if key not in _NOT_BESIDE}
        schema = {**found, **beside} if beside else found
    return schema
