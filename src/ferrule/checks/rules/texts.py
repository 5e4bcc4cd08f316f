"""The rules about descriptions: missing, long, alike, and parameters without any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern

__all__ = ["check_texts"]

MAX_DESCRIPTION: Final = 1024
MAX_INSTRUCTIONS: Final = 512
_SHORT: Final = 20
_WORD = pattern(r"[^\W_]+")
_BREAK = pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_SMALL_WORDS: Final = frozenset({"a", "an", "the", "of", "for", "to", "and", "this", "tool", "function"})


def check_texts(picture: ServerPicture) -> Iterator[RuleFinding]:
    """Return the findings about descriptions: F10 to F16."""
    if len(picture.instructions) > MAX_INSTRUCTIONS:
        yield RuleFinding(
            "F16", "server", "", "/instructions", f"has {len(picture.instructions)} characters of instructions"
        )
    said: dict[str, str] = {}
    for kind, name, definition in picture.named():
        text = _text(definition.get("description"))
        if not text:
            yield RuleFinding("F10" if kind == "tools" else "F11", kind, name, "", "has no description")
        elif kind == "tools":
            yield from _description(name, text, said)
        if kind == "tools":
            yield from _parameters(name, definition.get("inputSchema"))
        elif kind == "prompts":
            yield from _arguments(name, definition.get("arguments"))


def _description(name: str, text: str, said: dict[str, str]) -> Iterator[RuleFinding]:
    if len(text) > MAX_DESCRIPTION:
        yield RuleFinding("F14", "tools", name, "/description", f"has a description of {len(text):,} characters")
    words = " ".join(_words(text))
    if words and words in said:
        yield RuleFinding("F12", "tools", name, "/description", f"has the same description as {said[words]!r}")
    said.setdefault(words, name)
    if set(_words(text)) <= set(_words(name)):
        yield RuleFinding("F13", "tools", name, "/description", f"says {text!r}, which only repeats the name")


def _words(text: str) -> list[str]:
    """Return the words of a text or a name that mean something, in lower case, without a plural ``s``."""
    words = [word.lower() for word in _WORD.findall(_BREAK.sub(" ", text.replace("_", " ")))]
    return [word.rstrip("s") for word in words if word not in _SMALL_WORDS]


def _parameters(name: str, schema: Any) -> Iterator[RuleFinding]:
    properties = schema.get("properties") if is_mapping(schema) else None
    if not is_mapping(properties):
        return
    bare = [each for each, part in properties.items() if not (is_mapping(part) and _is_described(part))]
    if bare:
        yield RuleFinding("F15", "tools", name, "/inputSchema/properties", f"does not describe {_listed(bare)}")


def _is_described(part: Any) -> bool:
    return bool(_text(part.get("description")) or "enum" in part or "const" in part or "$ref" in part)


def _arguments(name: str, arguments: Any) -> Iterator[RuleFinding]:
    named = [each for each in arguments if is_mapping(each)] if is_list(arguments) else []
    bare = [str(each.get("name", "")) for each in named if not _text(each.get("description"))]
    if bare:
        yield RuleFinding("F15", "prompts", name, "/arguments", f"does not describe {_listed(bare)}")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_SHORT])
    return shown if len(names) <= _SHORT else f"{shown} and {len(names) - _SHORT} more"


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
