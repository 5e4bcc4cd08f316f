"""Writes results of plain calls: the encoded value between pieces of an answer that the general path has made.

`writer_for` makes a sample result with the plan of a tool, and splits the encoded answer at the value. Only values with
a certain JSON form are written in this way: text, and types that msgspec encodes and checks by itself (numbers,
dataclasses and structs of simple fields, lists of them). They are encoded once and checked by decoding. The plan
converts any other value, also one that is too large or does not fit its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.app.signatures.shapes import Shape
from ferrule.kernel.fast_path.fast_tools import WriteResult
from ferrule.wire.codec import plain_decoder, plain_encode
from ferrule.wire.nesting import MAX_DEPTH, may_be_too_deep
from ferrule.wire.plain_calls import cut_answer
from ferrule.wire.revisions import Revision
from ferrule.wire.types import ToolContentBlock, ToolResult

if TYPE_CHECKING:
    from ferrule.app.results.result_plan import ResultPlan

__all__ = ["writer_for"]

_TEXT: Final = "\x00text\x00"
_VALUE: Final = "\x00value\x00"
_SIMPLE: Final = frozenset({str, int, float, bool, type(None)})
_EXACT: Final = frozenset({str, int, bool})
"""Types whose values conversion does not change. ``float`` is missing: conversion makes a ``float`` of an ``int``."""


def writer_for(plan: ResultPlan, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
    """Return the function that writes the results of one tool for clients of a revision.

    Args:
        plan: the plan of the tool.
        revision: the revision of the client.
        finish: a result → the finished result.
    """
    if plan.validate is not None:
        return _leave_it
    if plan.kind in ("text", "free"):
        return _text_writer(plan, finish(plan.project(_TEXT, revision)))
    cls = _certain_type(plan.shape) if plan.encoder is None and plan.kind == "typed" else None
    if cls is None:
        return _leave_it
    sample: Any = {_VALUE: 0} if plan.is_object else _VALUE
    result = ToolResult([ToolContentBlock("text", _TEXT)], plan.structured_content(sample, revision))
    return _data_writer(plan, cls, finish(result), plain_encode(sample))


def _leave_it(value: Any) -> None:
    return None


def _text_writer(plan: ResultPlan, sample: Any) -> WriteResult:
    mark = plain_encode(_TEXT)
    pieces = cut_answer(sample, mark)
    max_bytes = plan.max_bytes
    first, last = pieces[0], pieces[-1]
    between = pieces[1] if len(pieces) == 3 else None

    def write(value: Any) -> tuple[bytes, ...] | None:
        if type(value) is not str:
            return None
        try:
            text = plain_encode(value)
        except UnicodeEncodeError:  # a lone surrogate
            return None
        if len(text) > max_bytes:  # the encoded text is never shorter than the text itself
            return None
        return (first, text, last) if between is None else (first, text, between, text, last)

    return write


def _data_writer(plan: ResultPlan, cls: type[Any], sample: Any, value_mark: bytes) -> WriteResult:
    pieces = cut_answer(sample, plain_encode(_TEXT), value_mark)
    max_bytes = plan.max_bytes
    first, last = pieces[0], pieces[-1]
    between = pieces[1] if len(pieces) == 3 else None
    shape = cast("Shape", plan.shape)
    check = plain_decoder(shape.hint)
    # Of other items, such as the rows of a database, conversion makes instances: without members that the class does
    # not declare, and with its tag.
    item_class = shape.items[0].source if shape.kind == "array" else None

    def write(value: Any) -> tuple[bytes, ...] | None:
        if type(value) is not cls:
            return None
        if item_class is not None and not {item_class}.issuperset(map(type, value)):
            return None
        try:
            data = plain_encode(value)
            check(data)
            text = plain_encode(data.decode())
        except Exception:  # the code that makes the result raises the error
            return None
        if len(data) > max_bytes or (len(data) > MAX_DEPTH and may_be_too_deep(data)):
            return None
        return (first, text, last) if between is None else (first, text, between, data, last)

    return write


def _certain_type(shape: Shape | None) -> type[Any] | None:
    """Return the class whose instances can be encoded without conversion; ``None`` if that is not certain."""
    if shape is None or any(part.checks or part.keywords for part in shape.walk()):
        return None
    if shape.kind == "scalar":
        return shape.hint if shape.hint in _EXACT or shape.hint is float else None
    if shape.kind == "array" and not shape.is_unique and len(shape.items) == 1:
        item = shape.items[0]
        is_certain = item.hint in _EXACT if item.kind == "scalar" else _is_certain_class(item)
        return list if is_certain else None
    return shape.source if _is_certain_class(shape) else None


def _is_certain_class(shape: Shape) -> bool:
    return shape.kind == "object" and all(_is_certain(part) for part in shape.walk())


def _is_certain(part: Shape) -> bool:
    if part.kind == "object":
        return part.is_plain and part.adapter is not None and part.adapter.name in ("dataclass", "msgspec")
    if part.kind == "scalar":
        return part.hint in _SIMPLE
    return part.kind in ("enum", "literal", "union") or (part.kind == "array" and not part.is_unique)
