"""What the page is told: numbered events, kept for pages that come late, handed to each open page in order.

An event is a JSON object with ``kind``. Those that describe a thing (a lane, a job, a question) replace each other
under their key, so a late page gets the last word about each; those that happened (a message, a log line) are a list
with an end. Large values never travel here: an event says that there is one, and the page asks for it.

Rule a newcomer would break: a page that does not read must not hold anything up. Its queue is bounded, and a page
that falls behind is cut off and comes back for a fresh start. Everything is bounded in bytes, too: how long an event is
decides the inspected server.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import anyio

from ferrule.wire.codec import encode

__all__ = ["Feed"]

MAX_HAPPENINGS: Final = 4000
MAX_HAPPENINGS_BYTES: Final = 16 << 20
MAX_THINGS: Final = 1000
"""Of each kind: a server with a thousand questions must not push out how the connection stands."""
MAX_WAITING: Final = 20_000
MAX_WAITING_BYTES: Final = 64 << 20


class Feed:
    """The events of one inspector."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._happenings: deque[tuple[int, bytes]] = deque()
        self._happenings_bytes = 0
        self._things: dict[str, dict[str, tuple[int, bytes]]] = {}
        self._listeners: list[_Listener] = []
        self._number = 0
        self._is_closed = False

    def now_ms(self) -> float:
        """Milliseconds since the start, to a tenth of a microsecond."""
        return round((time.monotonic() - self._started) * 1000, 4)

    def happened(self, kind: str, **facts: Any) -> None:
        """Something took place."""
        event = self._made(kind, facts)
        self._happenings.append(event)
        self._happenings_bytes += len(event[1])
        while len(self._happenings) > MAX_HAPPENINGS or self._happenings_bytes > MAX_HAPPENINGS_BYTES:
            self._happenings_bytes -= len(self._happenings.popleft()[1])
        self._tell(event)

    def stands(self, kind: str, key: str, **facts: Any) -> None:
        """How a thing stands now; replaces what was said about it before."""
        event = self._made(kind, {"key": key, **facts})
        things = self._things.setdefault(kind, {})
        things.pop(key, None)
        things[key] = event
        if len(things) > MAX_THINGS:
            del things[next(iter(things))]
        self._tell(event)

    def forget(self, kind: str) -> None:
        """Keep nothing of this kind for late pages."""
        self._happenings = deque(
            event for event in self._happenings if b'"kind":"' + kind.encode() + b'"' not in event[1][:200]
        )
        self._happenings_bytes = sum(len(text) for _, text in self._happenings)

    async def listen(self) -> AsyncGenerator[bytes]:
        """Everything so far, then all that comes, as JSON; ``b""`` after a silence; ends when the page fell behind."""
        listener = _Listener()
        self._listeners.append(listener)  # before anything is sent: what comes meanwhile must wait, not get lost
        kept = sorted([*self._happenings, *(event for things in self._things.values() for event in things.values())])
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
        """End every listener."""
        self._is_closed = True
        for listener in self._listeners:
            listener.came.set()

    def _made(self, kind: str, facts: dict[str, Any]) -> tuple[int, bytes]:
        self._number += 1
        return self._number, encode({"kind": kind, "n": self._number, "at_ms": self.now_ms(), **facts})

    def _tell(self, event: tuple[int, bytes]) -> None:
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
