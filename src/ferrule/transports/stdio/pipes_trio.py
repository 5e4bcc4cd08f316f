"""Framed pipes on trio.

A system task of trio writes the data that the pipe does not accept immediately. So a cancelled sender never leaves half
a frame in the pipe, and no nursery is needed.

Imported only when trio runs.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Sequence

import anyio
import trio

from ferrule.kernel.dispatch import TakeFrames
from ferrule.transports.stdio.descriptors import NonBlockingFd
from ferrule.transports.stdio.pipes import CHUNK_BYTES, LAST_READS, Inbox, Outbox
from ferrule.wire.ndjson import Frame

__all__ = ["TrioReader", "TrioWriter"]


class TrioReader:
    """Reads in the task of the consumer."""

    def __init__(self, source: NonBlockingFd, max_message_bytes: int) -> None:
        self._source = source
        self._inbox = Inbox(max_message_bytes)
        self.frames: deque[Frame] = self._inbox.frames
        self._waiting: trio.CancelScope | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._threads = 0
        self.show_to: TakeFrames | None = None  # set as on asyncio, and not used: there is no fast path on trio

    async def next_frame(self) -> Frame:
        while not self.frames:
            if self._inbox.ended:
                raise anyio.EndOfStream
            chunk = b""
            with trio.CancelScope() as scope:
                self._waiting = scope
                try:
                    chunk = await self._read()
                except (OSError, trio.ClosedResourceError):
                    chunk = b""
                finally:
                    self._waiting = None
            if scope.cancelled_caught:
                continue
            if chunk:
                self._inbox.feed(chunk)
            else:
                self._inbox.end()
        return self.frames.popleft()

    def finish(self) -> None:
        if self._inbox.ended:
            return
        for _ in range(LAST_READS if self._source.pollable and self._source.fd >= 0 else 0):
            try:
                chunk = os.read(self._source.fd, CHUNK_BYTES)
            except OSError:
                break
            if not chunk:
                break
            self._inbox.feed(chunk)
        self._end()

    def discard(self) -> None:
        self._inbox.discard()
        if self._waiting is not None:
            self._waiting.cancel()
        if self._source.fd >= 0:
            trio.lowlevel.spawn_system_task(self._read_away)

    async def _read_away(self) -> None:
        """Read and discard, in a system task; an exception of such a task would end the program."""
        with contextlib.suppress(OSError, trio.ClosedResourceError):
            while self._source.fd >= 0 and await self._read():
                pass

    def close(self) -> None:
        self._end()
        if self._source.pollable and self._source.fd >= 0:
            # Wakes the task that waits for the descriptor; trio would otherwise wait for one that no longer exists.
            trio.lowlevel.notify_closing(self._source.fd)
        with self._lock:
            self._closed = True
            if not self._threads:  # otherwise the last thread closes it: one may be inside a read
                self._source.close()

    def _end(self) -> None:
        self._inbox.end()
        if self._waiting is not None:
            self._waiting.cancel()

    async def _read(self) -> bytes:
        if not self._source.pollable:
            return await self._read_in_thread()
        while True:
            await trio.lowlevel.wait_readable(self._source.fd)
            try:
                return os.read(self._source.fd, CHUNK_BYTES)
            except BlockingIOError:
                continue

    async def _read_in_thread(self) -> bytes:
        """Return the next chunk. A wait that is cancelled leaves its thread in the blocking read."""

        def read() -> bytes:
            try:
                return os.read(self._source.fd, CHUNK_BYTES)
            finally:
                with self._lock:
                    self._threads -= 1
                    if self._closed and not self._threads:
                        self._source.close()

        with self._lock:
            self._threads += 1
        # Abandoned on a cancellation: nothing can interrupt a blocking read.
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)


class TrioWriter:
    """Writes immediately; a system task writes the rest that the pipe does not accept."""

    def __init__(self, target: NonBlockingFd) -> None:
        self._target = target
        self.outbox = Outbox()
        self._pumping = False
        self._changed = trio.Event()

    def send_nowait(self, frame: bytes, *, flush: bool) -> None:
        self.outbox.add(frame)
        self._write()

    def send_pieces(self, pieces: Sequence[bytes], *, flush: bool) -> None:
        self.outbox.add_pieces(pieces)
        self._write()

    def _write(self) -> None:
        if self._pumping:
            return
        direct = self._target.pollable or self._target.kind == "file"
        if not direct or not self.outbox.flush(self._target):
            self._pumping = True
            trio.lowlevel.spawn_system_task(self._pump)

    async def wait_below(self, limit_bytes: int) -> None:
        while self.outbox.unsent_bytes > limit_bytes:
            await self._changed.wait()

    def unread_bytes(self) -> int | None:
        return self.outbox.unread_bytes(self._target)

    def close(self) -> None:
        self.outbox.lose()
        self._wake()
        if self._target.pollable and self._target.fd >= 0:
            trio.lowlevel.notify_closing(self._target.fd)
        if self._target.pollable or not self._pumping:
            self._target.close()

    async def _pump(self) -> None:
        """Write the rest, in a system task; an exception of such a task would end the program."""
        try:
            while self.outbox.unsent_bytes and self._target.fd >= 0:
                if self._target.pollable:
                    await trio.lowlevel.wait_writable(self._target.fd)
                    self.outbox.flush(self._target)
                else:
                    await self._write_in_thread()
                self._wake()
        except OSError:
            self.outbox.break_off()
        except trio.ClosedResourceError:
            self.outbox.lose()
        finally:
            self._pumping = False
            self._wake()
            if self.outbox.broken and not self._target.pollable:
                self._target.close()

    async def _write_in_thread(self) -> None:
        data = self.outbox.take()

        def write() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._target.fd, rest) :]

        await trio.to_thread.run_sync(write, abandon_on_cancel=True)
        if not self.outbox.broken:
            self.outbox.unsent_bytes -= len(data)

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
