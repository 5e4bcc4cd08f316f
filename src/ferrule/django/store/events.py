"""Events of legacy streams in the project's database."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import Max

from ferrule.django.models import EventRow
from ferrule.django.store.database import Database, digest, upsert
from ferrule.stores.events import Replay, StoredEvent

__all__ = ["DjangoEvents"]

_MOST_ATTEMPTS: Final = 100


class DjangoEvents:
    """`ferrule.stores.events.EventStore` in a database.

    The first number of a stream is the current time, or above the numbers of the session's other streams. So a stream
    that was deleted and continues gets new ids: an old id then finds nothing, instead of the wrong event.

    Args:
        database: the database.
        max_stream_events: maximum number of events of a stream, and a sixteenth more; the oldest are deleted first.
        max_session_streams: maximum number of streams of a session; the least recently written are deleted first.
        ttl_s: seconds that an event is kept.
    """

    def __init__(
        self,
        database: Database,
        *,
        max_stream_events: int = 256,
        max_session_streams: int = 256,
        ttl_s: float = 1800.0,
    ) -> None:
        self._database = database
        self._most = max_stream_events
        self._trim_every = max(1, max_stream_events // 16)
        self._most_streams = max_session_streams
        self._ttl_s = ttl_s

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id; see `EventStore.append`."""
        session, stream = digest(session_id), digest(stream_id)

        def work(now: float) -> int:
            of_session = self._database.rows(EventRow).filter(session=session)
            of_stream = of_session.filter(stream=stream)
            for _ in range(_MOST_ATTEMPTS):
                last: int | None = of_stream.aggregate(last=Max("number"))["last"]
                number = self._first(of_session, now) if last is None else last + 1
                # Before the event, which comes last: a call that failed is repeated.
                if last is None:
                    self._drop_streams(of_session.exclude(stream=stream))
                elif number % self._trim_every == 0:  # not each time: it is one more write to the disk
                    of_stream.filter(number__lte=number - self._most).delete()
                values = {
                    "session": session,
                    "stream": stream,
                    "number": number,
                    "expires_at": now + self._ttl_s,
                    "data": data,
                }
                # Another process may have taken the number since it was read.
                if upsert(
                    self._database.using, EventRow, ("session", "stream", "number"), values, replaces=float("-inf")
                ):
                    return number
            raise OSError("Too many processes write to one stream at once")

        return f"{stream_id}-{await self._database.run(work)}"

    @staticmethod
    def _first(of_session: Any, now: float) -> int:
        others: int | None = of_session.aggregate(last=Max("number"))["last"]
        return max(int(now * 1000), (others or 0) + 1)

    def _drop_streams(self, others: Any) -> None:
        by_age = others.values("stream").annotate(expiry=Max("expires_at"), last=Max("pk")).order_by("-expiry", "-last")
        dropped = [each["stream"] for each in by_age[self._most_streams - 1 :]]
        if dropped:
            others.filter(stream__in=dropped).delete()

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """Return the events after ``last_event_id`` on its stream; see `EventStore.replay`."""
        stream_id, _, text = last_event_id.rpartition("-")
        if not stream_id or not (text.isascii() and text.isdigit()) or len(text) > 15:
            return None
        seen = int(text)

        def work(now: float) -> list[Any]:
            # Also the seen event itself: if neither it nor the next one exists, there is a gap.
            found = self._database.rows(EventRow).filter(
                session=digest(session_id), stream=digest(stream_id), number__gte=seen, expires_at__gt=now
            )
            return list(found.order_by("number").values_list("number", "data"))

        rows = await self._database.run(work)
        if not rows or rows[0][0] > seen + 1:
            return None
        events = [StoredEvent(f"{stream_id}-{number}", bytes(data)) for number, data in rows if number > seen]
        return Replay(stream_id, events)

    async def forget(self, session_id: str) -> None:
        """Delete all events of a session that has ended; see `EventStore.forget`."""
        session = digest(session_id)

        def work(now: float) -> None:
            self._database.rows(EventRow).filter(session=session).delete()

        await self._database.run(work)
