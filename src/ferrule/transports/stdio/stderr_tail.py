"""The last lines of a stream that is read to its end, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

__all__ = ["LineTail"]

_MAX_LINE_BYTES: Final = 8 * 1024


class LineTail:
    """Splits bytes into lines of text and keeps the last of them.

    Lines longer than 8 KiB are cut into pieces of that size, so that a line without an end cannot grow. Bytes that are
    not UTF-8 are replaced.

    Args:
        max_bytes: approximate size of the lines that are kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterable[str]:
        """Add a chunk; return the lines that it completes, without line ends."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        while len(self._rest) > _MAX_LINE_BYTES:
            lines.append(self._rest[:_MAX_LINE_BYTES])
            self._rest = self._rest[_MAX_LINE_BYTES:]
        for line in lines[-self._max_bytes :]:
            self._keep(line.rstrip(b"\r"))
        return [_text(line) for line in lines]

    def finish(self) -> Iterable[str]:
        """Return the unterminated last line; empty if there is none."""
        rest, self._rest = self._rest, b""
        if not rest:
            return ()
        self._keep(rest)
        return (_text(rest),)

    def text(self, max_lines: int | None = None) -> str:
        """Return the kept lines, with the incomplete one; at most the last ``max_lines``."""
        lines = [*self._lines, *([self._rest] if self._rest else [])]
        return "\n".join(map(_text, lines[-max_lines:] if max_lines else lines))

    def _keep(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > self._max_bytes and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")
