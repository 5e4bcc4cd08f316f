"""How deep JSON may be nested, judged on the bytes, before anything descends into them.

The parser descends as far as the interpreter lets it, and that differs from version to version and with how deep the
caller stands itself. A number of our own is the same everywhere, and low enough that whoever descends later in Python
has room.

Rule a newcomer would break: no loop in Python over a message. Few messages have as many brackets as the limit; of those
that do, pairs are taken away a level at a time by calls that each look at the whole.
"""

from __future__ import annotations

from typing import Final

from ferrule.wire.patterns import pattern

__all__ = ["MAX_DEPTH", "is_deeper"]

MAX_DEPTH: Final = 512
"""Arrays and objects that may be open at once."""

_OPEN: Final = ord("(")
_ALIKE: Final = bytes(_OPEN if char in b"[{" else ord(")") if char in b"]}" else char for char in range(256))
_REST: Final = bytes(char for char in range(256) if char not in b'[{]}"')
_TEXT: Final = pattern(rb'"[^"]*"?')
_RUN: Final = pattern(rb"\(+|\)+")


def is_deeper(data: bytes | bytearray, limit: int = MAX_DEPTH) -> bool:
    """Whether a JSON text, or the part of one that is there, opens more than ``limit`` arrays and objects at once.

    Of bytes that are no JSON the answer means nothing, and comes as quickly.
    """
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Without what stands between two quotation marks the rest keeps its side of them.
    marks = data.translate(None, _REST).replace(b'""', b"")
    if b'"' in marks:
        marks = _TEXT.sub(b"", marks)
    marks = marks.translate(_ALIKE)
    for level in range(limit):
        if len(marks) <= limit - level:
            return False
        fewer = marks.replace(b"()", b"")
        if len(fewer) > len(marks) * 15 // 16:  # few pairs, so long runs of one kind: few of those
            return _deepest_of_runs(fewer) + level + 1 > limit
        marks = fewer
    return bool(marks)


def _deepest_of_runs(marks: bytes | bytearray) -> int:
    depth = deepest = 0
    for run in _RUN.findall(marks):
        depth += len(run) if run[0] == _OPEN else -len(run)
        deepest = max(deepest, depth)
    return deepest
