"""Several schemas as one: the parts of ``allOf``, the branches of a union of objects, and what a reference names.

A union of objects becomes one object with the properties of all. That accepts more than the union, never less, and the
server still checks the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from ferrule.client.bridges.schemas.cleaning import Schema, value_key
from ferrule.wire.json_types import is_list, is_object

__all__ = ["is_objects", "merged", "one_object", "resolved"]

_LARGER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_MAX_STEPS = 100
_MAX_DIGITS = 9
"""Of an index in a reference; Python refuses to convert thousands of them."""


def resolved(root: Any, reference: str) -> Any:
    """Return what a local reference names (``#``, a JSON pointer or an anchor); ``None`` for any other.

    Other documents are not fetched.
    """
    if not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return _anchored(root, pointer)
    found: Any = root
    for step in pointer.split("/")[1 : _MAX_STEPS + 1]:
        name = step.replace("~1", "/").replace("~0", "~")
        if is_object(found) and name in found:
            found = found[name]
        elif is_list(found) and name.isdecimal() and len(name) <= _MAX_DIGITS and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def _anchored(root: Any, anchor: str) -> Any:
    for key in ("$defs", "definitions"):
        parts: Any = root.get(key) if is_object(root) else None
        for part in parts.values() if is_object(parts) else ():
            if is_object(part) and part.get("$anchor") == anchor:
                return part
    return None


def merged(parts: Sequence[Schema]) -> Schema:
    """Return one node for cleaned nodes that all hold: bounds by the tightest, properties by all, other words by the
    first that has them. The last description wins, since it is the nearest to the place."""
    made: Schema = {}
    properties = {key: _Properties("allOf") for key in ("properties", "patternProperties")}
    needed: dict[str, None] = {}
    values: dict[Any, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key in properties:
                properties[key].add(value)
                made.setdefault(key, None)
            elif key == "required":
                needed.update(dict.fromkeys(value))
                made.setdefault(key, None)
            elif key not in made:
                made[key] = value
            elif key == "enum":
                values = _values_of_both(values or {value_key(each): each for each in made[key]}, value)
            elif key in _LARGER:
                made[key] = max(made[key], value)
            elif key in _SMALLER:
                made[key] = min(made[key], value)
            elif key == "type":
                made[key] = _narrower(made[key], value)
            elif key == "allOf":
                made[key] = [*made[key], *value]
            elif key in ("description", "title", "default"):
                made[key] = value
            elif key == "additionalProperties":
                made[key] = value if made[key] is True else made[key]
    if "required" in made:
        made["required"] = list(needed)
    if values:
        made["enum"] = list(values.values())
    made.update((key, parts.joined()) for key, parts in properties.items() if key in made)
    return made


def _values_of_both(first: dict[Any, Any], second: list[Any]) -> dict[Any, Any]:
    """Return the values of a set, by their keys, that another set has too; all of them if it has none."""
    kept = {key for key in map(value_key, second) if key in first}
    return {key: value for key, value in first.items() if key in kept} if kept else first


def one_object(node: Schema, branches: Sequence[Schema]) -> Schema:
    """Return an object with its own properties and those of every branch of a union.

    The description says which properties only some branches need.

    Args:
        node: the object without the union.
        branches: its branches, cleaned and without references.
    """
    made: Schema = {**node, "type": "object"}
    own = set(node.get("required", ()))
    needs = [{name: None for name in branch.get("required", ()) if name not in own} for branch in branches]
    properties = _Properties("anyOf")
    for each in (node, *branches):
        properties.add(each.get("properties", {}))
    made["properties"] = properties.joined()
    for branch in branches:
        if made.get("additionalProperties") is not False and is_object(branch.get("additionalProperties")):
            made.setdefault("additionalProperties", branch["additionalProperties"])
    shared = {name: None for name in needs[0] if all(name in need for need in needs)} if needs else {}
    if shared or own:
        made["required"] = [*node.get("required", ()), *shared]
    groups = [[name for name in need if name not in shared] for need in needs]
    if any(groups):
        text = "Give " + ", or ".join(
            " and ".join(f"`{name}`" for name in group) or "none of these" for group in groups
        )
        made["description"] = f"{made['description']} ({text})" if made.get("description") else text
    if all(branch.get("additionalProperties") is False for branch in branches) and branches:
        made.setdefault("additionalProperties", False)
    return made


def is_objects(nodes: Sequence[Schema]) -> bool:
    """Return whether all nodes are objects."""
    return all(node.get("type") == "object" for node in nodes)


class _Properties:
    """The properties of several objects; a name with different schemas gets them all under one keyword.

    Args:
        word: the keyword.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._schemas: dict[str, list[Any]] = {}
        self._keys: dict[str, set[Any]] = {}

    def add(self, properties: Schema) -> None:
        """Add the properties of one object."""
        for name, schema in properties.items():
            known = self._schemas.setdefault(name, [])
            if known and name not in self._keys:
                if known[0] == schema:
                    continue
                if is_object(known[0]) and known[0].keys() == {self._word} and is_list(known[0][self._word]):
                    known[:] = known[0][self._word]
                self._keys[name] = {value_key(each) for each in known}
            if known:
                key = value_key(schema)
                if key in self._keys[name]:
                    continue
                self._keys[name].add(key)
            known.append(schema)

    def joined(self) -> Schema:
        """Return the schema of each name."""
        return {name: each[0] if len(each) == 1 else {self._word: each} for name, each in self._schemas.items()}


def _narrower(first: Any, second: Any) -> Any:
    one = first if is_list(first) else [first]
    two = second if is_list(second) else [second]
    kept = [kind for kind in one if kind in two or (kind == "integer" and "number" in two)]
    kept += [kind for kind in two if kind == "integer" and "number" in one and kind not in kept]
    if not kept:
        return first
    return kept[0] if len(kept) == 1 else kept
