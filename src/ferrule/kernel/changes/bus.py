"""What changed, told to whoever listens: the mechanism under `subscriptions/listen` and legacy notifications.

Publishing is a plain call: it never waits and never fails because of a slow listener. Each listener has a bounded
buffer. An event that is already waiting in it is not added again (a second "tools changed" says nothing new); when
it is full all the same, the listener is *ended*, because a client that re-subscribes knows that it may have missed
something, and one whose events vanish does not.

Source: 2026-07-28, "Subscriptions"; 2025-11-25, "Resources" and the list-changed notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import get_ident
from typing import Any, Final

import anyio
from msgspec import field

from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.wire.struct import Value
from ferrule.wire.uri_template import normal_uri

__all__ = [
    "DEFAULT_BUFFER_SIZE",
    "LIST_CHANGED_METHODS",
    "RESOURCE_UPDATED",
    "Event",
    "ListenFilter",
    "Listener",
    "SubscriptionBus",
]

logger = logging.getLogger(__name__)

DEFAULT_BUFFER_SIZE: Final = 256
"""Events that may wait for one listener."""

LIST_CHANGED_METHODS: Final[Mapping[str, str]] = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
"""Kind of list → the notification that says it changed."""

RESOURCE_UPDATED: Final = "notifications/resources/updated"
"""The notification that says that a resource changed."""


class Event(Value, frozen=True):
    """Something that changed.

    Attributes:
        method: the notification that tells of it.
        topic: what filters match: the notification's method, or a resource's `normal_uri`, or an extension's own word.
        params: of the notification, without ``_meta``; not to be changed.
    """

    method: str
    topic: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __hash__(self) -> int:
        return hash((self.method, self.topic))

    @classmethod
    def list_changed(cls, kind: str) -> Event:
        """Return the list of ``"tools"``, ``"prompts"`` or ``"resources"`` is not what it was."""
        method = LIST_CHANGED_METHODS[kind]
        return cls(method, method)

    @classmethod
    def resource_updated(cls, uri: str) -> Event:
        """Return the event for changed contents of a resource (``notifications/resources/updated``)."""
        return cls(RESOURCE_UPDATED, normal_uri(uri), {"uri": uri})


class ListenFilter:
    """What one listener wants: list-changed kinds, resource URIs, and topics of extensions. Mutable.

    Args:
        kinds: of ``"tools"``, ``"prompts"``, ``"resources"``.
        uris: a URI also covers what lies below it (``a/b`` covers ``a/b/c``).
        topics: ``(method, topic)`` pairs of extensions' notifications.

    Attributes:
        may_see: whether the listener may know of a resource; ``None``: of all. Asked for each event and not for what
            is subscribed to, because a URI covers others that nobody could name.
    """

    __slots__ = ("kinds", "may_see", "topics", "uris")

    def __init__(
        self, kinds: Iterable[str] = (), uris: Iterable[str] = (), topics: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.kinds = {LIST_CHANGED_METHODS[kind] for kind in kinds}
        self.uris = {normal_uri(uri) for uri in uris}
        self.topics = set(topics)
        self.may_see: Callable[[str], bool] | None = None

    def matches(self, event: Event) -> bool:
        """Return whether the listener wants this event."""
        if event.topic in self.kinds:
            return True
        if event.method == RESOURCE_UPDATED:
            is_wanted = event.topic in self.uris or self._covers(event.topic)
            return is_wanted and (self.may_see is None or self.may_see(event.topic))
        return (event.method, event.topic) in self.topics

    def _covers(self, uri: str) -> bool:
        """Return whether a parent of ``uri`` is subscribed."""
        if not self.uris:
            return False
        # Up the path instead of over all subscriptions: a client chooses how many subscriptions there are.
        end = uri.rfind("/")
        while end > 0:
            if uri[:end] in self.uris or uri[: end + 1] in self.uris:
                return True
            end = uri.rfind("/", 0, end)
        return False


class Listener:
    """One bounded buffer of events; iterate it, or take what waits with `drain`.

    Made by `SubscriptionBus.listen`; a context manager that stops listening at its end.
    """

    __slots__ = ("_bus", "_ended", "_max", "_on_wake", "_waiting", "_wake", "filter", "overflowed")

    def __init__(self, bus: SubscriptionBus, filter: ListenFilter, max_events: int) -> None:
        self.filter = filter
        self.overflowed = False
        self._bus = bus
        self._max = max_events
        # A list: an empty deque holds 600 bytes, there may be thousands of listeners, and few have two events waiting.
        self._waiting: list[Event] = []
        self._wake: _FutureWake | anyio.Event | None = None
        self._on_wake: Callable[[], None] | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether no further event will be added."""
        return self._ended

    def on_wake(self, callback: Callable[[], None] | None) -> None:
        """Call back whenever something waits or the listener ended, instead of iterating."""
        self._on_wake = callback

    def offer(self, event: Event) -> None:
        """Add an event that matched; ends the listener when its buffer is full."""
        if self._ended or event in self._waiting:
            return
        if len(self._waiting) >= self._max:
            self.overflowed = True
            self.end()
            return
        self._waiting.append(event)
        self._notify()

    def end(self) -> None:
        """Add nothing more; what waits is still handed out."""
        self._ended = True
        self._bus.forget(self)
        self._notify()

    def drain(self) -> list[Event]:
        """Everything that waits, in order; empties the buffer."""
        events = list(self._waiting)
        self._waiting.clear()
        return events

    async def next(self) -> Event | None:
        """Return the next event; ``None`` when the listener has ended and nothing waits."""
        while not self._waiting:
            if self._ended:
                return None
            self._wake = wake = _FutureWake() if is_asyncio() else anyio.Event()
            await wake.wait()
        return self._waiting.pop(0)

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Event:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None
        if self._on_wake is not None:
            self._on_wake()


class _FutureWake:
    """An event for one waiter on asyncio: a kilobyte less than anyio's, and there may be thousands that wait."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        import asyncio

        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        """Wake the waiter."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait for `set`."""
        await self._future


class SubscriptionBus:
    """Hands events to listeners in this process; a shared store relays them to others.

    Args:
        max_events: the buffer of each listener.

    Publishing is safe from any thread: what comes from another one than that of the listeners goes to their loop first.
    Everything else belongs to the thread of the event loop.
    """

    def __init__(self, *, max_events: int = DEFAULT_BUFFER_SIZE) -> None:
        self._max_events = max_events
        self._listeners: dict[Listener, None] = {}
        self._relays: list[Callable[[Event], None]] = []
        self._home: tuple[int, Callable[[Callable[[], None]], object]] | None = None

    def __len__(self) -> int:
        return len(self._listeners)

    def listen(self, filter: ListenFilter) -> Listener:
        """Return a new listener; end it, or use it as a context manager."""
        self._settle()
        listener = Listener(self, filter, self._max_events)
        self._listeners[listener] = None
        return listener

    def publish(self, event: Event) -> None:
        """Tell every listener that wants it, here and, through relays, elsewhere."""
        home = self._home
        if home is not None and home[0] != get_ident():
            try:
                home[1](partial(self.publish, event))
            except RuntimeError:  # its loop has ended, and with it whoever listened
                logger.debug("Nobody hears of %s any more", event.method)
            return
        self.deliver(event)
        for relay in self._relays:
            relay(event)

    def deliver(self, event: Event) -> None:
        """Tell the listeners of this process only (what a relay calls with events from elsewhere)."""
        for listener in [found for found in self._listeners if found.filter.matches(event)]:
            listener.offer(event)

    def add_relay(self, relay: Callable[[Event], None]) -> Callable[[], None]:
        """Also hand every published event to ``relay`` (it must not wait); returns the undo."""
        self._settle()
        self._relays.append(relay)

        def undo() -> None:
            if relay in self._relays:
                self._relays.remove(relay)

        return undo

    def _settle(self) -> None:
        """Remember the thread of the event loop that runs now, and the way to it."""
        if is_asyncio():
            import asyncio

            self._home = get_ident(), asyncio.get_running_loop().call_soon_threadsafe
            return
        try:
            from anyio.lowlevel import current_token

            token: Any = current_token()
        except Exception:  # no event loop runs: an app that is put together
            return
        token = getattr(token, "native_token", token)  # anyio wraps the token of the loop
        self._home = get_ident(), token.run_sync_soon

    def end_all(self) -> None:
        """End every listener: the server is going down."""
        for listener in list(self._listeners):
            listener.end()

    def forget(self, listener: Listener) -> None:
        """Called by a listener that ends."""
        self._listeners.pop(listener, None)
