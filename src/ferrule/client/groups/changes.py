"""Changes at several servers as one iterator: which server, and what changed there."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio

from ferrule.client.calls.subscriptions import ChangeEvent, Subscription
from ferrule.client.client import Client
from ferrule.client.supervision.feed import StatusFeed
from ferrule.client.supervision.status import ConnectionStatus
from ferrule.protocol.errors import FerruleError
from ferrule.transports.background import Background

__all__ = ["MAX_CHANGES", "GroupChange", "GroupSubscription"]

logger = logging.getLogger("ferrule.client")

MAX_CHANGES: Final = 1024
"""Changes that wait for the reader; the oldest are dropped first."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One change at one server of a group.

    Attributes:
        server: the name of the server in the configuration.
        kind, uri, method, params: as in `ferrule.client.calls.subscriptions.ChangeEvent`. A server that connects later
            or again has a change of kind ``"gap"``: read its lists again.
    """

    server: str
    kind: str
    uri: str | None = None
    method: str = ""
    params: Mapping[str, Any] | None = None


class GroupSubscription:
    """A subscription at every server of a group: ``async for change in group.listen(tools=True)``.

    Args:
        feed: tells which servers connect.
        connected: returns the clients of the servers that are connected now.
        client_of: returns the client of a server; ``None`` if the subscription is not about it.
        subscribe: opens a subscription at one server; ``None`` if nothing of it is wanted there.
        background: returns what runs the subscriptions.
    """

    def __init__(
        self,
        feed: StatusFeed,
        connected: Callable[[], list[str]],
        client_of: Callable[[str], Client | None],
        subscribe: Callable[[str, Client], Subscription | None],
        background: Callable[[], Background],
    ) -> None:
        self._feed = feed
        self._connected = connected
        self._client_of = client_of
        self._subscribe = subscribe
        self._background = background
        self._open: dict[str, tuple[Client, Subscription]] = {}
        self._events: deque[GroupChange] = deque(maxlen=MAX_CHANGES)
        self._came = anyio.Event()
        self._stop: Callable[[], None] | None = None
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[GroupChange]:
        return self

    async def __anext__(self) -> GroupChange:
        """Wait for the next change and return it.

        Raises:
            StopAsyncIteration: the subscription or the group was closed.
        """
        self._start()
        while not self._events:
            if self._is_closed or self._background().is_closed:
                raise StopAsyncIteration
            self._came = anyio.Event()
            await self._came.wait()
        return self._events.popleft()

    async def __aenter__(self) -> GroupSubscription:
        try:
            await self.ready()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def ready(self) -> None:
        """Wait until each server that is connected now has granted the subscription, or refused it."""
        self._start()
        for name, (_, subscription) in list(self._open.items()):
            try:
                await subscription.ready()
            except FerruleError as error:
                logger.debug("The server %r refuses the subscription: %s", name, error)

    async def aclose(self) -> None:
        """Close the subscription at every server. Idempotent."""
        self._is_closed = True
        if self._stop is not None:
            self._stop()
        self._came.set()
        opened, self._open = list(self._open.values()), {}
        for _, subscription in opened:
            await subscription.aclose()

    def _start(self) -> None:
        if self._stop is None and not self._is_closed:
            self._stop = self._feed.observe(self._on_status)
            for name in self._connected():
                self._add(name)

    def _on_status(self, status: ConnectionStatus) -> None:
        self._came.set()  # the group may have been closed
        if status.state != "connected":
            return
        self._put(GroupChange(status.server, "gap"))
        self._add(status.server)

    def _add(self, name: str) -> None:
        client = self._client_of(name)
        if client is None or (name in self._open and self._open[name][0] is client):
            return
        subscription = self._subscribe(name, client)
        if subscription is not None:
            self._open[name] = client, subscription
            subscription.start()
            self._background().start(self._pass_on(name, subscription), "ferrule-group-changes")

    async def _pass_on(self, name: str, subscription: Subscription) -> None:
        try:
            async for event in subscription:
                self._put(_change(name, event))
        except FerruleError as error:
            logger.debug("The server %r ended the subscription: %s", name, error)
        finally:
            if name in self._open and self._open[name][1] is subscription:
                del self._open[name]
            self._came.set()

    def _put(self, change: GroupChange) -> None:
        self._events.append(change)
        self._came.set()


def _change(server: str, event: ChangeEvent) -> GroupChange:
    return GroupChange(server, event.kind, event.uri, event.method, event.params)
