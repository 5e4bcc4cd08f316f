"""One logical stream from a legacy server to its client, which may outlive the connection that carries it.

Every message gets an event id from the session's store, so that a client that lost the connection can ask for the
rest with ``Last-Event-ID``. Without a store there are no ids, and a lost connection is the end of the stream.

Storing, writing and re-attaching happen under one lock. A message that is written while an older one is being
replayed would arrive out of order, and the client's last id would skip what it never saw. A write to a client that
does not read may wait as long as the server allows, so a new connection, and the end of the stream, end that
write first.
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
        session_id, stream_id: where its events are kept.
        store: ``None`` makes a stream that cannot be resumed.
        retry_ms: reconnection time sent to the client with the first event and before a deliberate close.
        primes: begin each stream with an empty event that carries an id (2025-11-25, SEP-1699).

    Attributes:
        last_event_id: id of the newest event that was stored; empty before the first.
        retry_ms: the last reconnection time sent to the client.
        losses: how often its client has gone.
        reply: the connection that carries it now; ``None`` while no client is connected.
        is_finished: its last message is out.
        was_opened: its first event (or its response head) is out.
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
        self._lock = anyio.Lock(fast_acquire=True)
        self._writing = EndableWait()

    @property
    def is_resumable(self) -> bool:
        """Whether a client that lost it can come back for the rest."""
        return self._store is not None

    @property
    def has_connection(self) -> bool:
        """Whether a client is connected to it now."""
        return not self.is_finished and self.reply is not None and not self.reply.is_over

    @property
    def can_deliver(self) -> bool:
        """Whether a message sent now can still reach the client, at once or when it comes back."""
        if self.is_finished:
            return False
        return self.is_resumable or self.has_connection

    async def open(self, reply: EventStreamReply, before: Callable[[], Awaitable[object]] | None = None) -> None:
        """Begin the stream on its first connection; what is sent meanwhile waits.

        Args:
            before: awaited before anything is sent.
        """
        async with self._lock:
            self.reply = reply
            if before is not None:
                await before()
            await self._open()

    async def emit(self, data: bytes) -> None:
        """Send one encoded message; a client that is away gets it when it comes back.

        Raises:
            ConnectionClosed: the client is away and the stream cannot be resumed.
        """
        async with self._lock:
            if not self.can_deliver:
                raise ConnectionClosed("The client of this stream has gone")
            await self._open()
            await self._write(data)

    async def finish(self, data: bytes | None) -> None:
        """Send the last message (``None``: there is none) and end the stream."""
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
        """End the stream although its client does not read: what it has not read is lost."""
        self.is_finished = True
        self._writing.end()
        if self.reply is not None:
            current_runtime().spawn(self.reply.close)
            self.reply = None

    def cut_write(self) -> None:
        """End a write that waits for its client to read; the client may come back for the rest on a new connection."""
        self._writing.end()

    async def close_connection(self, retry_ms: int | None = None) -> None:
        """End the connection but not the stream: the client comes back for the rest after ``retry_ms`` (SEP-1699).

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
            self.retry_ms = self.retry_ms if retry_ms is None else retry_ms
            await reply.close(b"retry: %d\n\n" % self.retry_ms)

    async def resume(self, reply: EventStreamReply, last_event_id: str) -> None:
        """Continue on a new connection after what the client has seen; a connection it still had is closed."""
        self.cut_write()
        async with self._lock:
            before, self.reply = self.reply, None
            if before is not None:
                current_runtime().spawn(before.close)  # it may be dead, and closing it may take long
            await replay(self._store, self._session_id, last_event_id, reply)
            if self.is_finished:
                await reply.close()
            else:
                self.reply = reply
                self.was_opened = True

    def lost(self, reply: EventStreamReply) -> None:
        """The client of a connection has gone; another connection may carry the stream already."""
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
        except OSError as error:  # a connected client gets it all the same, but cannot resume from it
            log.warning("an event of a stream could not be kept: %s", error)
            return encode_event(data, retry_ms=retry_ms)
        self.last_event_id = id
        return encode_event(data, id=id, retry_ms=retry_ms)


async def replay(store: Any, session_id: str, last_event_id: str, reply: EventStreamReply) -> None:
    """Write on ``reply`` what followed an event; nothing when it is no longer known."""
    await reply.write(b"")
    found = await store.replay(session_id, last_event_id)
    for event in found.events if found is not None else ():
        await reply.write(encode_event(event.data, id=event.id))
