"""Edits one table of a TOML file, ``[mcp_servers.name]`` with the tables below it, and keeps all other text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from ferrule.cli.hosts.edits import FormatError, checked_edit, quoted
from ferrule.wire.json_types import is_list, is_mapping, is_object

__all__ = ["parse", "remove_entry", "set_entry"]

_HEADER: Final = re.compile(r"[ \t]*\[.*\][ \t]*(?:#.*)?\r?\n?")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def parse(text: str) -> dict[str, Any]:
    """Return the document.

    Raises:
        FormatError: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(str(error)) from error


def set_entry(text: str, key: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with the table of a server added at the end, or replaced.

    Raises:
        FormatError: the text is not TOML, or the server is written in another form than a table.
    """
    parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    written = newline.join([*_table([key, name], entry), ""])
    lines = text.splitlines(keepends=True)
    own = _own_tables(lines, key, name)
    if own:
        start = own[0][0]
        for first, end in reversed(own):
            del lines[first:end]
        lines[start:start] = [written]
        after = "".join(lines)
    else:
        gap = "" if not text or text.endswith("\n") else newline
        after = f"{text}{gap}{newline if text.strip() else ''}{written}"
    return checked_edit(parse, text, after, key, name, entry)


def remove_entry(text: str, key: str, name: str) -> str:
    """Return the text without the tables of a server; unchanged if there are none.

    Raises:
        FormatError: as `set_entry`.
    """
    lines = text.splitlines(keepends=True)
    for first, end in reversed(_own_tables(lines, key, name)):
        if first > 0 and not lines[first - 1].strip() and (end == len(lines) or not lines[end].strip()):
            first -= 1  # the empty line that separated it
        del lines[first:end]
    return checked_edit(parse, text, "".join(lines), key, name, None)


def _own_tables(lines: list[str], key: str, name: str) -> list[tuple[int, int]]:
    """Return first line and end of the tables of a server; comments before the next table belong to that one."""
    headers: list[int] = []
    for at, line in enumerate(lines):
        # From the last header on: a table is a document of its own, and a long file is read once.
        if _HEADER.fullmatch(line) and _is_document("".join(lines[headers[-1] if headers else 0 : at])):
            headers.append(at)
    found: list[tuple[int, int]] = []
    for at, end in zip(headers, [*headers, len(lines)][1:], strict=True):
        if _path_of(lines[at])[:2] != [key, name]:
            continue
        while end > at + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        if found and not "".join(lines[found[-1][1] : at]).strip():  # only empty lines between two of them
            at = found.pop()[0]
        found.append((at, end))
    return found


def _is_document(text: str) -> bool:
    """Return whether a text is complete: a line behind it is in no string and no array that it has opened."""
    try:
        parse(text)
    except FormatError:
        return False
    return True


def _path_of(header: str) -> list[str]:
    """Return the keys of a header; a table of an array has an end of its own, which is no server."""
    try:
        found: Any = parse(header)
    except FormatError:
        return []
    path: list[str] = []
    while is_object(found) and found:
        path.append(next(iter(found)))
        found = found[path[-1]]
    return path


def _table(path: list[str], entry: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table, with its objects as tables behind it."""
    lines = [f"[{'.'.join(_key(part) for part in path)}]"]
    lines += [f"{_key(name)} = {_written(value)}" for name, value in entry.items() if not is_mapping(value)]
    for name, value in entry.items():
        if is_mapping(value):
            lines += ["", *_table([*path, name], value)]
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_list(value):
        return f"[{', '.join(_written(part) for part in value)}]"
    return str(value) if isinstance(value, int | float) else quoted(str(value))
