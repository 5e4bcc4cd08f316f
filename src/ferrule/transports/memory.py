"""Two connected ends in one process, for tests, or for a client and a server in one process.

Each message is encoded once by its sender and decoded once by its receiver, as over a pipe: neither side can change the
other's objects, and values that JSON cannot represent fail here too. A side waits only if there is nothing to read or
more than ``max_buffered_bytes`` are unread; no task is created.

Both ends belong to one event loop; asyncio and trio are supported.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio

from ferrule.kernel.dispatch import StreamMessage, TakeFrames, TransportContext
from ferrule.transports.watch import runs_on_trio
from ferrule.wire.codec import decode, encode

__all__ = ["MemoryEnd", "MemoryReadStream", "MemoryWriteStream", "memory_pair"]

_TRANSPORT: Final = TransportContext("memory")


@dataclass(frozen=True, slots=True)
class MemoryEnd:
    """One end: a stream pair for a dispatcher.

    Attributes:
        read_stream: receives the messages of the other end.
        write_stream: sends messages to the other end.
    """

    read_stream: MemoryReadStream
    write_stream: MemoryWriteStream

    async def aclose(self) -> None:
        """Close both directions. Idempotent."""
        await self.write_stream.aclose()
        await self.read_stream.aclose()


def memory_pair(*, max_buffered_bytes: int = 1 << 20) -> tuple[MemoryEnd, MemoryEnd]:
    """Return two connected ends; each receives the messages that the other sends.

    Args:
        max_buffered_bytes: a sender waits while more than this is unread; a single larger message is accepted.
    """
    there, back = _Channel(max_buffered_bytes), _Channel(max_buffered_bytes)
    return (
        MemoryEnd(MemoryReadStream(back), MemoryWriteStream(there)),
        MemoryEnd(MemoryReadStream(there), MemoryWriteStream(back)),
    )


class MemoryReadStream:
    """The receiving half of a direction.

    Attributes:
        transport: facts that hold for every message.
    """

    transport = _TRANSPORT

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    async def receive(self) -> StreamMessage:
        """Return the next message, decoded from its JSON.

        Raises:
            anyio.EndOfStream: the sender has closed, and all messages were received.
            anyio.ClosedResourceError: this stream is closed.
        """
        channel = self._channel
        while not channel.frames:
            if channel.reader_closed:
                raise anyio.ClosedResourceError
            if channel.writer_closed:
                raise anyio.EndOfStream
            await channel.frame_added.wait()
        frame = channel.frames.popleft()
        channel.size -= len(frame)
        if channel.size <= channel.limit:
            channel.space_freed.wake()
        return StreamMessage(decode(frame), _TRANSPORT)

    def show_frames(self, take: TakeFrames | None) -> None:
        """See `ferrule.kernel.dispatch.ShowsFrames`; on asyncio only."""
        self._channel.show_to = take

    def frames_taken(self, count: int, unanswered: int) -> None:
        """See `ferrule.kernel.dispatch.ShowsFrames`."""

    async def aclose(self) -> None:
        """Close the stream: the other end's ``send`` then raises `anyio.BrokenResourceError`. Idempotent."""
        channel = self._channel
        channel.reader_closed = True
        channel.frames.clear()
        channel.size = 0
        channel.frame_added.wake()
        channel.space_freed.wake()


class MemoryWriteStream:
    """The sending half of a direction."""

    encodes = True

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    async def send(self, item: StreamMessage) -> None:
        """Encode and send one message; waits while more than ``max_buffered_bytes`` are unread.

        Raises:
            EncodeError: the message has no JSON form.
            anyio.ClosedResourceError: this stream is closed.
            anyio.BrokenResourceError: the receiving end is closed.
        """
        channel = self._channel
        if channel.writer_closed:
            raise anyio.ClosedResourceError
        if channel.reader_closed:
            raise anyio.BrokenResourceError
        channel.add([encode(item.message)])
        while channel.is_full:
            await channel.space_freed.wait()

    @property
    def is_congested(self) -> bool:
        """See `ferrule.kernel.dispatch.WritesPieces`; also true where `send` would raise."""
        channel = self._channel
        return channel.size > channel.limit or channel.reader_closed or channel.writer_closed

    def send_pieces(self, pieces: list[bytes], *, flush: bool) -> None:
        """See `ferrule.kernel.dispatch.WritesPieces`. The other end takes the frames in the next pass of the loop."""
        channel = self._channel
        if not (channel.reader_closed or channel.writer_closed):
            frames = b"".join(pieces).split(b"\n")
            frames.pop()  # what follows the last end of a frame: nothing
            channel.add(frames)

    async def aclose(self) -> None:
        """End the stream: the other side receives what was sent, then `anyio.EndOfStream`. Idempotent."""
        channel = self._channel
        channel.writer_closed = True
        channel.frame_added.wake()
        channel.space_freed.wake()


class _Channel:
    __slots__ = ("frame_added", "frames", "limit", "reader_closed", "show_to", "size", "space_freed", "writer_closed")

    def __init__(self, limit: int) -> None:
        self.frames: deque[bytes] = deque()
        self.size = 0
        self.limit = limit
        self.reader_closed = self.writer_closed = False
        self.frame_added = _WakeUps()
        self.space_freed = _WakeUps()
        self.show_to: TakeFrames | None = None

    @property
    def is_full(self) -> bool:
        return self.size > self.limit and not (self.reader_closed or self.writer_closed)

    def add(self, frames: list[bytes]) -> None:
        is_first = not self.frames
        self.frames += frames
        for frame in frames:
            self.size += len(frame)
        if self.show_to is None or not self.frame_added.has_waiters:
            self.frame_added.wake()
        elif is_first:  # otherwise it is going to be called
            self._show_soon()

    def _show_soon(self) -> None:
        # Not at once: the sender is inside a task, in which the receiver's calls must not run.
        import asyncio

        asyncio.get_running_loop().call_soon(self._show)

    def _show(self) -> None:
        """Show the frames, while a receiver waits for one, and wake it for those that are left."""
        frames = self.frames
        is_open = not (self.reader_closed or self.writer_closed)
        if frames and self.show_to is not None and self.frame_added.has_waiters and is_open:
            goes_on = self.show_to(frames)
            self.size = sum(map(len, frames))
            if not self.is_full:
                self.space_freed.wake()
            if goes_on and frames:
                self._show_soon()
                return
        if frames or self.writer_closed:
            self.frame_added.wake()


class _Waiter(Protocol):
    """The methods of an asyncio future that are used."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...


class _WakeUps:
    """Wakes all tasks that wait now; a wake-up without a waiter is not kept.

    On asyncio each waiter has a future: `anyio.Event` costs several times as much there.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[_Waiter] = []

    @property
    def has_waiters(self) -> bool:
        """Whether a task waits that has not been woken."""
        return bool(self._waiters)

    def wake(self) -> None:
        if self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    async def wait(self) -> None:
        waiter: Any
        if runs_on_trio():
            waiter = _TrioWaiter()
        else:
            import asyncio

            waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)


class _TrioWaiter:
    def __init__(self) -> None:
        self._event = anyio.Event()

    def done(self) -> bool:
        return self._event.is_set()

    def set_result(self, _: None, /) -> None:
        self._event.set()

    def __await__(self) -> Any:
        return self._event.wait().__await__()
