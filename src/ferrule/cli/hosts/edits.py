"""What the editors of TOML and YAML share: the check of an edit, quoted text, their error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ferrule.wire.json_types import is_mapping

__all__ = ["FormatError", "checked_edit", "quoted"]


class FormatError(ValueError):
    """A configuration file is malformed, or written in a form that is not edited here; it stays unchanged."""


def checked_edit(
    parse: Callable[[str], Any], before: str, after: str, key: str, name: str, entry: Mapping[str, Any] | None
) -> str:
    """Return the text after an edit, if it says what the text before said with the one entry changed.

    Args:
        parse: returns the document in a text.
        before, after: the texts.
        key: the member with the servers.
        name: the name of the server.
        entry: the new entry; ``None`` for a removed one.

    Raises:
        FormatError: it says something else.
    """
    expected = _without_empty(parse(before), key)
    servers = dict(expected.get(key) or {})
    servers.pop(name, None)
    if entry is not None:
        servers[name] = dict(entry)
    try:
        found = _without_empty(parse(after), key)
    except FormatError:
        found = {}
    rest = {each: value for each, value in expected.items() if each != key}
    if {each: value for each, value in found.items() if each != key} != rest or (found.get(key) or {}) != servers:
        raise FormatError(f"the servers in {key!r} are written in a form that cannot be edited here")
    return after


def _without_empty(document: Any, key: str) -> dict[str, Any]:
    if document is None:
        return {}
    if not is_mapping(document) or not (document.get(key) is None or is_mapping(document[key])):
        raise FormatError(f"{key} is not an object")
    return dict(document)


def quoted(text: str) -> str:
    """Return a text in double quotes with the escapes that TOML and YAML share."""
    made: list[str] = []
    for char in text:
        if char in '"\\':
            made.append(f"\\{char}")
        elif char.isprintable() and char != "\ufeff":
            made.append(char)
        else:
            made.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or _escaped(ord(char)))
    return f'"{"".join(made)}"'


def _escaped(number: int) -> str:
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"
