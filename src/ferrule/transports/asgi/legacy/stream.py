"""One logical stream from a legacy server to its client, which may span several connections.

Every message gets an event id from the session's store, so that a client that lost the connection can get the remaining
ones with ``Last-Event-ID``. Without a store there are no ids, and the stream ends with its connection.

Storing, writing and resuming use one lock: a message that is written while older ones are replayed would arrive out of
order, and the client's last event id would skip events that it never received. A write to a client that does not read
may wait for long, so a new connection and the end of the stream end that write first.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ferrule.protocol.errors import ConnectionClosed
from ferrule.stores.events import EventStore
from ferrule.transports.asgi.replies import EventStreamReply
from ferrule.transports.asgi.runtime import EndableWait, current_runtime
from ferrule.wire.sse import encode_event

__all__ = ["ResumableStream"]

log = logging.getLogger("ferrule.http")


class ResumableStream:
    """A resumable stream of one session.

    Args:
        session_id, stream_id: key of its events in the store.
        store: ``None`` makes a stream that cannot be resumed.
        retry_ms: reconnection time sent to the client with the first event and before a deliberate close.
        primes: begin each stream with an empty event that carries an id (2025-11-25, SEP-1699).

    Attributes:
        last_event_id: id of the newest stored event; empty before the first.
        retry_ms: the last reconnection time sent to the client.
        losses: number of disconnects.
        reply: its present connection; ``None`` while no client is connected.
        is_finished: its last message was sent.
        was_opened: its first event (or its response head) was sent.
    """

    __slots__ = (
        "_lock",
        "_primes",
        "_session_id",
        "_store",
        "_writing",
        "is_finished",
        "last_event_id",
        "losses",
        "reply",
        "retry_ms",
        "stream_id",
        "was_opened",
    )

    def __init__(
        self, session_id: str, stream_id: str, store: EventStore | None, *, retry_ms: int, primes: bool
    ) -> None:
        self.stream_id = stream_id
        self.reply: EventStreamReply | None = None
        self.is_finished = False
        self.was_opened = False
        self._session_id = session_id
        self._store = store
        self.retry_ms = retry_ms
        self.losses = 0
        self.last_event_id = ""
        self._primes = primes and store is not None
        # Without `fast_acquire` each event would yield to the event loop, although the lock is free.
        self._lock = anyio.Lock(fast_acquire=True)
        self._writing = EndableWait()

    @property
    def is_resumable(self) -> bool:
        """Whether a client can resume it after a disconnect."""
        return self._store is not None

    @property
    def has_connection(self) -> bool:
        """Whether a client is connected to it now."""
        return not self.is_finished and self.reply is not None and not self.reply.is_over

    @property
    def can_deliver(self) -> bool:
        """Whether a message can still reach the client, now or after a reconnect."""
        if self.is_finished:
            return False
        return self.is_resumable or self.has_connection

    async def open(self, reply: EventStreamReply, before: Callable[[], Awaitable[object]] | None = None) -> None:
        """Open the stream on its first connection; messages sent meanwhile are queued.

        Args:
            reply: the connection.
            before: awaited before anything is sent.
        """
        async with self._lock:
            self.reply = reply
            if before is not None:
                await before()
            await self._open()

    async def emit(self, data: bytes) -> None:
        """Send one encoded message; a client that is not connected gets it after its reconnect.

        Raises:
            ConnectionClosed: the client is not connected and the stream cannot be resumed.
        """
        async with self._lock:
            if not self.can_deliver:
                raise ConnectionClosed("The client of this stream has disconnected")
            await self._open()
            await self._write(data)

    async def finish(self, data: bytes | None) -> None:
        """Send the last message (``None``: without one) and end the stream."""
        async with self._lock:
            if self.is_finished:
                return
            await self._open()
            event = b"" if data is None else await self._encoded(data)
            self.is_finished = True
            if self.reply is not None:
                reply, self.reply = self.reply, None
                await self._writing.run(reply.close(event))

    def give_up(self) -> None:
        """End the stream although its client does not read; unread events are lost."""
        self.is_finished = True
        self._writing.end()
        if self.reply is not None:
            current_runtime().spawn(self.reply.close)
            self.reply = None

    def cut_write(self) -> None:
        """End a write that waits for the client; the client may resume the stream on a new connection."""
        self._writing.end()

    async def close_connection(self, retry_ms: int | None = None) -> None:
        """Close the connection but not the stream: the client reconnects after ``retry_ms`` milliseconds (SEP-1699).

        Raises:
            ConnectionClosed: the stream cannot be resumed, so closing would lose its messages.
        """
        if not self.is_resumable:
            raise ConnectionClosed("A stream without an event store cannot be closed and resumed")
        async with self._lock:
            if self.is_finished or self.reply is None:
                return
            await self._open()
            reply, self.reply = self.reply, None
            # Stored before the close: the time that a request waits for the reconnect depends on it.
            self.retry_ms = self.retry_ms if retry_ms is None else retry_ms
            await reply.close(b"retry: %d\n\n" % self.retry_ms)

    async def resume(self, reply: EventStreamReply, last_event_id: str) -> None:
        """Continue on a new connection behind the client's last event; an older connection is closed."""
        self.cut_write()
        async with self._lock:
            before, self.reply = self.reply, None
            if before is not None:
                current_runtime().spawn(before.close)  # the old connection may be dead, and closing it may take long
            await replay(self._store, self._session_id, last_event_id, reply)
            if self.is_finished:
                await reply.close()
            else:
                self.reply = reply
                self.was_opened = True

    def lost(self, reply: EventStreamReply) -> None:
        """Handle the disconnect of a connection; another one may carry the stream already."""
        reply.lose()
        self.losses += 1
        if self.reply is reply:
            self.reply = None

    async def _open(self) -> None:
        if self.was_opened:
            return
        self.was_opened = True
        if self._primes:
            await self._write(b"", self.retry_ms)
        elif self.reply is not None:
            await self.reply.write(b"")

    async def _write(self, data: bytes, retry_ms: int | None = None) -> None:
        event = await self._encoded(data, retry_ms)
        reply = self.reply
        if reply is not None and not await self._writing.run(reply.write(event)):
            self.reply = None
            current_runtime().spawn(reply.close)

    async def _encoded(self, data: bytes, retry_ms: int | None = None) -> bytes:
        if self._store is None:
            return encode_event(data)
        try:
            id = await self._store.append(self._session_id, self.stream_id, data)
        except OSError as error:  # a connected client still gets the event, but cannot resume behind it
            log.warning("an event of a stream could not be kept: %s", error)
            return encode_event(data, retry_ms=retry_ms)
        self.last_event_id = id
        return encode_event(data, id=id, retry_ms=retry_ms)


async def replay(store: Any, session_id: str, last_event_id: str, reply: EventStreamReply) -> None:
    """Write on ``reply`` the events behind an event; none if that one is no longer stored."""
    await reply.write(b"")
    found = await store.replay(session_id, last_event_id)
    for event in found.events if found is not None else ():
        await reply.write(encode_event(event.data, id=event.id))
