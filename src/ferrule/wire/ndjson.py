"""Newline framing: converts chunks of bytes to frames, one for each line.

Source: MCP "stdio" transport (one JSON-RPC message per line, without newlines inside). The framer does not parse JSON;
its caller handles invalid messages. It buffers at most one unfinished line, and nothing of a line that is too long.
Buffered pieces must not be joined before the line is complete (see `ferrule.wire.chunks`).
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final, TypeAlias

from ferrule.wire.chunks import ChunkBuffer
from ferrule.wire.struct import Value

__all__ = ["Frame", "FrameTooLong", "LineFramer"]


class FrameTooLong(Value, frozen=True):
    """Replaces a line above the size limit; the rest of that line is dropped as it arrives.

    It is returned as soon as the limit is exceeded, not at the newline, so that a peer that never sends a newline gets
    an error response too.

    Attributes:
        size: bytes of the line that had arrived by then; the line may be longer.
    """

    size: int


_last_byte: Final = itemgetter(-1)
_BRACE: Final = {ord("}")}
_MANY: Final = 8  # of fewer lines each is looked at, which is then faster


def _end_with_brace(lines: list[bytes]) -> bool:
    """Return whether each line ends with a brace; without a step of the interpreter for each line."""
    try:
        return set(map(_last_byte, lines)) == _BRACE
    except IndexError:  # an empty line
        return False


Frame: TypeAlias = bytes | FrameTooLong
"""One line without its terminator, or `FrameTooLong` in place of a line that was too long."""


class LineFramer:
    """Incremental reader of newline-delimited frames; linear in bytes for any chunking.

    Lines end with LF; a CR before it is removed. Empty lines and lines of white space are skipped.

    Args:
        max_bytes: maximum size of a frame in bytes, without its terminator.

    Raises:
        ValueError: ``max_bytes`` is not positive (the caller's mistake).
    """

    __slots__ = ("_dropping", "_held", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ValueError("max_bytes must be positive")
        self.max_bytes = max_bytes
        self._held = ChunkBuffer()
        self._dropping = False

    @property
    def held_bytes(self) -> int:
        """Bytes of the unfinished line in the buffer; at most ``max_bytes`` + 1 (a CR)."""
        return self._held.size

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that ``chunk`` completes, in order; an empty chunk completes none."""
        frames: list[Frame] = []
        end = chunk.find(b"\n")
        if end == -1:  # the middle of a large frame: `find` costs a seventh of `split`
            if chunk and not self._dropping:
                self._hold(chunk, frames)
            return frames
        if end == len(chunk) - 1:
            lines, rest = [chunk[:end]], b""
        else:
            lines = chunk.split(b"\n")
            rest = lines.pop()
        held = self._held
        if self._dropping:
            self._dropping = False
            del lines[0]
        elif held.size:
            held.append(lines[0])
            # The only copy of a line that arrived in several chunks.
            lines[0] = held.take()
        max_bytes = self.max_bytes
        if len(lines) >= _MANY and len(chunk) <= max_bytes and len(lines[0]) <= max_bytes and _end_with_brace(lines):
            frames += lines  # nearly every chunk of many lines
            lines = []
        for line in lines:
            if line.endswith(b"}") and len(line) <= max_bytes:  # nearly every line; the call would cost more
                frames.append(line)
            else:
                self._complete(line, frames)
        if rest:
            self._hold(rest, frames)
        return frames

    def finish(self) -> list[Frame]:
        """Return the unterminated last line, if there is one; the framer can be fed again afterwards."""
        self._dropping = False
        frames: list[Frame] = []
        self._complete(self._held.take(), frames)
        return frames

    def _complete(self, line: bytes, frames: list[Frame]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self.max_bytes:
            frames.append(FrameTooLong(len(line)))
        # Some programs write empty lines between messages.
        elif line and not line.isspace():
            frames.append(line)

    def _hold(self, rest: bytes, frames: list[Frame]) -> None:
        size = self._held.size + len(rest)
        # One byte more: a CR at the limit may be part of the terminator.
        if size <= self.max_bytes or (size == self.max_bytes + 1 and rest.endswith(b"\r")):
            self._held.append(rest)
            return
        self._held.clear()
        # The rest of the line is not stored: its size is unbounded.
        self._dropping = True
        frames.append(FrameTooLong(size))
