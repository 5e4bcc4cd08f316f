"""Edits JSON with comments in place, for hosts' configuration files, which users also edit.

`set_member` and `remove_member` change one member of one object and keep every other byte: comments, order, unknown
keys, indentation, trailing commas, line ends, a byte order mark. The document is not parsed and written again: the text
is scanned for the position of the member, and only that part is replaced.

Accepted beyond JSON: ``//`` and ``/* */`` comments, and a comma after the last member.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["JsoncError", "as_mapping", "parse_jsonc", "remove_member", "set_member"]

_MAX_DEPTH: Final = 200


class JsoncError(ValueError):
    """The text is not JSON, even with comments allowed; the message names line and column."""


@dataclass(slots=True)
class _Member:
    """``"key": value`` in the text; offsets of the key, and of the value's first and last character plus one."""

    key: str
    start: int
    value: _Node


@dataclass(slots=True)
class _Node:
    start: int
    end: int
    value: Any
    members: list[_Member] | None = None
    has_trailing_comma: bool = False
    items: list[_Node] = field(default_factory=list["_Node"])


def parse_jsonc(text: str) -> Any:
    """Return the value; ``None`` for an empty text (comments and spaces only).

    Raises:
        JsoncError: it is malformed.
    """
    root = _Scanner(text).document()
    return None if root is None else root.value


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the member at ``path`` set; missing objects on the path are added.

    Args:
        text: a document whose root is an object, or an empty text.
        path: keys from the root; at least one.
        value: JSON-shaped.

    Raises:
        JsoncError: the text is malformed, or a member on the path is not an object.
    """
    style = _Style.of(text)
    root = _Scanner(text).document()
    if root is None:
        nested = _nested(path, value)
        gap = "" if not text or text.endswith(("\n", "\ufeff")) else style.newline
        return f"{text}{gap}{style.written(nested, 0)}{style.newline}"
    node = root
    for depth, key in enumerate(path):
        if node.members is None:
            raise JsoncError(f"{'.'.join(path[:depth]) or 'the document'} is not an object")
        found = next((member for member in reversed(node.members) if member.key == key), None)
        if found is None:
            return _insert(text, node, key, _nested(path[depth + 1 :], value), depth + 1, style)
        node = found.value
    written = style.written(value, len(path))
    return text[: node.start] + written + text[node.end :]


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at ``path``; unchanged if there is none.

    All members of the name are removed: parsers take one of them, mostly the last.

    Raises:
        JsoncError: the text is malformed.
    """
    node = _Scanner(text).document()
    for key in path[:-1]:
        if node is None or node.members is None:
            return text
        node = next((member.value for member in reversed(node.members) if member.key == key), None)
    if node is None or node.members is None:
        return text
    named = [at for at, member in enumerate(node.members) if member.key == path[-1]]
    if not named:
        return text
    at = named[0]
    member = node.members[at]
    start, end = member.start, member.value.end
    comma = _next_comma(text, end, node.end - 1)
    cuts: list[tuple[int, int]] = []
    if comma is not None:
        end = comma + 1
    elif at > 0:  # the comma before it is removed instead
        before = _next_comma(text, node.members[at - 1].value.end, start)
        assert before is not None
        cuts.append((before, before + 1))
    line, rest = _line_start(text, start), _to_line_end(text, end)
    if rest is not None and (line == 0 or text[line - 1] in "\r\n"):
        cuts.append((line, rest))
    elif cuts and not text[cuts[0][1] : start].strip():
        cuts = [(cuts[0][0], end)]
    else:
        while comma is not None and text[end : end + 1] == " ":
            end += 1
        cuts.append((start, end))
    for cut_start, cut_end in reversed(cuts):
        text = text[:cut_start] + text[cut_end:]
    return text if len(named) == 1 else remove_member(text, path)


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _insert(text: str, node: _Node, key: str, value: Any, depth: int, style: _Style) -> str:
    """Return the text with a new last member in an object, indented like its other members."""
    assert node.members is not None
    written = f"{json.dumps(key, ensure_ascii=False)}: "
    if not node.members:
        body = f"{style.newline}{style.indent * depth}{written}{style.written(value, depth)}{style.newline}"
        inside = text[node.start + 1 : node.end - 1]
        kept = inside.rstrip(" \t\r\n") if inside.strip() else ""  # a comment in an empty object stays
        return f"{text[: node.start + 1]}{kept}{body}{style.indent * (depth - 1)}{text[node.end - 1 :]}"
    last = node.members[-1]
    is_inline = "\n" not in text[node.start : node.end]
    end = last.value.end
    comma = _next_comma(text, end, node.end) if node.has_trailing_comma else None
    if is_inline:
        flat = json.dumps(value, ensure_ascii=False)
        at = end if comma is None else comma + 1
        return f"{text[:at]}{',' if comma is None else ''} {written}{flat}{text[at:]}"
    indent = _indent_of(text, last.start)
    made = style.written(value, depth, indent)
    if comma is None:
        # A comment behind the last member stays beside it: the comma goes before the comment, the new line after.
        line_end = _line_end(text, end, node.end - 1)
        tail = text[end:line_end]
        return f"{text[:end]},{tail}{style.newline}{indent}{written}{made}{text[line_end:]}"
    line_end = _line_end(text, comma + 1, node.end - 1)
    return f"{text[:line_end]}{style.newline}{indent}{written}{made},{text[line_end:]}"


def _line_end(text: str, start: int, limit: int) -> int:
    """Return the offset of the line's end, after a comment, or ``start`` if anything else follows on the line."""
    at = start
    while at < limit:
        character = text[at]
        if character in "\r\n":
            return at
        if text.startswith("//", at):
            found = min((p for p in (text.find("\n", at), text.find("\r", at)) if p >= 0), default=limit)
            return min(found, limit)
        if text.startswith("/*", at):
            found = text.find("*/", at)
            if "\n" in text[at:found]:
                return start
            at = found + 2
        elif character in " \t":
            at += 1
        else:
            return start
    return start


def _line_start(text: str, at: int) -> int:
    """Return the offset of the line's start if only spaces are before ``at`` on it; else ``at``."""
    start = at
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    return start if start == 0 or text[start - 1] in "\r\n" else at


def _to_line_end(text: str, at: int) -> int | None:
    """Return the offset of the next line if only spaces follow on this one; else ``None``."""
    while at < len(text) and text[at] in " \t":
        at += 1
    if text.startswith("\r\n", at):
        return at + 2
    if at < len(text) and text[at] in "\r\n":
        return at + 1
    return None


def _next_comma(text: str, start: int, limit: int) -> int | None:
    at = _skip_space(text, start)
    return at if at < limit and text[at] == "," else None


def _indent_of(text: str, at: int) -> str:
    start = at
    while start > 0 and text[start - 1] not in "\r\n":
        start -= 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class _Style:
    """The indentation and line ends of a file."""

    indent: str
    newline: str

    @classmethod
    def of(cls, text: str) -> _Style:
        """Return the style of a text, by its first indented line and its first line end."""
        newline = "\r\n" if "\r\n" in text else "\n"
        for line in text.splitlines():
            stripped = line.lstrip(" \t")
            if stripped.startswith(('"', "}")) and len(stripped) < len(line):
                return cls(line[: len(line) - len(stripped)], newline)
        return cls("  ", newline)

    def written(self, value: Any, depth: int, indent: str | None = None) -> str:
        """Return a value as JSON on several lines; the first one is not indented."""
        text = json.dumps(value, indent=self.indent, ensure_ascii=False)
        margin = self.indent * depth if indent is None else indent
        first, *rest = text.split("\n")
        return self.newline.join([first, *(margin + line for line in rest)])


def _skip_space(text: str, at: int) -> int:
    """Return the offset after spaces and comments."""
    while at < len(text):
        if text[at] in " \t\r\n\ufeff":
            at += 1
        elif text.startswith("//", at):
            ends = [found for found in (text.find("\n", at), text.find("\r", at)) if found >= 0]
            at = min(ends, default=len(text))
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise _error(text, at, "a comment that does not end")
            at = end + 2
        else:
            break
    return at


def _error(text: str, at: int, why: str) -> JsoncError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return JsoncError(f"line {line}, column {column}: {why}")


class _Scanner:
    """Parses the text once, and records the offsets of each object's members."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._scalar = json.JSONDecoder()

    def document(self) -> _Node | None:
        at = _skip_space(self.text, 0)
        if at == len(self.text):
            return None
        node = self._value(at, 0)
        rest = _skip_space(self.text, node.end)
        if rest < len(self.text):
            raise _error(self.text, rest, "there is text after the end of the document")
        return node

    def _value(self, at: int, depth: int) -> _Node:
        if depth > _MAX_DEPTH:
            raise _error(self.text, at, "nested too deeply")
        character = self.text[at : at + 1]
        if character == "{":
            return self._object(at, depth)
        if character == "[":
            return self._array(at, depth)
        try:
            value, end = self._scalar.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise _error(self.text, at, "a value is missing here") from error
        except ValueError as error:  # the interpreter's limit of digits
            raise _error(self.text, at, "a number is too long") from error
        return _Node(at, end, value)

    def _object(self, start: int, depth: int) -> _Node:
        text = self.text
        members: list[_Member] = []
        values: dict[str, Any] = {}
        at = _skip_space(text, start + 1)
        has_comma = False
        while text[at : at + 1] != "}":
            if members and not has_comma:
                raise _error(text, at, "a comma is missing")
            key = self._value(at, depth + 1)
            if not isinstance(key.value, str):
                raise _error(text, at, "a key is a string in double quotes")
            colon = _skip_space(text, key.end)
            if text[colon : colon + 1] != ":":
                raise _error(text, colon, "a colon is missing")
            value = self._value(_skip_space(text, colon + 1), depth + 1)
            members.append(_Member(key.value, at, value))
            values[key.value] = value.value
            at = _skip_space(text, value.end)
            has_comma = text[at : at + 1] == ","
            if has_comma:
                at = _skip_space(text, at + 1)
        return _Node(start, at + 1, values, members, has_comma)

    def _array(self, start: int, depth: int) -> _Node:
        text = self.text
        items: list[_Node] = []
        at = _skip_space(text, start + 1)
        has_comma = False
        while text[at : at + 1] != "]":
            if items and not has_comma:
                raise _error(text, at, "a comma is missing")
            items.append(self._value(at, depth + 1))
            at = _skip_space(text, items[-1].end)
            has_comma = text[at : at + 1] == ","
            if has_comma:
                at = _skip_space(text, at + 1)
        return _Node(start, at + 1, [item.value for item in items], None, has_comma, items)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a parsed document as an object; ``None`` (an empty file) is an empty one.

    Raises:
        JsoncError: the document is not an object.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise JsoncError("the document is not an object")
    return value  # pyright: ignore[reportUnknownVariableType]
