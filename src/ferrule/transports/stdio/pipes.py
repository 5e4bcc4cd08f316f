"""The two halves of a framed byte pipe, without an event loop: received data, and data to be written.

`Inbox` turns chunks into frames and reports when reading should pause; `Outbox` collects frames and writes as much as a
non-blocking descriptor accepts. The modules of the event loops (`pipes_asyncio`, `pipes_trio`) only wait. Neither class
joins or copies a large message: a frame is written by ``writev`` together with its newline.
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
"""Maximum bytes of one read: the usual capacity of a pipe, and small enough that malloc takes it from the heap."""
LARGE_CHUNK_BYTES: Final = 1 << 20
"""Maximum bytes of one read while a large message is arriving."""
HIGH_WATER_BYTES: Final = 1 << 20
"""Unsent bytes beyond which a sender waits."""
LAST_READS: Final = 64
"""Maximum number of reads of an ended input: more than a pipe can hold; bounded, as another process may still write."""
# Reading pauses above these bounds: a peer that sends faster than it is served then fills the pipe, not the memory.
_REST_FRAMES: Final = 1024
_REST_BYTES: Final = 4 << 20
# Below it one copy is cheaper than a list of buffers.
_JOIN_BYTES: Final = 64 * 1024
# POSIX guarantees only 16; Linux and macOS have 1024.
_IOV_MAX: Final = 512
_HAS_WRITEV: Final = hasattr(os, "writev")  # not on Windows

_Piece: TypeAlias = "bytes | memoryview"


class FrameReader(Protocol):
    """Frames as they arrive on a descriptor."""

    @property
    def frames(self) -> deque[Frame]:
        """Frames that have arrived; the caller may take the first one instead of calling `next_frame`."""
        ...

    async def next_frame(self) -> Frame:
        """Wait for the next frame.

        Raises:
            anyio.EndOfStream: the input has ended, by its writer or by `finish`, and all frames were returned.
        """
        ...

    @property
    def show_to(self) -> TakeFrames | None:
        """A function that gets the frames before `next_frame` returns them, while that waits; see `ShowsFrames`."""
        ...

    @show_to.setter
    def show_to(self, take: TakeFrames | None) -> None: ...

    def finish(self) -> None:
        """End the input: data that can be read without waiting is still returned, then `next_frame` raises."""
        ...

    def discard(self) -> None:
        """End the input, and read and discard further data, so that its writer does not block."""
        ...

    def close(self) -> None:
        """Close the descriptor and end the input. Idempotent."""
        ...


class FrameWriter(Protocol):
    """Writes frames to a descriptor."""

    @property
    def outbox(self) -> Outbox:
        """The unsent frames, and whether the other end is still open."""
        ...

    def send_nowait(self, frame: bytes, *, flush: bool) -> None:
        """Queue a frame and write it in the next iteration of the event loop, or with ``flush`` now."""
        ...

    def send_pieces(self, pieces: Sequence[bytes], *, flush: bool) -> None:
        """As `send_nowait`, for pieces that together are frames with their newlines."""
        ...

    async def wait_below(self, limit_bytes: int) -> None:
        """Wait until at most ``limit_bytes`` are unsent, or the pipe is broken."""
        ...

    def unread_bytes(self) -> int | None:
        """Return the number of bytes that the other end has not read yet; ``None`` if that is not known."""
        ...

    def close(self) -> None:
        """Close the descriptor; unsent data is lost. Idempotent."""
        ...


def encode_frame(message: Any) -> bytes:
    """Return a message as one line of JSON, without a newline.

    Raises:
        EncodeError: it has no JSON form.
    """
    return one_line(encode(message))


def one_line(frame: bytes) -> bytes:
    """Return JSON without newlines; only JSON that was encoded elsewhere can have one, as white space."""
    return encode(decode(frame)) if b"\n" in frame else frame


class Inbox:
    """Turns received chunks into frames.

    Attributes:
        frames: complete frames in order.
        ended: whether the input has ended.
    """

    __slots__ = ("_arrived_bytes", "_framer", "ended", "frames")

    def __init__(self, max_message_bytes: int) -> None:
        self._framer = LineFramer(max_message_bytes)
        self._arrived_bytes = 0
        self.frames: deque[Frame] = deque()
        self.ended = False

    def feed(self, chunk: bytes) -> bool:
        """Add a chunk; return whether reading should pause until the frames are taken."""
        frames = self.frames
        if not frames:
            self._arrived_bytes = 0
        frames.extend(self._framer.feed(chunk))
        self._arrived_bytes += len(chunk)
        return bool(frames) and (self._arrived_bytes > _REST_BYTES or len(frames) > _REST_FRAMES)

    def end(self) -> None:
        """End the input; a last line without a newline counts as a frame."""
        if not self.ended:
            self.ended = True
            self.frames.extend(self._framer.finish())

    def discard(self) -> None:
        """End the input and remove all frames."""
        self.ended = True
        self.frames.clear()
        self._framer.finish()

    @property
    def is_inside_large_frame(self) -> bool:
        """Whether more than one chunk of an incomplete frame has arrived."""
        return self._framer.held_bytes >= CHUNK_BYTES


class Outbox:
    """Writes frames to a non-blocking descriptor.

    Attributes:
        unsent_bytes: number of bytes that were added and are not written yet.
        broken: whether the other end or this one has closed; later frames are dropped.
        on_broken: called when a write finds that the other end has closed.
    """

    __slots__ = ("_may_grow", "_pieces", "broken", "on_broken", "unsent_bytes")

    def __init__(self) -> None:
        self._pieces: deque[_Piece] = deque()
        self._may_grow = True
        self.unsent_bytes = 0
        self.broken = False
        # Set by the streams in `transports.stdio.server` and `transports.stdio.client`, to end their reader.
        self.on_broken: Callable[[], object] | None = None

    def add(self, frame: bytes) -> None:
        """Queue one frame; its newline is added here."""
        if not self.broken:
            self._pieces.append(frame)
            self._pieces.append(b"\n")
            self.unsent_bytes += len(frame) + 1

    def add_pieces(self, pieces: Sequence[bytes]) -> None:
        """Queue frames that are given in pieces, with their newlines."""
        if not self.broken:
            self._pieces.extend(pieces)
            self.unsent_bytes += sum(map(len, pieces))

    def flush(self, target: NonBlockingFd) -> bool:
        """Write as much as the descriptor accepts.

        Returns:
            Whether everything is written (or lost, see `broken`); ``False``: call it again when it is writable.
        """
        while unsent := self.unsent_bytes:
            try:
                if unsent <= _JOIN_BYTES:
                    written = os.write(target.fd, b"".join(self._pieces))
                else:
                    written = self._write(target.fd)
            except BlockingIOError:
                self._grow(target)
                return False
            except OSError:  # the reader has closed (EPIPE, ECONNRESET), or the disk is full: nothing more can be sent
                self.break_off()
                return True
            self.unsent_bytes = unsent - written
            if written == unsent:
                self._pieces.clear()
            else:
                self._drop(written)
        return True

    def break_off(self) -> None:
        """Drop everything, because the other end has closed."""
        self.lose()
        if self.on_broken is not None:
            self.on_broken()

    def lose(self) -> None:
        """Drop everything, because this end is closed."""
        self.broken = True
        self._pieces.clear()
        self.unsent_bytes = 0

    def unread_bytes(self, target: NonBlockingFd) -> int | None:
        """See `FrameWriter.unread_bytes`; 0 if the other end has closed."""
        if self.broken:
            return 0
        return self.unsent_bytes or unread_bytes(target.fd, target.kind)

    def take(self) -> bytes:
        """Return all unsent data, for a writer that blocks."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data

    def _write(self, fd: int) -> int:
        """Write pieces of more than `_JOIN_BYTES`; return the number of written bytes."""
        pieces = self._pieces
        # Joined, each write would join the rest of a large message again.
        if len(pieces[0]) > _JOIN_BYTES and not _HAS_WRITEV:
            return os.write(fd, pieces[0])
        vector: Sequence[_Piece] = list(islice(pieces, _IOV_MAX))
        return os.writev(fd, vector) if _HAS_WRITEV else os.write(fd, b"".join(vector))

    def _drop(self, written: int) -> None:
        """Remove the first ``written`` bytes."""
        pieces = self._pieces
        while written:
            first = pieces[0]
            if len(first) > written:
                pieces[0] = memoryview(first)[written:]
                return
            written -= len(first)
            pieces.popleft()

    def _grow(self, target: NonBlockingFd) -> None:
        if self._may_grow and target.kind == "pipe":
            # Once: the call fails for ever where the system does not allow it.
            self._may_grow = False
            grow_pipe(target.fd)
