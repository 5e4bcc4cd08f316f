"""The two halves of a framed byte pipe without a loop: what has arrived, and what is still to be written.

`Inbox` turns chunks into frames and says when reading should rest; `Outbox` collects frames and writes as much as a
non-blocking descriptor takes. The event-loop shells (`_pipes_asyncio`, `_pipes_trio`) only wait. Neither class joins
or copies a large message: a frame leaves through ``writev`` together with its newline.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

from ferrule.kernel.dispatch import TakeFrames
from ferrule.transports.stdio.descriptors import NonBlockingFd, grow_pipe, unread_bytes
from ferrule.wire.codec import decode, encode
from ferrule.wire.ndjson import Frame, LineFramer

__all__ = [
    "CHUNK_BYTES",
    "HIGH_WATER_BYTES",
    "LARGE_CHUNK_BYTES",
    "LAST_READS",
    "FrameReader",
    "FrameWriter",
    "Inbox",
    "Outbox",
    "encode_frame",
    "one_line",
]

CHUNK_BYTES: Final = 64 * 1024
"""One read: the usual capacity of a pipe, and small enough that malloc takes it from the heap."""
LARGE_CHUNK_BYTES: Final = 1 << 20
"""One read while a large message is arriving."""
HIGH_WATER_BYTES: Final = 1 << 20
"""Unsent bytes beyond which a sender waits."""
LAST_READS: Final = 64
"""Reads of an ended input: more than a pipe holds, and an end in case somebody else still writes into it."""
_REST_FRAMES: Final = 1024
_REST_BYTES: Final = 4 << 20
_JOIN_BYTES: Final = 64 * 1024
_IOV_MAX: Final = 512
_HAS_WRITEV: Final = hasattr(os, "writev")  # not on Windows

_Piece: TypeAlias = "bytes | memoryview"


class FrameReader(Protocol):
    """Frames as they arrive on a descriptor."""

    @property
    def frames(self) -> deque[Frame]:
        """Frames that have arrived; taking one from the left is the fast path of `next_frame`."""
        ...

    async def next_frame(self) -> Frame:
        """Wait for the next frame.

        Raises:
            anyio.EndOfStream: the input ended, by its writer or by `finish`, and every frame was handed out.
        """
        ...

    @property
    def show_to(self) -> TakeFrames | None:
        """Is shown the frames before they are handed out, while `next_frame` waits; see `ShowsFrames`."""
        ...

    @show_to.setter
    def show_to(self, take: TakeFrames | None) -> None: ...

    def finish(self) -> None:
        """End the input: what can be read without waiting is still handed out, then `next_frame` raises."""
        ...

    def discard(self) -> None:
        """End the input and throw away what arrived and what still arrives, so that its writer does not block."""
        ...

    def close(self) -> None:
        """Release the descriptor and end the input. Idempotent."""
        ...


class FrameWriter(Protocol):
    """Frames on their way to a descriptor."""

    @property
    def outbox(self) -> Outbox:
        """What is not written yet, and whether anybody still reads it."""
        ...

    def send_nowait(self, frame: bytes, *, flush: bool) -> None:
        """Queue a frame and write soon; with ``flush`` write at once together with what is queued."""
        ...

    def send_pieces(self, pieces: Sequence[bytes], *, flush: bool) -> None:
        """As `send_nowait`, for pieces that together are frames with their ends."""
        ...

    async def wait_below(self, limit_bytes: int) -> None:
        """Wait until no more than this is unsent, or the pipe is broken."""
        ...

    def unread_bytes(self) -> int | None:
        """What the other end has not read yet: unsent, or still in the pipe; ``None`` if the system does not tell."""
        ...

    def close(self) -> None:
        """Release the descriptor; what is unsent is lost. Idempotent."""
        ...


def encode_frame(message: Any) -> bytes:
    """Return a message as one line, without its end.

    Raises:
        EncodeError: it has no JSON form.
    """
    return one_line(encode(message))


def one_line(frame: bytes) -> bytes:
    """JSON without line ends; only ready-made JSON can hold one, as white space."""
    return encode(decode(frame)) if b"\n" in frame else frame


class Inbox:
    """Chunks in, frames out.

    Attributes:
        frames: complete frames in order.
        ended: whether no more chunks will come.
    """

    __slots__ = ("_arrived_bytes", "_framer", "ended", "frames")

    def __init__(self, max_message_bytes: int) -> None:
        self._framer = LineFramer(max_message_bytes)
        self._arrived_bytes = 0
        self.frames: deque[Frame] = deque()
        self.ended = False

    def feed(self, chunk: bytes) -> bool:
        """Take a chunk; whether reading should rest until the frames are taken."""
        frames = self.frames
        if not frames:
            self._arrived_bytes = 0
        frames.extend(self._framer.feed(chunk))
        self._arrived_bytes += len(chunk)
        return bool(frames) and (self._arrived_bytes > _REST_BYTES or len(frames) > _REST_FRAMES)

    def end(self) -> None:
        """No more chunks: an unterminated last line counts as a frame."""
        if not self.ended:
            self.ended = True
            self.frames.extend(self._framer.finish())

    def discard(self) -> None:
        """No more chunks, and nothing of those that came."""
        self.ended = True
        self.frames.clear()
        self._framer.finish()

    @property
    def is_inside_large_frame(self) -> bool:
        """Whether more than one chunk of an unfinished frame is held."""
        return self._framer.held_bytes >= CHUNK_BYTES


class Outbox:
    """Frames in, bytes out to a descriptor that never blocks.

    Attributes:
        unsent_bytes: what was added and not yet written.
        broken: the other end is gone, or this one closed; what is added is dropped.
        on_broken: called when writing finds the other end gone.
    """

    __slots__ = ("_may_grow", "_pieces", "broken", "on_broken", "unsent_bytes")

    def __init__(self) -> None:
        self._pieces: deque[_Piece] = deque()
        self._may_grow = True
        self.unsent_bytes = 0
        self.broken = False
        self.on_broken: Callable[[], object] | None = None

    def add(self, frame: bytes) -> None:
        """Queue one frame; its newline is added here."""
        if not self.broken:
            self._pieces.append(frame)
            self._pieces.append(b"\n")
            self.unsent_bytes += len(frame) + 1

    def add_pieces(self, pieces: Sequence[bytes]) -> None:
        """Queue frames in pieces, with their newlines."""
        if not self.broken:
            self._pieces.extend(pieces)
            self.unsent_bytes += sum(map(len, pieces))

    def flush(self, target: NonBlockingFd) -> bool:
        """Write what the descriptor takes.

        Returns:
            Whether everything is out (or lost, see `broken`); ``False``: try again when it is writable.
        """
        while self.unsent_bytes:
            try:
                written = self._write(target.fd)
            except BlockingIOError:
                self._grow(target)
                return False
            except OSError:  # the reader is gone (EPIPE, ECONNRESET), or the disk is full: nothing can be told to it
                self.break_off()
                return True
            self._drop(written)
        return True

    def break_off(self) -> None:
        """The other end is gone."""
        self.lose()
        if self.on_broken is not None:
            self.on_broken()

    def lose(self) -> None:
        """This end is closed."""
        self.broken = True
        self._pieces.clear()
        self.unsent_bytes = 0

    def unread_bytes(self, target: NonBlockingFd) -> int | None:
        """See `FrameWriter.unread_bytes`; 0 when the other end is gone."""
        if self.broken:
            return 0
        return self.unsent_bytes or unread_bytes(target.fd, target.kind)

    def take(self) -> bytes:
        """Return everything unsent, for a writer that blocks."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data

    def _write(self, fd: int) -> int:
        pieces = self._pieces
        if self.unsent_bytes <= _JOIN_BYTES:
            return os.write(fd, b"".join(pieces))
        if len(pieces[0]) > _JOIN_BYTES and not _HAS_WRITEV:
            return os.write(fd, pieces[0])
        vector: Sequence[_Piece] = list(islice(pieces, _IOV_MAX))
        return os.writev(fd, vector) if _HAS_WRITEV else os.write(fd, b"".join(vector))

    def _drop(self, written: int) -> None:
        pieces = self._pieces
        self.unsent_bytes -= written
        if not self.unsent_bytes:
            pieces.clear()
            return
        while written:
            first = pieces[0]
            if len(first) > written:
                pieces[0] = memoryview(first)[written:]
                return
            written -= len(first)
            pieces.popleft()

    def _grow(self, target: NonBlockingFd) -> None:
        if self._may_grow and target.kind == "pipe":
            self._may_grow = False
            grow_pipe(target.fd)
