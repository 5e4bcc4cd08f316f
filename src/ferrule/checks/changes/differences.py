"""`differences`: what changed between two versions of a server, and whether callers of the old one notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from ferrule.checks.changes.schema_changes import Effect, schema_changes
from ferrule.checks.picture import KINDS, ServerPicture
from ferrule.protocol.digests import DEFINITION_KEYS
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import Value

__all__ = ["CATEGORIES", "Category", "Difference", "differences"]

Category: TypeAlias = Literal["breaking", "compatible", "wording"]

CATEGORIES: Final[tuple[Category, ...]] = ("breaking", "compatible", "wording")
"""From the gravest to the least."""

_WORDS: Final = ("title", "description")
_INPUT: Final[dict[Effect, Category]] = {
    "narrower": "breaking",
    "wider": "compatible",
    "changed": "breaking",
    "wording": "wording",
}
_OUTPUT: Final[dict[Effect, Category]] = {
    "narrower": "compatible",
    "wider": "breaking",
    "changed": "breaking",
    "wording": "wording",
}


class Difference(Value, frozen=True):
    """One change.

    Attributes:
        category: ``breaking``: a caller or reader of the old version may fail; ``compatible``: it goes on;
            ``wording``: only what people and models read.
        kind: ``tools``, ``resources``, ``templates``, ``prompts`` or ``server``.
        name: the name or the URI; empty for the server.
        path: a JSON pointer into the definition; empty for all of it.
        message: what changed.
    """

    category: Category
    kind: str
    name: str
    path: str
    message: str


def differences(old: ServerPicture, new: ServerPicture) -> list[Difference]:
    """Return what changed from one version to another: the gravest first, then in the order of the lists."""
    made = list(_server(old, new))
    for kind in KINDS:
        key = DEFINITION_KEYS[kind]
        before = {str(each.get(key, "")): each for each in old.definitions(kind)}
        after = {str(each.get(key, "")): each for each in new.definitions(kind)}
        made += [Difference("breaking", kind, name, "", "is gone") for name in before if name not in after]
        made += [Difference("compatible", kind, name, "", "is new") for name in after if name not in before]
        for name in before:
            if name in after:
                made += _definition(kind, name, before[name], after[name])
    made.sort(key=lambda each: CATEGORIES.index(each.category))
    return made


def _server(old: ServerPicture, new: ServerPicture) -> Iterator[Difference]:
    for label in ("name", "version", "instructions"):
        one, other = str(getattr(old, label)), str(getattr(new, label))  # attributes of the value, by their names
        if one != other:
            shown = "changed" if label == "instructions" else f"was {one!r} and is {other!r}"
            yield Difference("wording", "server", "", f"/{label}", f"{label} {shown}")


def _definition(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for key in _WORDS:
        if (old.get(key) or "") != (new.get(key) or ""):
            yield Difference("wording", kind, name, f"/{key}", f"the {key} changed")
    if kind == "tools":
        yield from _tool(name, old, new)
    elif kind == "prompts":
        yield from _arguments(name, old.get("arguments"), new.get("arguments"))
    elif old.get("mimeType") != new.get("mimeType"):
        words = f"the media type was {old.get('mimeType')!r} and is {new.get('mimeType')!r}"
        yield Difference("breaking", kind, name, "/mimeType", words)


def _tool(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for path, effect, words in schema_changes(old.get("inputSchema") or {}, new.get("inputSchema") or {}):
        yield Difference(_INPUT[effect], "tools", name, f"/inputSchema{path}", f"argument: {words}")
    before, after = old.get("outputSchema"), new.get("outputSchema")
    if before is not None and after is None:
        yield Difference("breaking", "tools", name, "/outputSchema", "the schema of the result is gone")
    elif before is None and after is not None:
        yield Difference("compatible", "tools", name, "/outputSchema", "the result has a schema now")
    elif before is not None:
        for path, effect, words in schema_changes(before, after):
            yield Difference(_OUTPUT[effect], "tools", name, f"/outputSchema{path}", f"result: {words}")
    yield from _hints(name, old.get("annotations"), new.get("annotations"))


def _hints(name: str, old: Any, new: Any) -> Iterator[Difference]:
    """Return changes of annotations: one that makes a host ask where it did not is breaking."""
    before: Mapping[str, Any] = old if is_mapping(old) else {}
    after: Mapping[str, Any] = new if is_mapping(new) else {}
    for hint in sorted(before.keys() | after.keys()):
        one, other = before.get(hint), after.get(hint)
        if one == other:
            continue
        category: Category = "wording" if hint == "title" else "compatible"
        if (hint == "readOnlyHint" and one is True) or (hint == "destructiveHint" and one is False):
            category = "breaking"
        yield Difference(category, "tools", name, f"/annotations/{hint}", f"{hint} was {one} and is {other}")


def _arguments(name: str, old: Any, new: Any) -> Iterator[Difference]:
    before, after = _by_name(old), _by_name(new)
    for each in before:
        if each not in after:
            yield Difference("breaking", "prompts", name, f"/arguments/{each}", f"the argument {each!r} is gone")
    for each, argument in after.items():
        is_required = bool(argument.get("required"))
        if each not in before:
            category: Category = "breaking" if is_required else "compatible"
            words = f"the argument {each!r} is new{' and required' if is_required else ''}"
            yield Difference(category, "prompts", name, f"/arguments/{each}", words)
            continue
        if is_required != bool(before[each].get("required")):
            words = f"the argument {each!r} is {'required now' if is_required else 'no longer required'}"
            yield Difference("breaking" if is_required else "compatible", "prompts", name, f"/arguments/{each}", words)
        if (argument.get("description") or "") != (before[each].get("description") or ""):
            words = f"the description of {each!r} changed"
            yield Difference("wording", "prompts", name, f"/arguments/{each}/description", words)


def _by_name(arguments: Any) -> dict[str, Mapping[str, Any]]:
    return {str(each.get("name", "")): each for each in arguments if is_mapping(each)} if is_list(arguments) else {}
