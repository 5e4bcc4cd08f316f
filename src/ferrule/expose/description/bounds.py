"""Adds to a schema the definitions that it uses, within a maximum size.

Large descriptions have groups of definitions that all lead to each other, so that every operation would carry all of
them. The work for one schema follows from its own size and from the bound, never from the size of the document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ferrule.expose.description.keywords import MAPS, without_keywords
from ferrule.expose.description.schemas import Definition, SchemaConverter
from ferrule.expose.operations import Schema
from ferrule.wire.codec import encode
from ferrule.wire.json_types import is_list, is_object

__all__ = ["complete"]

MAX_ARGUMENT_DESCRIPTION = 200
"""Maximum number of characters of an argument's description in a shortened schema."""

_FORMS: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"examples", "deprecated"}),
    frozenset({"examples", "deprecated", "description", "title", "default"}),
)
"""Sets of keywords that are removed from inner schemas, in this order, until the schema fits."""

_PREFIX = "#/$defs/"
_NAMED = MAPS | {"$defs"}
_WRAPPING_BYTES = 16


def complete(
    schema: dict[str, Any], used: Iterable[str], converter: SchemaConverter, max_bytes: int, notes: list[str]
) -> dict[str, Any]:
    """Return a schema with the ``$defs`` that it uses.

    A schema of more than ``max_bytes`` is reduced until it fits: without examples; without descriptions of inner
    members; without its farthest definitions, which then accept any value of their type; at last with only the types of
    its members.

    Args:
        schema: the converted schema.
        used: absolute references of the definitions that the schema itself uses.
        converter: the converter that made it.
        max_bytes: its maximum size as JSON.
        notes: descriptions of removed and repaired parts are appended.

    Raises:
        UnresolvedReference: a definition refers to a document that may not be fetched.
    """
    first = list(used)
    max_bytes -= _WRAPPING_BYTES if first else 0
    for form in _FORMS:
        root = _shortened(schema, form) if form else schema
        found = _all_definitions(first, converter, form, max_bytes - len(encode(root)))
        if found is not None:
            if form:
                notes.append("a schema was shortened: inner descriptions and examples are left out")
            return _joined(root, found, form, {}, notes)
    form = _FORMS[-1]
    root = _shortened(schema, form)
    room = max_bytes - len(encode(root))
    if room >= 0:
        kept, stubs = _nearest_definitions(first, converter, form, room)
        notes.append("a schema was simplified: some nested objects accept any members")
        return _joined(root, kept, form, stubs, notes)
    notes.append("a schema was simplified: its members accept any value of their type")
    return _types_only(schema, max_bytes)


def _all_definitions(
    used: Iterable[str], converter: SchemaConverter, form: frozenset[str], room: int
) -> list[Definition] | None:
    """Return all definitions that are reached; ``None`` once they are larger than ``room`` bytes."""
    todo = deque(used)
    seen = set(todo)
    found: list[Definition] = []
    while todo:
        if room < 0:
            return None
        definition = converter.definition(todo.popleft())
        room -= definition.form(form)[1]
        found.append(definition)
        for reference in definition.references:
            if reference not in seen:
                seen.add(reference)
                todo.append(reference)
    return found if room >= 0 else None


def _nearest_definitions(
    used: Iterable[str], converter: SchemaConverter, form: frozenset[str], room: int
) -> tuple[list[Definition], dict[str, Schema]]:
    """Return the definitions that fit, nearest first, and by name the replacements of the others."""
    todo = deque(used)
    seen = set(todo)
    kept: list[Definition] = []
    stubs: dict[str, Schema] = {}
    while todo:
        definition = converter.definition(todo.popleft())
        size = definition.form(form)[1]
        if size > room:
            kind: Any = definition.schema.get("type") if is_object(definition.schema) else None
            stubs[definition.name] = {"type": kind} if isinstance(kind, str) else {}
            continue
        room -= size
        kept.append(definition)
        for reference in definition.references:
            if reference not in seen:
                seen.add(reference)
                todo.append(reference)
    return kept, stubs


def _joined(
    root: dict[str, Any],
    definitions: list[Definition],
    form: frozenset[str],
    stubs: dict[str, Schema],
    notes: list[str],
) -> dict[str, Any]:
    inexact = {definition.name for definition in definitions if definition.is_inexact}
    made: dict[str, Any] = {}
    for definition in definitions:
        made[definition.name] = definition.form(form)[0]
        if len(notes) < 100:
            notes += definition.notes
    if stubs or inexact:
        root = _loosened(root, stubs, inexact)
        made = {name: _loosened(part, stubs, inexact) for name, part in made.items()}
    return {**root, "$defs": dict(sorted(made.items()))} if made else root


def _loosened(value: Any, stubs: dict[str, Schema], inexact: set[str]) -> Any:
    """Return a schema without references to definitions that are missing.

    A part that accepts more than described must not make another part refuse more: in ``oneOf``, several alternatives
    could then fit, and below ``not`` and ``if`` it would exclude too much.
    """
    if is_list(value):
        return [_loosened(part, stubs, inexact) for part in value]
    if not is_object(value):
        return value
    made: dict[str, Any] = {}
    for name, part in value.items():
        if name == "$ref" and isinstance(part, str) and part.removeprefix(_PREFIX) in stubs:
            stub = stubs[part.removeprefix(_PREFIX)]
            made.update(stub if is_object(stub) else {})
        elif name in ("not", "if") and _refers(part, stubs, inexact):
            continue
        elif name == "oneOf" and "anyOf" not in value and _refers(part, stubs, inexact):
            made["anyOf"] = _loosened(part, stubs, inexact)
        elif name in ("enum", "const", "required", "dependentRequired", "default", "examples"):
            made[name] = part
        elif name in _NAMED and is_object(part):
            made[name] = {key: _loosened(inner, stubs, inexact) for key, inner in part.items()}
        else:
            made[name] = _loosened(part, stubs, inexact)
    return made


def _refers(value: Any, stubs: dict[str, Schema], inexact: set[str]) -> bool:
    """Return whether a schema, or a list of schemas, refers itself to a definition that is missing or inexact."""
    parts: list[Any] = list(value) if is_list(value) else [value]
    while parts:
        part = parts.pop()
        if not is_object(part):
            continue
        reference = part.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix(_PREFIX)
            if name in stubs or name in inexact:
                return True
        inner = part.get("allOf")
        if is_list(inner):
            parts.extend(inner)
    return False


def _shortened(schema: dict[str, Any], keywords: frozenset[str]) -> dict[str, Any]:
    """Return a schema whose inner schemas lack some keywords; descriptions of the members themselves stay."""
    made: dict[str, Any] = without_keywords(schema, keywords)
    properties: Any = schema.get("properties")
    for name, part in properties.items() if is_object(properties) else ():
        if is_object(part) and isinstance(part.get("description"), str) and is_object(made["properties"][name]):
            made["properties"][name]["description"] = part["description"][:MAX_ARGUMENT_DESCRIPTION]
    return made


def _types_only(schema: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    properties: Any = schema.get("properties")
    for keywords in (("type", "enum"), ("type",), ()):
        plain = {
            name: {keyword: part[keyword] for keyword in keywords if keyword in part} if is_object(part) else part
            for name, part in (properties.items() if is_object(properties) else ())
        }
        made: dict[str, Any] = {"type": schema.get("type", "object")}
        if plain:
            made["properties"] = plain
        if "required" in schema:
            made["required"] = schema["required"]
        if schema.get("additionalProperties") is False:
            made["additionalProperties"] = False
        if len(encode(made)) <= max_bytes:
            return made
    return {"type": schema.get("type", "object")}
