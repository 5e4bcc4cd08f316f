"""Patterns for JSON values that differ between runs, and names for values that later lines use again.

A pattern is JSON. Every value in it matches itself, except text that starts with ``$``:

==========================  ==========================================================================================
``"$any"``                  any value
``"$string"`` …             any value of a JSON type: ``$string $integer $number $boolean $array $object $null``
``"$any:name"`` …           the same, and remembers it as ``name``
``"$is:name"``              the remembered value; in a client line it is inserted
``"$revision"``             the revision of this run
``"$$text"``                the text ``$text``
==========================  ==========================================================================================

A member named ``"..."`` allows further members in its object, and a last element ``"..."`` further elements in its
array. Numbers are equal as JSON has them: ``1`` and ``1.0`` are one value, ``1`` and ``true`` are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["fill", "is_list", "is_mapping", "mismatch"]

_MORE = "..."


def fill(pattern: Any, names: Mapping[str, Any]) -> Any:
    """Return a client line with the remembered values inserted.

    Args:
        pattern: decoded JSON.
        names: the remembered values; ``"revision"`` is one of them.

    Raises:
        ValueError: it names a value that was not remembered, or has a pattern that only a server line may have.
    """
    if isinstance(pattern, str):
        return _fill_text(pattern, names)
    if is_list(pattern):
        return [fill(item, names) for item in pattern]
    if is_mapping(pattern):
        return {key: fill(item, names) for key, item in pattern.items()}
    return pattern


def mismatch(pattern: Any, value: Any, names: dict[str, Any], path: str = "$") -> str | None:
    """Return path and reason if a value does not match a pattern; ``None`` if it does.

    Args:
        pattern: decoded JSON of a server line.
        value: the received value.
        names: the remembered values; a match adds to them.
        path: JSON path of the value, for the message.
    """
    if isinstance(pattern, str):
        return _text_mismatch(pattern, value, names, path)
    if is_mapping(pattern):
        return _object_mismatch(pattern, value, names, path)
    if is_list(pattern):
        return _array_mismatch(pattern, value, names, path)
    return None if _same(pattern, value) else f"{path} is {value!r} and not {pattern!r}"


def _fill_text(text: str, names: Mapping[str, Any]) -> Any:
    if not text.startswith("$"):
        return text
    if text.startswith("$$"):
        return text[1:]
    if text == "$revision":
        return names["revision"]
    word, _, name = text[1:].partition(":")
    if word == "is" and name in names:
        return names[name]
    raise ValueError(f"{text!r} cannot be put into a client line")


def _text_mismatch(pattern: str, value: Any, names: dict[str, Any], path: str) -> str | None:
    word, _, name = pattern[1:].partition(":")
    if not pattern.startswith("$") or pattern.startswith("$$") or word in ("is", "revision"):
        try:
            wanted = _fill_text(pattern, names)
        except ValueError as error:
            return f"{path}: {error}"
        return None if _same(wanted, value) else f"{path} is {value!r} and not {wanted!r}"
    if not _has_type(word, value):
        return f"{path} is {value!r} and not {pattern}"
    if name:
        names[name] = value
    return None


def _object_mismatch(pattern: Mapping[str, Any], value: Any, names: dict[str, Any], path: str) -> str | None:
    if not is_mapping(value):
        return f"{path} is {value!r} and no object"
    for key, wanted in pattern.items():
        if key == _MORE:
            continue
        if key not in value:
            return f"{path}.{key} is missing"
        found = mismatch(wanted, value[key], names, f"{path}.{key}")
        if found is not None:
            return found
    extra = [key for key in value if key not in pattern]
    return f"{path}.{extra[0]} is unexpected: {value[extra[0]]!r}" if extra and _MORE not in pattern else None


def _array_mismatch(pattern: list[Any], value: Any, names: dict[str, Any], path: str) -> str | None:
    if not is_list(value):
        return f"{path} is {value!r} and no array"
    is_open = pattern[-1:] == [_MORE]
    wanted = pattern[:-1] if is_open else pattern
    if len(value) < len(wanted) or (len(value) > len(wanted) and not is_open):
        return f"{path} has {len(value)} elements and not {len(wanted)}"
    for at, item in enumerate(wanted):
        found = mismatch(item, value[at], names, f"{path}[{at}]")
        if found is not None:
            return found
    return None


def _has_type(word: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    types = {
        "any": True,
        "string": isinstance(value, str),
        "integer": is_number and value == int(value),
        "number": is_number,
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, Mapping),
        "null": value is None,
    }
    if word not in types:
        raise ValueError(f"there is no pattern ${word}")
    return types[word]


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
