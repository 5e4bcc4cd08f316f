"""The GET stream of a legacy session, for messages outside calls, and the rules for reopening it.

A stream that ends is opened again from its last event. How often depends on how it ended:

* closed by the server without a message, five times in a row: never again;
* the server has no such stream (404, 405, 406, 410, 501, or a response that is not an event stream): never again;
* refused in another way (4xx): five times, with back-off;
* a temporary failure (5xx, 429, no connection): five times with back-off, then once a minute.

404 does not mean here that the session has ended: many servers route POST only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from ferrule.transports.http.errors import retry_after_s, retry_delay_s
from ferrule.transports.http.sending import media_type
from ferrule.wire.faults import FerruleError
from ferrule.wire.sse import EventReader, EventTooLong

if TYPE_CHECKING:
    from ferrule.transports.http.backend import HttpResponse
    from ferrule.wire.sse import ServerSentEvent

__all__ = ["MAX_IDLE_REOPENS", "PASSING_STATUSES", "SLOW_REOPEN_S", "StandingStream"]

logger = logging.getLogger("ferrule.client.http")

MAX_IDLE_REOPENS: Final = 5
"""GET streams in a row that ended without a message before the client stops reopening them."""
SLOW_REOPEN_S: Final = 60.0
"""Seconds between attempts to open the GET stream of a server that has failed `MAX_IDLE_REOPENS` times."""
PASSING_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Statuses of temporary failures, after which the stream is requested again."""

_HAS_NONE: Final = frozenset({404, 405, 406, 410, 501})
_NOT_FOR_US: Final = frozenset({401, 403})
_SETTLED_STREAM_S: Final = 30.0
"""Seconds after which a GET stream counts as useful, even without a message."""


class StandingStream:
    """The stream of one session; `run` is its task.

    Args:
        url: the URL of the endpoint, for the log.
        open_get: sends a GET that resumes after an event id; ``""`` for new events only.
        take: called with each event that has data.
        max_bytes: larger events are skipped.

    Attributes:
        is_answered: an event that is set when the server has responded to the first GET, with a stream or an error.
    """

    def __init__(
        self,
        url: str,
        open_get: Callable[[str], Awaitable[HttpResponse]],
        take: Callable[[ServerSentEvent], Awaitable[None]],
        max_bytes: int,
    ) -> None:
        self.is_answered = anyio.Event()
        self._url = url
        self._open_get = open_get
        self._take = take
        self._max_bytes = max_bytes

    async def run(self) -> None:
        """Read streams until the server refuses further ones."""
        last_id, retry_ms, idle, was_open = "", None, 0, False
        while True:
            reader = EventReader(self._max_bytes, last_event_id=last_id, retry_ms=retry_ms)
            started = anyio.current_time()
            outcome = await self._listen(reader)
            was_open = was_open or outcome.is_open
            if outcome.is_final:
                level = logging.WARNING if was_open or outcome.is_refusal else logging.DEBUG
                logger.log(
                    level,
                    "%s has no event stream (%s): messages outside calls are not received",
                    self._url,
                    outcome.failed,
                )
                return
            last_id, retry_ms = reader.last_event_id, reader.retry_ms
            if outcome.is_refusal:
                last_id = ""  # the cause may be an event id that the server no longer keeps: reopen without it
            is_worthwhile = outcome.count or (outcome.is_open and anyio.current_time() - started >= _SETTLED_STREAM_S)
            idle = 0 if is_worthwhile else idle + 1
            if idle == MAX_IDLE_REOPENS and self._gives_up(outcome, idle):
                return
            await anyio.sleep(_pause_s(outcome, idle, retry_ms))

    def _gives_up(self, outcome: _StreamOutcome, idle: int) -> bool:
        """Log repeated failures; return whether to give up."""
        if not outcome.failed:
            logger.info("%s closed its event stream %d times at once; it is not reopened", self._url, idle)
            return True
        then = "it is not opened again" if outcome.is_refusal else f"trying again every {SLOW_REOPEN_S:g} s"
        logger.warning(
            "The event stream of %s could not be opened %d times (%s): %s", self._url, idle, outcome.failed, then
        )
        return outcome.is_refusal

    async def _listen(self, reader: EventReader) -> _StreamOutcome:
        """Read one stream to its end."""
        outcome = _StreamOutcome()
        try:
            response = await self._open_get(reader.last_event_id)
        except (FerruleError, OSError) as error:
            outcome.failed = str(error)
            logger.debug("The event stream of %s could not be opened: %s", self._url, error)
            return outcome
        finally:
            self.is_answered.set()
        try:
            if response.status != 200 or media_type(response) != "text/event-stream":
                outcome.note_refusal(response)
                logger.debug("The GET stream of %s was answered %s", self._url, outcome.failed)
                return outcome
            outcome.is_open = True
            while chunk := await response.receive():
                for event in reader.feed(chunk):
                    if isinstance(event, EventTooLong) or not event.data or event.event not in ("message", ""):
                        continue
                    outcome.count += 1
                    await self._take(event)
        except (FerruleError, OSError) as error:
            outcome.failed = str(error)
            logger.debug("The event stream of %s broke: %s", self._url, error)
        finally:
            await response.aclose()
        return outcome


class _StreamOutcome:
    """The outcome of one GET stream.

    Attributes:
        count: number of received messages.
        is_open: whether it was opened.
        failed: the reason why it was not opened, or broke; empty if the server closed it.
        is_final: whether the server has no such stream at all.
        is_refusal: whether the server refused the request (4xx), which a later attempt will hardly change.
        after_s: seconds to wait before the next attempt, if the server requested that.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_open = self.is_final = self.is_refusal = False
        self.failed = ""
        self.after_s = 0.0

    def note_refusal(self, response: HttpResponse) -> None:
        """Record a response that is not an event stream."""
        status = response.status
        self.failed = f"HTTP {status}" if status != 200 else f"content of type {media_type(response)!r}"
        self.is_final = status < 400 or status in _HAS_NONE or status in _NOT_FOR_US
        self.is_refusal = 300 <= status < 500 and status not in PASSING_STATUSES and status not in _HAS_NONE
        self.after_s = retry_after_s(response.headers)


def _pause_s(outcome: _StreamOutcome, idle: int, retry_ms: int | None) -> float:
    pause_s = retry_delay_s(idle, hint_ms=retry_ms)
    if outcome.failed and not outcome.is_open:
        pause_s = max(pause_s, outcome.after_s, retry_delay_s(idle, hint_ms=None))
    return pause_s if idle < MAX_IDLE_REOPENS else max(pause_s, SLOW_REOPEN_S)
