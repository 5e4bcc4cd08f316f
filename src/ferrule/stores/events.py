"""The events that were sent on the streams of legacy sessions, for clients that resume a lost stream.

`EventStore` is the interface. `MemoryEventStore` is the default: bounded, for one process.
`ferrule.stores.redis.store.RedisEvents` is shared by all workers. Only the legacy era uses this: revision 2026-07-28
has no event ids.

An event is replayed only to its own session and on its own stream. The id that a client sends is untrusted input: a
store must look for its stream *within the given session*, and return ``None`` if there is none.
"""

from collections import OrderedDict, deque
from typing import NamedTuple, Protocol

__all__ = ["EventStore", "MemoryEventStore", "Replay", "StoredEvent"]


class StoredEvent(NamedTuple):
    """One event as it was sent: its ``id`` field and its data (a JSON-RPC message, or empty for a priming event)."""

    id: str
    data: bytes


class Replay(NamedTuple):
    """The events after a given one, oldest first, and the id of their stream."""

    stream_id: str
    events: list[StoredEvent]


class EventStore(Protocol):
    """Keeps sent events. It may drop old ones; ``replay`` then returns ``None`` instead of leaving a gap."""

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id.

        Ids are unique within the session and contain no control characters, since clients send them in an HTTP header.

        Raises:
            OSError: the store cannot be reached or written to.
        """
        ...

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """Return the events after ``last_event_id`` on its stream; ``None`` if this session has no such event."""
        ...

    async def forget(self, session_id: str) -> None:
        """Delete all events of a session that has ended."""
        ...


_STREAM_BYTES = 1400
_EVENT_BYTES = 40
"""Measured memory of a stream and of an event in bytes, in addition to the data."""


class _StreamLog:
    """The last events of one stream, which are consecutive; the first of them has the number ``first``."""

    __slots__ = ("events", "first", "size_bytes")

    def __init__(self, first: int) -> None:
        self.events: deque[bytes] = deque()
        self.first = first
        self.size_bytes = 0

    def drop_oldest(self) -> int:
        freed = len(self.events.popleft())
        self.first += 1
        self.size_bytes -= freed
        return freed


class MemoryEventStore:
    """An `EventStore` in this process's memory, bounded in three ways.

    Overflow drops the oldest events of the stream (``max_stream_events``), the stream of the session that was written
    least recently (``max_session_streams``), or the stream of any session that was written least recently
    (``max_bytes``). `replay` then returns ``None``.

    Args:
        max_stream_events: maximum number of events of a stream, at least 1.
        max_session_streams: maximum number of streams of a session, at least 1.
        max_bytes: maximum bytes of all events, where each stream counts 1,400 and each event 40 in addition to its
            data; a single larger event is kept until the next one arrives.

    Raises:
        ValueError: a bound is less than 1.
    """

    def __init__(
        self, *, max_stream_events: int = 256, max_session_streams: int = 32, max_bytes: int = 32 * 1024 * 1024
    ) -> None:
        if min(max_stream_events, max_session_streams, max_bytes) < 1:
            raise ValueError("every bound of a MemoryEventStore is at least 1")
        self._max_stream_events = max_stream_events
        self._max_session_streams = max_session_streams
        self._max_bytes = max_bytes
        self._sessions: dict[str, OrderedDict[str, _StreamLog]] = {}
        # Over all sessions, so that a full store finds the oldest stream without a search.
        self._recency: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._size_bytes = 0
        self._events = 0
        # Number of the first event of a new stream: above the numbers of all dropped streams. A dropped stream that
        # continues must not use an id twice, or its client would resume at the wrong event.
        self._floor = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of event data kept now."""
        return self._size_bytes

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id; see `EventStore.append`."""
        streams = self._sessions.get(session_id)
        if streams is None:
            streams = self._sessions[session_id] = OrderedDict()
        log = streams.get(stream_id)
        if log is None:
            log = streams[stream_id] = _StreamLog(self._floor)
        streams.move_to_end(stream_id)
        self._recency[session_id, stream_id] = None
        self._recency.move_to_end((session_id, stream_id))
        log.events.append(data)
        log.size_bytes += len(data)
        self._size_bytes += len(data)
        self._events += 1
        if len(log.events) > self._max_stream_events:
            self._drop_event(log)
        if len(streams) > self._max_session_streams:
            self._drop_stream(session_id, next(iter(streams)))
        # Other streams first: the event that was just added is the one that a client may need next.
        while self._held_bytes() > self._max_bytes and len(self._recency) > 1:
            self._drop_stream(*next(iter(self._recency)))
        while self._size_bytes > self._max_bytes and len(log.events) > 1:
            self._drop_event(log)
        return f"{stream_id}-{log.first + len(log.events) - 1}"

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """Return the events after ``last_event_id`` on its stream; see `EventStore.replay`."""
        stream_id, _, number = last_event_id.rpartition("-")
        streams = self._sessions.get(session_id)
        log = None if streams is None else streams.get(stream_id)
        # The id is untrusted: `int` of a very long number takes long, and `isdigit` alone accepts other scripts.
        if log is None or not (number.isascii() and number.isdigit()) or len(number) > 18:
            return None
        seen = int(number)
        # Event ``seen`` itself may be dropped, but not the one after it: the client would not notice the gap.
        if seen + 1 < log.first or seen >= log.first + len(log.events):
            return None
        start = seen + 1 - log.first
        kept = list(log.events)[start:]
        return Replay(stream_id, [StoredEvent(f"{stream_id}-{seen + 1 + i}", data) for i, data in enumerate(kept)])

    async def forget(self, session_id: str) -> None:
        """Delete all events of a session that has ended; see `EventStore.forget`."""
        for stream_id in list(self._sessions.get(session_id, ())):
            self._drop_stream(session_id, stream_id)

    def _held_bytes(self) -> int:
        return self._size_bytes + len(self._recency) * _STREAM_BYTES + self._events * _EVENT_BYTES

    def _drop_event(self, log: _StreamLog) -> None:
        self._size_bytes -= log.drop_oldest()
        self._events -= 1

    def _drop_stream(self, session_id: str, stream_id: str) -> None:
        streams = self._sessions[session_id]
        log = streams.pop(stream_id)
        self._size_bytes -= log.size_bytes
        self._events -= len(log.events)
        # One number for all streams: remembering one for each dropped stream would be unbounded.
        self._floor = max(self._floor, log.first + len(log.events))
        del self._recency[session_id, stream_id]
        if not streams:
            del self._sessions[session_id]
