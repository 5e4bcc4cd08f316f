"""What was sent on the event streams of legacy sessions, so that a client that lost one can ask for the rest.

The interface; `ferrule.transports.asgi.legacy.events.MemoryEventStore` is the bounded default of one process, and
`ferrule.stores.redis.store.RedisEvents` is shared.

Rule a newcomer would break: an event is replayed only to the session, and only for the stream, that it was written
for. The id that a client presents is input from outside; the store finds the stream *inside the given session* or
answers ``None``.
"""

from typing import NamedTuple, Protocol

__all__ = ["EventStore", "Replay", "StoredEvent"]


class StoredEvent(NamedTuple):
    """One event as it was sent: its ``id`` field and its data (a JSON-RPC message, or empty for a priming event)."""

    id: str
    data: bytes


class Replay(NamedTuple):
    """The events after a given one, oldest first, and the stream they belong to."""

    stream_id: str
    events: list[StoredEvent]


class EventStore(Protocol):
    """Keeps sent events. It may drop old ones; then ``replay`` answers ``None`` rather than leave a gap."""

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id.

        Ids are unique within the session and contain no control character (they travel in an HTTP header).
        """
        ...

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """What followed ``last_event_id`` on its stream; ``None`` when this session does not have it (any more)."""
        ...

    async def forget(self, session_id: str) -> None:
        """Drop everything of a session that has ended."""
        ...
