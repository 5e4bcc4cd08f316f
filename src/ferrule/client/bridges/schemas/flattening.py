"""Several schemas as one: the parts of ``allOf``, the branches of a union of objects, and what a reference names.

A union of objects becomes one object with the properties of all. That accepts more than the union, never less, and the
server still checks the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from ferrule.client.bridges.schemas.cleaning import Schema
from ferrule.wire.json_types import is_list, is_object

__all__ = ["is_objects", "merged", "one_object", "resolved"]

_LARGER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_MAX_STEPS = 100


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
        elif is_list(found) and name.isdecimal() and int(name) < len(found):
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
    for part in parts:
        for key, value in part.items():
            if key not in made:
                made[key] = value
            elif key in _LARGER:
                made[key] = max(made[key], value)
            elif key in _SMALLER:
                made[key] = min(made[key], value)
            elif key == "required":
                made[key] = [*made[key], *(name for name in value if name not in made[key])]
            elif key in ("properties", "patternProperties"):
                made[key] = _both(made[key], value, "allOf")
            elif key == "enum":
                made[key] = [each for each in made[key] if each in value] or made[key]
            elif key == "type":
                made[key] = _narrower(made[key], value)
            elif key == "allOf":
                made[key] = [*made[key], *value]
            elif key in ("description", "title", "default"):
                made[key] = value
            elif key == "additionalProperties":
                made[key] = value if made[key] is True else made[key]
    return made


def one_object(node: Schema, branches: Sequence[Schema]) -> Schema:
    """Return an object with its own properties and those of every branch of a union.

    The description says which properties only some branches need.

    Args:
        node: the object without the union.
        branches: its branches, cleaned and without references.
    """
    made: Schema = {**node, "type": "object"}
    own = set(node.get("required", ()))
    needs = [[name for name in branch.get("required", ()) if name not in own] for branch in branches]
    for branch in branches:
        known: Schema = made.get("properties", {})
        made["properties"] = _both(known, branch.get("properties", {}), "anyOf")
        if made.get("additionalProperties") is not False and is_object(branch.get("additionalProperties")):
            made.setdefault("additionalProperties", branch["additionalProperties"])
    shared = [name for name in needs[0] if all(name in need for need in needs)] if needs else []
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


def _both(first: Schema, second: Schema, word: str) -> Schema:
    made = dict(first)
    for name, part in second.items():
        if name in made and made[name] != part:
            known: Any = made[name]
            if is_object(known) and known.keys() == {word}:
                made[name] = known if part in known[word] else {word: [*known[word], part]}
            else:
                made[name] = {word: [known, part]}
        else:
            made[name] = part
    return made


def _narrower(first: Any, second: Any) -> Any:
    one = first if is_list(first) else [first]
    two = second if is_list(second) else [second]
    kept = [kind for kind in one if kind in two or (kind == "integer" and "number" in two)]
    kept += [kind for kind in two if kind == "integer" and "number" in one and kind not in kept]
    if not kept:
        return first
    return kept[0] if len(kept) == 1 else kept
