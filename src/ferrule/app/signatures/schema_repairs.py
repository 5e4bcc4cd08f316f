"""Arguments that do not fit a schema of an author's, with the repairs that `coercion` makes for declared types.

Models send lists and objects as JSON text, numbers in quotes, and null for what they leave out. Members at the top are
repaired, always to what the schema declares and never to text; everything is checked again afterwards.
"""

from __future__ import annotations

from typing import Any

from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["repaired"]

_MAX_STEPS = 64
"""Maximum number of parts of one member's schema that are looked at for its types."""

_KINDS: dict[object, frozenset[str]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number", "integer"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}


def repaired(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with what is repaired; the same object where nothing is.

    * JSON text where the member has types and text is none of them: ``"[1, 2]"``, ``"5"``, ``"true"``.
    * null where the member has types and null is none of them, and it is not required: it counts as left out.

    Args:
        arguments: that do not fit.
        schema: a JSON Schema of an object.
    """
    properties: Any = schema.get("properties")
    if not is_object(properties):
        return arguments
    required: Any = schema.get("required", ())
    made: dict[str, Any] = {}
    changed = False
    for name, value in arguments.items():
        if (value is None or isinstance(value, str)) and name in properties:
            kinds = _kinds(properties[name], schema)
            if value is None and kinds and "null" not in kinds and name not in required:
                changed = True
                continue
            if isinstance(value, str) and kinds and "string" not in kinds:
                found = _value_of(value, kinds)
                changed = changed or found is not value
                value = found
        made[name] = value
    return made if changed else arguments


def _value_of(text: str, kinds: frozenset[str]) -> Any:
    """Return the value of a JSON text that is of one of these types; the text itself if it is not."""
    try:
        found = decode(text)
    except DecodeError:
        return text
    return found if _kinds_of(found) & kinds else text


def _kinds_of(value: object) -> frozenset[str]:
    return _KINDS.get(type(value), frozenset())


def _kinds(part: Any, schema: dict[str, Any]) -> frozenset[str]:
    """Return the types that a member may have; none where its schema does not say them all."""
    found: set[str] = set()
    todo: list[Any] = [part]
    for _ in range(_MAX_STEPS):
        if not todo:
            return frozenset(found)
        here = todo.pop()
        if not is_object(here):
            return frozenset()
        reference, alternatives = here.get("$ref"), here.get("anyOf") or here.get("oneOf")
        kind: Any = here.get("type")
        if kind is not None:
            found.update(kind if is_list(kind) else [kind])
        elif "const" in here or is_list(here.get("enum")):
            for value in here.get("enum") or [here.get("const")]:
                found |= _kinds_of(value)
        elif isinstance(reference, str) and reference.startswith("#/$defs/"):
            definitions: Any = schema.get("$defs")
            todo.append(definitions.get(reference.removeprefix("#/$defs/")) if is_object(definitions) else None)
        elif is_list(alternatives):
            todo += alternatives
        else:
            return frozenset()
    return frozenset()
