"""Marker classes: they replace parts of a hint that msgspec does not support, and are decoded in Python.

msgspec calls ``dec_hook`` for every unknown class, and then checks that the result is an instance of the class. A
marker accepts every instance, and has the decoder as an attribute. Markers are used for a union of two dataclasses, an
enum of mixed values, a class with a field of that kind, and predicates. Error messages have msgspec's form, with the
JSON path.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, cast

import msgspec

from ferrule.app.signatures import adapters
from ferrule.app.signatures.shapes import (
    DecoderMarker,
    Shape,
    decode_hook,
    json_kind,
    kinds_of,
    native,
    prefix_path,
    split_path,
)
from ferrule.wire.json_types import is_array

__all__ = ["checked_marker", "decoder_marker", "foreign_marker", "msgspec_accepts", "shape_marker"]


def msgspec_accepts(hint: Any) -> bool:
    """Return whether msgspec can build a decoder for ``hint``."""
    try:
        msgspec.convert(None, hint, dec_hook=decode_hook, str_keys=True)
    except msgspec.ValidationError:
        return True
    except (TypeError, ValueError, NameError):
        return False
    except Exception:
        return True
    return True


def decoder_marker(decode: Callable[[Any], Any]) -> type:
    """Return a marker class with the decoder ``decode``."""
    return DecoderMarker(decode)


def shape_marker(shape: Shape) -> type:
    """Return a marker class for a shape, which may still be unfinished, as in recursive types."""
    return decoder_marker(lambda value: _decode(shape, value))


def checked_marker(hint: Any, checks: tuple[Callable[[Any], object], ...]) -> type:
    """Return a marker class that decodes ``hint`` and then checks predicates."""

    def decode(value: Any) -> Any:
        made = msgspec.convert(value, hint, dec_hook=decode_hook, str_keys=True)
        for check in checks:
            if not check(made):
                raise ValueError("the value does not meet the parameter's condition")
        return made

    return decoder_marker(decode)


def foreign_marker(annotation: Any, adapter: adapters.Adapter) -> type:
    """Return a marker class for an annotation that an opaque adapter decodes."""
    return decoder_marker(lambda value: adapter.decode(annotation, value))


def _decode(shape: Shape, value: Any) -> Any:
    if shape.kind == "object":
        return _decode_object(shape, value)
    if shape.kind in ("enum", "literal"):
        return _decode_value(shape, value)
    return _decode_union(shape, value)


def _decode_object(shape: Shape, value: Any) -> Any:
    adapter = cast("adapters.Adapter", shape.adapter)
    if adapters.is_instance(value, shape.source):
        return value
    if shape.is_array:
        return adapter.build(shape.source, _decode_places(shape, value))
    if not isinstance(value, dict):
        raise ValueError(f"Expected `object`, got `{json_kind(value)}`")
    given = cast("dict[str, Any]", value)
    made: dict[str, Any] = {}
    for field in shape.fields:
        if field.wire_name in given:
            try:
                made[field.name] = native(given[field.wire_name], field.shape)
            except msgspec.ValidationError as error:
                raise ValueError(prefix_path(str(error), f".{field.wire_name}")) from error
        elif field.required:
            raise ValueError(f"Object missing required field `{field.wire_name}`")
    if shape.is_closed and (unknown := given.keys() - {field.wire_name for field in shape.fields}):
        raise ValueError(f"Object contains unknown field `{min(unknown)}`")
    return adapter.build(shape.source, made)


def _decode_places(shape: Shape, value: Any) -> dict[str, Any]:
    if not is_array(value):
        raise ValueError(f"Expected `array`, got `{json_kind(value)}`")
    made: dict[str, Any] = {}
    for at, field in enumerate(shape.fields):
        if at >= len(value):
            if field.required:
                raise ValueError(f"Expected `array` of at least length {at + 1}, got {len(value)}")
            continue
        try:
            made[field.name] = native(value[at], field.shape)
        except msgspec.ValidationError as error:
            raise ValueError(prefix_path(str(error), f"[{at}]")) from error
    if shape.is_closed and len(value) > len(shape.fields):
        raise ValueError(f"Expected `array` of at most length {len(shape.fields)}, got {len(value)}")
    return made


def _decode_value(shape: Shape, value: Any) -> Any:
    for member in shape.values:
        plain = member.value if isinstance(member, enum.Enum) else member
        # 2 and 2.0 are one number in JSON; `True` is none.
        if member is value or (plain == value and isinstance(plain, bool) is isinstance(value, bool)):
            return member
    raise ValueError(f"Invalid enum value {value!r}" if isinstance(value, int | str) else "Invalid enum value")


def _decode_union(shape: Shape, value: Any) -> Any:
    """Return the first member that fits; among classes the one whose fields explain most of the object."""
    best: tuple[int, Any] | None = None
    problems: list[tuple[int, str]] = []
    ranked = sorted(shape.items, key=lambda item: item.kind not in ("enum", "literal"))
    kind = json_kind(value)
    for item in ranked:
        is_class = item.kind == "object" and kind == "object"
        known = len(value.keys() & {field.wire_name for field in item.fields}) if is_class else 0
        try:
            made = native(value, item)
        except msgspec.ValidationError as error:
            if kind in kinds_of(item):
                problems.append((known, str(error)))
            continue
        if not is_class:
            return made
        if best is None or known > best[0]:
            best = (known, made)
    if best is not None:
        return best[1]
    if not problems:
        kinds = " | ".join(dict.fromkeys(kind for item in shape.items for kind in kinds_of(item)))
        raise ValueError(f"Expected `{kinds}`, got `{kind}`")
    problems.sort(key=lambda problem: -problem[0])
    if (
        len(problems) == 1 or problems[0][0] > problems[1][0]
    ):  # only one member has these names, so its error is the useful one
        raise ValueError(problems[0][1])
    # The path inside a member is part of the text: a path at the end of the message is read as that of the union.
    texts = dict.fromkeys(_in_words(text) for _, text in problems)
    raise ValueError(f"no member of the union fits: {'; '.join(texts)}")


def _in_words(message: str) -> str:
    reason, path = split_path(message)
    return f"{reason} (`{path.lstrip('.')}`)" if path else reason
