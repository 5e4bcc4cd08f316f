"""The limit for the nesting of JSON, checked on the bytes before they are parsed.

The recursion limit of the interpreter would also bound the parser, but it differs between versions and depends on the
depth of the caller. `MAX_DEPTH` is the same everywhere, and low enough for recursive Python code that runs later.

The check must not loop over the message in Python. Few messages have more brackets than the limit; of those, innermost
pairs are removed level by level, with calls of `bytes` that each process the whole message.
"""

from __future__ import annotations

from typing import Final

from ferrule.wire.patterns import pattern

__all__ = ["MAX_DEPTH", "is_deeper", "may_be_too_deep"]

MAX_DEPTH: Final = 512
"""Maximum number of nested arrays and objects."""

_COUNTED_BYTES: Final = 8 * 1024
_OPEN: Final = ord("(")
_ALIKE: Final = bytes(_OPEN if char in b"[{" else ord(")") if char in b"]}" else char for char in range(256))
_REST: Final = bytes(char for char in range(256) if char not in b'[{]}"')
_TEXT: Final = pattern(rb'"[^"]*"?')
_RUN: Final = pattern(rb"\(+|\)+")


def may_be_too_deep(data: bytes | bytearray) -> bool:
    """Return whether JSON may be nested deeper than the codec allows; ``True`` also for flat values of many brackets.

    Large texts have few brackets or too many: looking for the next one (``memchr``) passes over a megabyte of text in
    20 µs, where counting looks at each character for 1 to 2 ms. In small ones counting is faster.
    """
    if len(data) <= MAX_DEPTH:
        return False
    if len(data) < _COUNTED_BYTES:
        return data.count(b"[") + data.count(b"{") > MAX_DEPTH
    room = MAX_DEPTH
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            if not room:
                return True
            room -= 1
            at = data.find(bracket, at + 1)
    return False


def is_deeper(data: bytes | bytearray, limit: int = MAX_DEPTH) -> bool:
    """Return whether a JSON text, or the beginning of one, nests more than ``limit`` arrays and objects.

    For bytes that are not JSON the result has no meaning, and is found in the same time.
    """
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Deleting all other characters keeps each bracket inside or outside of quotation marks.
    marks = data.translate(None, _REST).replace(b'""', b"")
    if b'"' in marks:
        marks = _TEXT.sub(b"", marks)
    marks = marks.translate(_ALIKE)
    for level in range(limit):
        if len(marks) <= limit - level:
            return False
        fewer = marks.replace(b"()", b"")
        if len(fewer) > len(marks) * 15 // 16:  # few pairs mean long runs of one bracket, and so few runs to loop over
            return _deepest_of_runs(fewer) + level + 1 > limit
        marks = fewer
    return bool(marks)


def _deepest_of_runs(marks: bytes | bytearray) -> int:
    depth = deepest = 0
    for run in _RUN.findall(marks):
        depth += len(run) if run[0] == _OPEN else -len(run)
        deepest = max(deepest, depth)
    return deepest
