"""Numbered events for the page, sent to every open page in order and kept for pages that open later.

An event is a JSON object with ``kind``. A *state* event describes an object (a connection, a job, a question) and
replaces the earlier one under the same key, so a page that opens later gets the current state of each object. Other
events (a message, a log line) are kept in a bounded list. Large values are not part of an event: the event has a
number or a key, and the page requests the value with it.

A page that does not read must not block other code. Its queue is bounded; a page whose queue is full is disconnected,
connects again and gets all kept events again. All bounds also count bytes, because the inspected server decides how
long an event is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import anyio

from ferrule.wire.codec import encode

__all__ = ["Feed"]

MAX_EVENTS: Final = 4000
MAX_EVENTS_BYTES: Final = 16 << 20
MAX_STATES: Final = 1000
"""Bound for each kind: many questions of a server must not displace the state of the connection."""
MAX_WAITING: Final = 20_000
MAX_WAITING_BYTES: Final = 64 << 20


class Feed:
    """The events of one inspector."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._events: deque[tuple[int, bytes]] = deque()
        self._events_bytes = 0
        self._states: dict[str, dict[str, tuple[int, bytes]]] = {}
        self._listeners: list[_Listener] = []
        self._number = 0
        self._is_closed = False

    def now_ms(self) -> float:
        """Return the milliseconds since the start, rounded to 0.0001."""
        return round((time.monotonic() - self._started) * 1000, 4)

    def publish_event(self, kind: str, **facts: Any) -> None:
        """Append an event to the list and send it to every open page."""
        event = self._encode(kind, facts)
        self._events.append(event)
        self._events_bytes += len(event[1])
        while len(self._events) > MAX_EVENTS or self._events_bytes > MAX_EVENTS_BYTES:
            self._events_bytes -= len(self._events.popleft()[1])
        self._send(event)

    def publish_state(self, kind: str, key: str, **facts: Any) -> None:
        """Send the current state of an object; it replaces the earlier event of the same kind and key."""
        event = self._encode(kind, {"key": key, **facts})
        states = self._states.setdefault(kind, {})
        states.pop(key, None)
        states[key] = event
        if len(states) > MAX_STATES:
            del states[next(iter(states))]
        self._send(event)

    def withdraw_state(self, kind: str, key: str) -> None:
        """Remove the state of an object, and send its end (``"state": "gone"``) to every open page."""
        if self._states.get(kind, {}).pop(key, None) is not None:
            self._send(self._encode(kind, {"key": key, "state": "gone"}))

    def discard(self, kind: str) -> None:
        """Remove the kept events of this kind; pages that open later do not get them."""
        self._events = deque(
            event for event in self._events if b'"kind":"' + kind.encode() + b'"' not in event[1][:200]
        )
        self._events_bytes = sum(len(text) for _, text in self._events)

    async def listen(self) -> AsyncGenerator[bytes]:
        """Yield the kept events, then each new one, as JSON.

        After 15 s without an event ``b""`` is yielded. The iterator ends when the feed closes, or when the queue of the
        page is full.
        """
        listener = _Listener()
        self._listeners.append(listener)  # before the kept events are sent: an event published meanwhile must be queued
        kept = sorted([*self._events, *(event for states in self._states.values() for event in states.values())])
        try:
            yield encode({"kind": "hello", "now_ms": self.now_ms(), "kept": len(kept)})
            for _, text in kept:
                yield text
            last = kept[-1][0] if kept else 0
            yield encode({"kind": "caught_up"})
            while not self._is_closed and not listener.is_lost:
                while listener.waiting:
                    number, event = listener.next()
                    if number > last:
                        yield event
                if not listener.waiting and not self._is_closed:
                    listener.came = anyio.Event()
                    with anyio.move_on_after(15):
                        await listener.came.wait()
                    if not listener.waiting:
                        yield b""
        finally:
            self._listeners.remove(listener)

    async def aclose(self) -> None:
        """End every iterator of `listen`."""
        self._is_closed = True
        for listener in self._listeners:
            listener.came.set()

    def _encode(self, kind: str, facts: dict[str, Any]) -> tuple[int, bytes]:
        self._number += 1
        return self._number, encode({"kind": kind, "n": self._number, "at_ms": self.now_ms(), **facts})

    def _send(self, event: tuple[int, bytes]) -> None:
        for listener in self._listeners:
            listener.put(event)


class _Listener:
    def __init__(self) -> None:
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.waiting_bytes = 0
        self.came = anyio.Event()
        self.is_lost = False

    def put(self, event: tuple[int, bytes]) -> None:
        if self.is_lost:
            return
        self.waiting.append(event)
        self.waiting_bytes += len(event[1])
        if len(self.waiting) > MAX_WAITING or self.waiting_bytes > MAX_WAITING_BYTES:
            self.is_lost = True
            self.waiting.clear()
        self.came.set()

    def next(self) -> tuple[int, bytes]:
        event = self.waiting.popleft()
        self.waiting_bytes -= len(event[1])
        return event
