"""Newline framing: bytes in any chunks to one frame per line.

Source: MCP "stdio" transport (one JSON-RPC message per line, no newline inside). The framer knows no JSON: what a
frame means, and what to answer to a bad one, is its caller's business. It never holds more than one unfinished line,
and of a line that is too long it holds nothing.

The rule a newcomer would break: never join what is held before the line is complete (see `ferrule.wire.chunks`).
"""

from __future__ import annotations

from typing import TypeAlias

from ferrule.wire.chunks import ChunkBuffer
from ferrule.wire.struct import Value

__all__ = ["Frame", "FrameTooLong", "LineFramer"]


class FrameTooLong(Value, frozen=True):
    """Stands in the place of a line that passed the limit; the rest of that line is dropped as it arrives.

    It is reported as soon as the limit is passed and not at the newline, so that a peer which never sends one still
    gets its answer.

    Attributes:
        size: bytes of the line seen when it was reported; the line may have been longer.
    """

    size: int


Frame: TypeAlias = bytes | FrameTooLong
"""One line without its terminator, or what is left of one that was too long."""


class LineFramer:
    """Incremental reader of newline-delimited frames; linear in bytes for any chunking.

    Lines end with LF; a CR before it is taken off. Empty lines and lines of white space are skipped: they carry no
    message and are harmless between messages.

    Args:
        max_bytes: the longest frame that is kept, without its terminator.

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
        """Size in bytes of the unfinished line that is buffered, never above ``max_bytes`` + 1 (a CR)."""
        return self._held.size

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that ``chunk`` completes, in order; an empty chunk completes none."""
        frames: list[Frame] = []
        end = chunk.find(b"\n")
        if end == -1:  # the middle of a large frame: looking for the newline costs a seventh of splitting by it
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
            lines[0] = held.take()
        for line in lines:
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
        elif line and not line.isspace():
            frames.append(line)

    def _hold(self, rest: bytes, frames: list[Frame]) -> None:
        size = self._held.size + len(rest)
        # One byte of grace: a CR at the limit may turn out to belong to the terminator.
        if size <= self.max_bytes or (size == self.max_bytes + 1 and rest.endswith(b"\r")):
            self._held.append(rest)
            return
        self._held.clear()
        self._dropping = True
        frames.append(FrameTooLong(size))
