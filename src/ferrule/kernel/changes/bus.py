"""Publishing of changes to listeners, for ``subscriptions/listen`` and legacy notifications.

Publishing is a plain call: it never waits, and never fails because of a slow listener. Each listener has a bounded
buffer. An event that is already in the buffer is not added again, since it has no new information. When the buffer is
full, the listener is *ended* instead of dropping events: a client that subscribes again then knows that it may have
missed changes. Where events of other processes may be lost, `SubscriptionBus.deliver_gap` says so to every listener.

Source: 2026-07-28, "Subscriptions"; 2025-11-25, "Resources" and the list-changed notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache, partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from msgspec import field

from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.wire.struct import Value
from ferrule.wire.uri_template import normal_uri

if TYPE_CHECKING:
    import asyncio

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

_UNKNOWN: Final = object()

DEFAULT_BUFFER_SIZE: Final = 256
"""Maximum number of events in the buffer of one listener."""

LIST_CHANGED_METHODS: Final[Mapping[str, str]] = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
"""The list-changed notification of each kind of list."""

RESOURCE_UPDATED: Final = "notifications/resources/updated"
"""The notification of a changed resource."""


class Event(Value, frozen=True):
    """A change.

    Attributes:
        method: the notification's method.
        topic: the value that filters match: the notification's method, a resource's `normal_uri`, or a topic that an
            extension defines.
        params: the params of the notification, without ``_meta``; not to be changed.
    """

    method: str
    topic: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __hash__(self) -> int:
        return hash((self.method, self.topic))

    @classmethod
    def list_changed(cls, kind: str) -> Event:
        """Return the event for a changed list of ``"tools"``, ``"prompts"`` or ``"resources"``."""
        method = LIST_CHANGED_METHODS[kind]
        return cls(method, method)

    @classmethod
    def resource_updated(cls, uri: str) -> Event:
        """Return the event for changed contents of a resource (``notifications/resources/updated``)."""
        return cls(RESOURCE_UPDATED, normal_uri(uri), {"uri": uri})


UNBOUND: Final = object()
"""The principal of a filter that is not for any principal yet; ``None`` is an anonymous sender."""


class ListenFilter:
    """The events that one listener receives: list-changed kinds, resource URIs, and topics of extensions.

    After `SubscriptionBus.listen` change it through the `Listener` only, which also updates the index of the bus.

    Args:
        kinds: any of ``"tools"``, ``"prompts"``, ``"resources"``.
        uris: a URI also covers the URIs below it (``a/b`` covers ``a/b/c``).
        topics: ``(method, topic)`` pairs of extensions' notifications.

    Attributes:
        may_see: ``(uri) -> bool``: whether the listener may receive updates of a resource; ``None`` for all. Called for
            each event and not for each subscribed URI, because a URI covers others that are not known in advance.
        allows: a second such function, of middleware that hides members; ``None`` without. Both must return true.
        principal: the principal that ``may_see`` is for; `UNBOUND` before the first.
    """

    __slots__ = ("allows", "kinds", "may_see", "principal", "topics", "uris")

    def __init__(
        self, kinds: Iterable[str] = (), uris: Iterable[str] = (), topics: Iterable[tuple[str, str]] = ()
    ) -> None:
        # One shared empty set: each of its own takes 200 bytes, and there may be thousands of listeners.
        self.kinds = _methods(tuple(kinds))
        self.uris: set[str] = {normal_uri(uri) for uri in uris} or _NOTHING
        self.topics: set[tuple[str, str]] = set(topics) or _NOTHING
        # Set by `kernel.standard_methods` for a subscription, and by `LegacySession` for a legacy session.
        self.may_see: Callable[[str], bool] | None = None
        self.allows: Callable[[str], bool] | None = None
        self.principal: Any = UNBOUND

    def bind(self, principal: Any, rule: Callable[[Any], Callable[[str], bool]] | None) -> None:
        """Limit the filter to what a principal may see by a server's ``resource_visibility``; ``None``: to all."""
        self.principal = principal
        self.may_see = None if rule is None else rule(principal)

    def shows(self, uri: str) -> bool:
        """Return whether the listener may receive updates of a resource."""
        return (self.may_see is None or self.may_see(uri)) and (self.allows is None or self.allows(uri))


_NOTHING: Final[Any] = frozenset[Any]()


@lru_cache(maxsize=64)
def _methods(kinds: tuple[str, ...]) -> frozenset[str]:
    """Return the list-changed notifications of these kinds of lists."""
    return frozenset(LIST_CHANGED_METHODS[kind] for kind in kinds)


class _Index(dict[Any, Any]):
    """Listeners by one key of their filters: the listener itself, or a dict of them where there are several.

    Most keys have one listener, and a dict for each of them takes 200 bytes more.
    """

    def add(self, key: object, listener: Listener) -> None:
        """Add a listener under a key; do nothing if it has been added before."""
        found: Any = self.get(key)
        if found is None:
            self[key] = listener
        elif type(found) is dict:
            found[listener] = None
        elif found is not listener:
            self[key] = {found: None, listener: None}

    def discard(self, key: object, listener: Listener) -> None:
        """Remove a listener from a key, if it is there."""
        found: Any = self.get(key)
        if found is listener:
            del self[key]
        elif type(found) is dict:
            cast("dict[Listener, None]", found).pop(listener, None)
            if not found:
                del self[key]
        if not self:
            self.clear()  # a dict keeps the memory of its largest size until it is cleared

    def find(self, key: object) -> tuple[Listener, ...]:
        """Return the listeners of a key, in the order in which they were added."""
        found: Any = self.get(key)
        if type(found) is dict:
            return tuple(cast("dict[Listener, None]", found))
        return () if found is None else (found,)


class Listener:
    """One bounded buffer of events; iterate over it, or empty it with `drain`.

    Made by `SubscriptionBus.listen`; a context manager that stops listening at its end.

    Attributes:
        filter: the events that it receives.
        on_gap: called when events may be missing, for a listener with topics of extensions; ``None`` ends it then.
        overflowed: whether it ended because its buffer was full.
        uri_chars: the length in characters of all URIs that it listens to.
    """

    __slots__ = (
        "_bus",
        "_ended",
        "_loop",
        "_max",
        "_on_wake",
        "_waiting",
        "_wake",
        "filter",
        "on_gap",
        "overflowed",
        "uri_chars",
    )

    def __init__(self, bus: SubscriptionBus, filter: ListenFilter, max_events: int) -> None:
        self.filter = filter
        self.uri_chars = sum(map(len, filter.uris)) if filter.uris else 0
        self.overflowed = False
        self._bus = bus
        self._max = max_events
        # A list: an empty deque takes 600 bytes, there may be thousands of listeners, and few have two events.
        self._waiting: list[Event] = []
        self._wake: _OneShotEvent | anyio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_wake: Callable[[], None] | None = None
        # Set by `ferrule.extensions.tasks`, which reads its tasks again after a gap.
        self.on_gap: Callable[[], None] | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether no further event will be added."""
        return self._ended

    def add_uri(self, uri: str) -> None:
        """Also listen to a resource; ``uri`` is a `normal_uri`."""
        if type(self.filter.uris) is not set:
            self.filter.uris = set(self.filter.uris)
        self.filter.uris.add(uri)
        self.uri_chars += len(uri)
        if not self._ended:
            self._bus.by_uri.add(uri, self)
            self._bus.count_uris(1, len(uri))

    def discard_uri(self, uri: str) -> None:
        """Stop listening to a resource; do nothing if it is not listened to; ``uri`` is a `normal_uri`."""
        if uri not in self.filter.uris:
            return
        self.filter.uris.discard(uri)
        self.uri_chars -= len(uri)
        if not self._ended:
            self._bus.by_uri.discard(uri, self)
            self._bus.count_uris(-1, -len(uri))

    def set_uris(self, uris: Iterable[str]) -> None:
        """Listen to these resources and to no others; each is a `normal_uri`."""
        wanted = set(uris)
        for old in self.filter.uris - wanted:
            self.discard_uri(old)
        for new in wanted - self.filter.uris:
            self.add_uri(new)

    def follow_uris(self, uris: Iterable[str]) -> None:
        """Listen to the resources that another process has listened to; as `set_uris`.

        Each new one gets an event, since it may have changed before this process was informed.
        """
        new = set(uris) - self.filter.uris
        self.set_uris(uris)
        for uri in sorted(new):
            if self.filter.shows(uri):
                self.add(Event.resource_updated(uri))

    def add_topic(self, method: str, topic: str) -> None:
        """Also listen to the notifications of an extension about ``topic``."""
        if self.filter.topics is _NOTHING:
            self.filter.topics = set()
        self.filter.topics.add((method, topic))
        if not self._ended:
            self._bus.by_topic.add((method, topic), self)

    def discard_topic(self, method: str, topic: str) -> None:
        """Stop listening to the notifications of an extension about ``topic``."""
        if (method, topic) not in self.filter.topics:
            return
        self.filter.topics.discard((method, topic))
        self._bus.by_topic.discard((method, topic), self)
        if not self.filter.topics:  # frees the memory of the largest size that the set had
            self.filter.topics = _NOTHING

    def on_wake(self, callback: Callable[[], None] | None) -> None:
        """Set a function that is called when an event was added or the listener ended, instead of iterating."""
        self._on_wake = callback

    def add(self, event: Event) -> None:
        """Add an event that matched the filter; end the listener if its buffer is full."""
        # The client reads the list or the resource after a notification, so that two equal ones have one meaning.
        if self._ended or event in self._waiting:
            return
        if len(self._waiting) >= self._max:
            self.overflowed = True
            self.end()
            return
        # The client sees that a listener ended and reads again; it would not see that an event was dropped.
        self._waiting.append(event)
        self._notify()

    def add_gap(self) -> None:
        """Add an event for each list and resource that it listens to, since any of them may have changed.

        Events of extensions have contents that cannot be made up: a listener with topics is ended, or its `on_gap` is
        called.
        """
        wanted = self.filter
        if wanted.topics:
            if self.on_gap is None:
                self.end()
                return
            self.on_gap()
        for method in sorted(wanted.kinds):
            self.add(Event(method, method))
        for uri in sorted(wanted.uris):
            if self._ended:  # there were more than fit into the buffer
                return
            if wanted.shows(uri):
                self.add(Event.resource_updated(uri))

    def end(self) -> None:
        """Stop receiving events; those in the buffer can still be read."""
        self._ended = True
        self._bus.forget(self)
        self._notify()

    def drain(self) -> list[Event]:
        """Return the events in the buffer, in order, and empty it."""
        events = list(self._waiting)
        self._waiting.clear()
        return events

    async def next(self) -> Event | None:
        """Wait for the next event and return it; ``None`` when the listener has ended and its buffer is empty."""
        while not self._waiting:
            if self._ended:
                return None
            self._wake = wake = self._make_wake()
            await wake.wait()
        # From the front of a list is slow for long ones, and this one has 256 events at most.
        return self._waiting.pop(0)

    def _make_wake(self) -> _OneShotEvent | anyio.Event:
        if self._loop is None:
            if not is_asyncio():
                return anyio.Event()
            import asyncio

            self._loop = asyncio.get_running_loop()  # kept: looking it up takes longer than the rest of a wait
        return _OneShotEvent(self._loop)

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


class _OneShotEvent:
    """An event for one waiter on asyncio.

    It takes a kilobyte less than anyio's event, and thousands of listeners may wait.
    """

    __slots__ = ("_future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._future: asyncio.Future[None] = loop.create_future()

    def set(self) -> None:
        """Wake the waiter."""
        if not self._future.done():
            self._future.set_result(None)

    def wait(self) -> Awaitable[None]:
        """Return an awaitable of `set`; not a coroutine, which would take memory for each of thousands of waiters."""
        return self._future


class SubscriptionBus:
    """Delivers events to the listeners of this process, and through relays to other processes.

    `publish` may be called in any thread: a call in another thread than the listeners' is passed to their event loop.
    Call all other methods in the thread of the event loop.

    Args:
        max_events: the buffer of each listener.

    Attributes:
        by_kind, by_uri, by_topic: indexes of the listeners by the keys of their filters, which the listeners update.
            The cost of an event depends on the number of listeners that receive it, not on the number of all.
        uri_count, uri_chars: number and length in characters of the URIs of all listeners.
        encoded: the last events in their encoded form, for senders that send one event to many peers.
    """

    def __init__(self, *, max_events: int = DEFAULT_BUFFER_SIZE) -> None:
        self._max_events = max_events
        self._listeners: dict[Listener, object] = {}
        self.by_kind, self.by_uri, self.by_topic = _Index(), _Index(), _Index()
        self.uri_count = self.uri_chars = 0
        self.encoded: dict[tuple[int, str], tuple[Event, list[bytes]]] = {}
        self._relays: list[Callable[[Event], None]] = []
        self._owner: tuple[int, Callable[[Callable[[], None]], object]] | None = None

    def __len__(self) -> int:
        return len(self._listeners)

    def listen(self, filter: ListenFilter) -> Listener:
        """Return a new listener for the events of a filter; end it, or use it as a context manager."""
        self._remember_loop()
        listener = Listener(self, filter, self._max_events)
        self._listeners[listener] = None
        for method in filter.kinds:
            self.by_kind.add(method, listener)
        for uri in filter.uris:
            self.by_uri.add(uri, listener)
        self.count_uris(len(filter.uris), listener.uri_chars)
        for topic in filter.topics:
            self.by_topic.add(topic, listener)
        return listener

    def count_uris(self, count: int, chars: int) -> None:
        """Add to the counts of all URIs; called by listeners whose URIs change.

        Args:
            count: the number of added URIs; negative for removed ones.
            chars: their length in characters, with the same sign.
        """
        self.uri_count += count
        self.uri_chars += chars

    def publish(self, event: Event) -> None:
        """Deliver an event to the matching listeners of this process, and pass it to the relays."""
        if not self._listeners and not self._relays:  # as while a server registers its components
            return
        owner = self._owner
        # Buffers and wake-ups of an event loop must be used in its thread only.
        if owner is not None and owner[0] != get_ident():
            try:
                owner[1](partial(self.publish, event))
            except RuntimeError:  # the event loop has ended, and with it all listeners
                logger.debug("%s has no listener: the event loop has ended", event.method)
            return
        # Local listeners first: a relay that fails must not keep the event from them.
        self.deliver(event)
        for relay in self._relays:
            relay(event)

    def deliver(self, event: Event) -> None:
        """Deliver an event to the matching listeners of this process only; for events of other processes."""
        for listener in self.listeners_of(event):
            listener.add(event)

    def deliver_gap(self) -> None:
        """Make every listener of this process read again: events of other processes may have been lost.

        Notifications only announce changes, so that one without a change costs a client one read, and a missing one
        leaves it with old contents for as long as nothing else changes. See `Listener.add_gap`.
        """
        # A copy: a listener that ends removes itself.
        for listener in list(self._listeners):
            listener.add_gap()

    def listeners_of(self, event: Event) -> Iterable[Listener]:
        """Return the listeners of this process whose filter matches an event and that may see its resource."""
        topic = event.topic
        if event.method != RESOURCE_UPDATED:
            found = self.by_kind.find(topic)
            others = self.by_topic.find((event.method, topic)) if self.by_topic else ()
            return dict.fromkeys((*found, *others)) if found and others else found or others
        if not self.by_uri:
            return ()
        covering = dict.fromkeys(self.by_uri.find(topic))
        end = topic.rfind("/")
        # A subscription covers the resources below its URI (2026-07-28, ResourceUpdatedNotification). This goes up the
        # path of the event and not over all subscriptions, of which there may be 100,000.
        while end > 0:
            for uri in (topic[:end], topic[: end + 1]):
                if uri in self.by_uri:
                    covering.update(dict.fromkeys(self.by_uri.find(uri)))
            end = topic.rfind("/", 0, end)
        return [
            each
            for each in covering
            # Without rules, as most listeners are, no call for each of them.
            if (each.filter.may_see is None and each.filter.allows is None) or each.filter.shows(topic)
        ]

    def add_relay(self, relay: Callable[[Event], None]) -> Callable[[], None]:
        """Pass each published event to a function too.

        Args:
            relay: must not wait.

        Returns:
            A function that removes the relay.
        """
        self._remember_loop()
        self._relays.append(relay)

        def undo() -> None:
            if relay in self._relays:
                self._relays.remove(relay)

        return undo

    def _remember_loop(self) -> None:
        """Store the thread of the running event loop, and its function that calls something in that thread."""
        if is_asyncio():
            import asyncio

            self._owner = get_ident(), asyncio.get_running_loop().call_soon_threadsafe
            return
        try:
            from anyio.lowlevel import current_token

            # trio, where a token stands for the loop in other threads.
            token: Any = current_token()
        except Exception:  # no event loop runs, as while an application is being composed
            return
        token = getattr(token, "native_token", token)  # anyio wraps the token of the loop
        self._owner = get_ident(), token.run_sync_soon

    def end_all(self) -> None:
        """End every listener, because the server stops."""
        # A copy: each one removes itself from the dictionary.
        for listener in list(self._listeners):
            listener.end()

    def forget(self, listener: Listener) -> None:
        """Remove a listener; called by the listener when it ends."""
        if self._listeners.pop(listener, _UNKNOWN) is _UNKNOWN:
            return
        wanted = listener.filter
        for method in wanted.kinds:
            self.by_kind.discard(method, listener)
        for uri in wanted.uris:
            self.by_uri.discard(uri, listener)
        self.count_uris(-len(wanted.uris), -listener.uri_chars)
        for topic in wanted.topics:
            self.by_topic.discard(topic, listener)
