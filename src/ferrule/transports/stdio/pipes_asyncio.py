"""Framed pipes on asyncio.

The event loop calls `PollingReader` when the descriptor is readable; a future wakes the consumer only if it waits for a
frame. `PollingWriter` writes immediately if asked to, else once in each iteration of the loop, and waits for
writability only while the pipe is full. Where the loop cannot wait for a descriptor (regular files, devices, Windows,
terminals of some systems) a daemon thread reads or writes.

Imported only when asyncio runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import anyio

from ferrule.kernel.dispatch import TakeFrames
from ferrule.transports.stdio.descriptors import NonBlockingFd, grow_pipe
from ferrule.transports.stdio.pipes import (
    CHUNK_BYTES,
    LARGE_CHUNK_BYTES,
    LAST_READS,
    FrameReader,
    FrameWriter,
    Inbox,
    Outbox,
)
from ferrule.wire.ndjson import Frame

__all__ = ["PollingReader", "PollingWriter", "ThreadReader", "ThreadWriter", "open_reader", "open_writer"]


_LAST_READ_S: Final = 0.5
"""Seconds that a thread may still read after `finish`."""


def open_reader(source: NonBlockingFd, max_message_bytes: int) -> FrameReader:
    """Return a reader of frames from a descriptor, which it owns from then on."""
    if source.pollable:
        try:
            return PollingReader(source, max_message_bytes)
        except (OSError, ValueError, NotImplementedError, RuntimeError):
            pass  # this event loop cannot wait for descriptors of this kind
    return ThreadReader(source, max_message_bytes)


def open_writer(target: NonBlockingFd) -> FrameWriter:
    """Return a writer of frames to a descriptor, which it owns from then on."""
    if target.pollable or target.kind == "file":
        try:
            return PollingWriter(target)
        except (OSError, ValueError, NotImplementedError, RuntimeError):
            pass
    return ThreadWriter(target)


class _InboxReader:
    """The part of both readers that the consumer uses."""

    def __init__(self, source: NonBlockingFd, max_message_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._inbox = Inbox(max_message_bytes)
        self.frames: deque[Frame] = self._inbox.frames
        self._waiter: asyncio.Future[None] | None = None
        self._resting = False
        # Set by `show_frames` of the read stream, to `take` of `StreamFastCalls` (server) or `StreamFastPath` (client).
        self.show_to: TakeFrames | None = None

    async def next_frame(self) -> Frame:
        frames = self.frames
        while not frames:
            if self._inbox.ended:
                raise anyio.EndOfStream
            if self._resting:
                self._resting = False
                self._resume()
            self._waiter = waiter = self._loop.create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        return frames.popleft()

    def discard(self) -> None:
        self._inbox.discard()
        self._wake()
        if self._resting:
            self._resting = False
            self._resume()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _show(self) -> None:
        """Pass the frames to `show_to`, if it is set, and wake the consumer for those that it leaves."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        frames = self.frames
        if self.show_to is not None and frames and not self._inbox.ended:
            goes_on = self.show_to(frames)
            if not frames and not self._inbox.ended:
                if self._resting:
                    self._resting = False
                    self._resume()
                return
            if goes_on:
                self._loop.call_soon(self._show)
                return
        if not waiter.done():
            waiter.set_result(None)

    def _end(self) -> None:
        self._inbox.end()
        self._wake()

    def _resume(self) -> None:
        raise NotImplementedError


class PollingReader(_InboxReader):
    """Reads when the event loop reports that the descriptor is readable.

    Raises:
        OSError, ValueError, NotImplementedError, RuntimeError: this loop cannot wait for the descriptor.
    """

    def __init__(self, source: NonBlockingFd, max_message_bytes: int) -> None:
        super().__init__(source, max_message_bytes)
        self._grown = False
        self._size = CHUNK_BYTES
        self._listening = False
        self._resume()

    def finish(self) -> None:
        if not self._inbox.ended:
            self._pause()
            for _ in range(LAST_READS):
                chunk = self._read()
                if not chunk:
                    break
                self._inbox.feed(chunk)
            self._end()

    def close(self) -> None:
        if self._source.fd >= 0:
            self._pause()
            self._source.close()
            self._end()

    def _resume(self) -> None:
        if self._source.fd >= 0:
            self._loop.add_reader(self._source.fd, self._on_readable)
            self._listening = True

    def _pause(self) -> None:
        if self._listening and self._source.fd >= 0 and not self._loop.is_closed():
            self._listening = False
            self._loop.remove_reader(self._source.fd)

    def _read(self) -> bytes | None:
        """Return a chunk; ``b""`` at the end; ``None`` if there is none yet."""
        try:
            return os.read(self._source.fd, self._size)
        except BlockingIOError:
            return None
        except OSError:  # the other end of a socket or terminal is gone (ECONNRESET, EIO)
            return b""

    def _on_readable(self) -> None:
        chunk = self._read()
        if chunk is None:
            return
        if not chunk:
            self._pause()
            self._end()
            return
        inbox = self._inbox
        if inbox.ended:  # discarding
            return
        if inbox.feed(chunk):
            self._resting = True
            self._pause()
        if not self._grown and len(chunk) == self._size and inbox.is_inside_large_frame:
            self._grown = True
            self._size = LARGE_CHUNK_BYTES
            if self._source.kind == "pipe":
                grow_pipe(self._source.fd)
        if inbox.frames:
            self._show()


class _Waiters:
    """The tasks that wait until an outbox has sent enough.

    Args:
        loop: their event loop.
        outbox: the outbox.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, outbox: Outbox) -> None:
        self._loop = loop
        self._outbox = outbox
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait(self, limit_bytes: int) -> None:
        """Return after a `wake` that found at most ``limit_bytes`` unsent."""
        entry = limit_bytes, self._loop.create_future()
        self._waiting.append(entry)
        try:
            await entry[1]
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(entry)

    def wake(self) -> None:
        """Wake every task whose limit is reached; called whenever something was sent."""
        for limit, waiter in self._waiting:
            if self._outbox.unsent_bytes <= limit and not waiter.done():
                waiter.set_result(None)


class PollingWriter:
    """Writes without blocking; waits for writability only while the pipe is full.

    Raises:
        OSError, ValueError, NotImplementedError, RuntimeError: this loop cannot wait for the descriptor.
    """

    def __init__(self, target: NonBlockingFd) -> None:
        self._loop = asyncio.get_running_loop()
        self._target = target
        self.outbox = Outbox()
        self._scheduled = False
        self._listening = False
        self._waiters = _Waiters(self._loop, self.outbox)
        if target.pollable:  # a write to a regular file never has to wait
            self._loop.add_writer(target.fd, self._on_writable)  # raises if the loop cannot wait for it
            self._loop.remove_writer(target.fd)

    def send_nowait(self, frame: bytes, *, flush: bool) -> None:
        self.outbox.add(frame)
        if self._listening:
            return
        if flush:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def send_pieces(self, pieces: Sequence[bytes], *, flush: bool) -> None:
        self.outbox.add_pieces(pieces)
        if self._listening:
            return
        if flush:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    async def wait_below(self, limit_bytes: int) -> None:
        outbox = self.outbox
        if outbox.unsent_bytes > limit_bytes and not self._listening:
            self._flush()
        while outbox.unsent_bytes > limit_bytes:
            await self._waiters.wait(limit_bytes)

    def unread_bytes(self) -> int | None:
        return self.outbox.unread_bytes(self._target)

    def close(self) -> None:
        if self._target.fd >= 0:
            self.outbox.on_broken = None
            self._flush()
            self._stop_listening()
            self._target.close()
            self.outbox.lose()
            self._waiters.wake()

    def _flush(self) -> None:
        self._scheduled = False
        if not self._listening and not self.outbox.flush(self._target):
            self._listening = True
            # Only now: a writable descriptor would wake the event loop in each iteration.
            self._loop.add_writer(self._target.fd, self._on_writable)

    def _on_writable(self) -> None:
        if self.outbox.flush(self._target):
            self._stop_listening()
        self._waiters.wake()

    def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            if not self._loop.is_closed():
                self._loop.remove_writer(self._target.fd)


class ThreadReader(_InboxReader):
    """Reads in a daemon thread, at most one chunk before it is needed."""

    def __init__(self, source: NonBlockingFd, max_message_bytes: int) -> None:
        super().__init__(source, max_message_bytes)
        self._go_on = threading.Event()
        self._go_on.set()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="ferrule-stdin", daemon=True).start()

    def finish(self) -> None:
        # The rest is in the pipe or was read by the thread. The end follows immediately, unless another process keeps
        # the pipe open.
        if not self._inbox.ended:
            self._loop.call_later(_LAST_READ_S, self._cut_off)

    def _cut_off(self) -> None:
        self._closed.set()
        self._end()

    def close(self) -> None:
        self._closed.set()
        self._go_on.set()
        self._end()

    def _resume(self) -> None:
        self._go_on.set()

    def _run(self) -> None:
        """Run the thread. It closes the descriptor: closed during a read, its number could be used for another file."""
        try:
            while not self._closed.is_set():
                try:
                    chunk = os.read(self._source.fd, CHUNK_BYTES)
                except OSError:
                    chunk = b""
                self._go_on.clear()
                if self._closed.is_set():  # `close` sets the event after the flag, so one of the two is seen
                    return
                self._loop.call_soon_threadsafe(self._take, chunk)
                if not chunk:
                    return
                self._go_on.wait()
        except RuntimeError:
            pass  # the loop is closed
        finally:
            self._source.close()

    def _take(self, chunk: bytes) -> None:
        if self._inbox.ended:
            self._go_on.set()
        elif not chunk:
            self._end()
        elif self._inbox.feed(chunk):
            self._resting = True
            self._wake()
        else:
            self._go_on.set()
            if self.frames:
                self._show()


class ThreadWriter:
    """Writes in a daemon thread, which ends when everything is written."""

    def __init__(self, target: NonBlockingFd) -> None:
        self._loop = asyncio.get_running_loop()
        self._target = target
        self.outbox = Outbox()
        self._busy = False
        self._scheduled = False
        self._closing = False
        self._waiters = _Waiters(self._loop, self.outbox)

    def send_nowait(self, frame: bytes, *, flush: bool) -> None:
        if self._closing:
            return
        self.outbox.add(frame)
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start)

    def send_pieces(self, pieces: Sequence[bytes], *, flush: bool) -> None:
        if self._closing:
            return
        self.outbox.add_pieces(pieces)
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start)

    async def wait_below(self, limit_bytes: int) -> None:
        while self.outbox.unsent_bytes > limit_bytes:
            await self._waiters.wait(limit_bytes)

    def unread_bytes(self) -> int | None:
        return self.outbox.unread_bytes(self._target)

    def close(self) -> None:
        self._closing = True
        if not self._busy:  # otherwise the thread closes it: it may be inside a write
            self._target.close()
        self.outbox.lose()
        self._waiters.wake()

    def _start(self) -> None:
        self._scheduled = False
        if self._busy or self._closing or not self.outbox.unsent_bytes:
            return
        self._busy = True
        data = self.outbox.take()
        threading.Thread(target=self._run, args=(data,), name="ferrule-stdout", daemon=True).start()

    def _run(self, data: bytes) -> None:
        """Run the thread: write all of ``data``, or up to the first error."""
        rest, failed = memoryview(data), False
        try:
            while rest and not self._closing:
                rest = rest[os.write(self._target.fd, rest) :]
        except OSError:
            failed = True
        try:
            self._loop.call_soon_threadsafe(self._written, len(data), failed)
        except RuntimeError:  # the event loop is closed, so that `_written` will not close the descriptor
            self._target.close()

    def _written(self, size: int, failed: bool) -> None:
        self._busy = False
        if self._closing:
            self._target.close()
        elif failed:
            self.outbox.break_off()
        else:
            self.outbox.unsent_bytes -= size
            self._start()
        self._waiters.wake()
