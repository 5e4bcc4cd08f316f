"""Subscriptions to changes: one iterator over ``subscriptions/listen`` (modern) or over notifications (legacy).

A modern subscription is a request that stays open. When its connection breaks, the request is sent again after a
growing pause, and the listener gets an event of kind ``"gap"``: events may have been missed, so it should read again
the lists and resources that it uses. A legacy server sends every change to every client, so the client filters.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

import anyio

from ferrule.protocol.errors import ConnectionClosed, FerruleError, MCPError
from ferrule.transports.http.errors import retry_delay_s
from ferrule.wire.types import META_SUBSCRIPTION_ID

if TYPE_CHECKING:
    from ferrule.client.connection.connector import Session
    from ferrule.transports.background import BackgroundTask

__all__ = ["ChangeEvent", "Subscription", "SubscriptionHost", "SubscriptionSet"]

logger = logging.getLogger("ferrule.client")

MAX_WAITING_EVENTS: Final = 1024
ACKNOWLEDGE_S: Final = 30.0
"""Seconds that a server has to acknowledge a subscription before the request is sent again."""

ChangeKind: TypeAlias = Literal["tools", "prompts", "resources", "resource", "gap", "other"]

_LISTEN: Final = "subscriptions/listen"

_KINDS: Final[Mapping[str, ChangeKind]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "resource",
}


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One change that a server reported.

    Attributes:
        kind: the list that changed (``"tools"``, ``"prompts"``, ``"resources"``), or ``"resource"`` for one resource;
            ``"gap"``: events may have been missed; ``"other"``: an extension's notification.
        uri: the URI of the resource; it may lie below the one that was subscribed to.
        method, params: the notification as received; empty for a gap.
    """

    kind: ChangeKind
    uri: str | None = None
    method: str = ""
    params: Mapping[str, Any] | None = None


class Subscription:
    """An open subscription: ``async for event in client.listen(...)``, or ``async with``, which closes it.

    Attributes:
        granted: the filter that the server granted (modern); ``None`` until it has acknowledged the subscription.
    """

    def __init__(self, owner: SubscriptionSet, wanted: Mapping[str, Any]) -> None:
        self._set = owner
        self._wanted = dict(wanted)
        self._events: deque[ChangeEvent] = deque()
        self._came = anyio.Event()
        self._acknowledged = anyio.Event()
        self._attempt = _Attempt()
        self._task: BackgroundTask | None = None
        self._error: Exception | None = None
        self._is_closed = False
        self.granted: Mapping[str, Any] | None = None

    # -- the listener's side ----------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ChangeEvent]:
        return self

    async def __anext__(self) -> ChangeEvent:
        """Wait for the next event and return it.

        Raises:
            StopAsyncIteration: the subscription was closed.
            RemoteError: the server refuses subscriptions.
        """
        self.start()
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise StopAsyncIteration
            self._came = anyio.Event()
            await self._came.wait()
        return self._events.popleft()

    async def __aenter__(self) -> Subscription:
        try:
            await self.ready()
        except BaseException:  # Python does not call `__aexit__` if this method raises
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def ready(self) -> None:
        """Wait until the server has granted the subscription: later changes come as events.

        Raises:
            RemoteError: the server refuses subscriptions.
        """
        self.start()
        await self._acknowledged.wait()
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """Close the subscription. Idempotent."""
        if self._is_closed:
            return
        self._end()
        if self._task is not None:
            self._task.cancel()
        await self._set.drop(self)

    # -- the client's side ------------------------------------------------------------------------------------------

    @property
    def uris(self) -> Iterable[str]:
        """The URIs of single resources in its filter."""
        return cast("Iterable[str]", self._wanted.get("resourceSubscriptions") or ())

    @property
    def is_over(self) -> bool:
        """Whether it was closed or has ended with an error; no more events will come."""
        return self._is_closed

    def start(self) -> None:
        """Start the task that keeps the subscription open, unless it was started."""
        if self._task is None and not self._is_closed:
            self._task = self._set.add(self, self._run())

    def on_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Queue a notification as an event, if it belongs to this subscription."""
        meta = (params or {}).get("_meta")
        id = cast("Mapping[str, Any]", meta).get(META_SUBSCRIPTION_ID) if isinstance(meta, Mapping) else None
        if method == "notifications/cancelled" and id is None:  # its `requestId` is the id of this request
            id = (params or {}).get("requestId")
        if method == "notifications/subscriptions/acknowledged":
            if self._attempt.id is None and self._set.is_asking(self):
                self._attempt.id = id
                self.acknowledge(cast("Mapping[str, Any]", (params or {}).get("notifications") or {}))
        elif id is not None and id == self._attempt.id:
            if method == "notifications/cancelled":  # the server ends the subscription without a response
                self.note_ended(None)
            elif (event := _event(method, params)) is not None:
                self.put(event)
        elif id is None and (event := _event(method, params)) is not None and self._wants(event):
            self.put(event)

    def put(self, event: ChangeEvent) -> None:
        """Queue an event. If `MAX_WAITING_EVENTS` are queued, the queue is replaced by one ``"gap"`` event."""
        if len(self._events) >= MAX_WAITING_EVENTS:
            self._events.clear()
            event = ChangeEvent("gap")
        if event.kind != "gap" or not self._events or self._events[-1].kind != "gap":
            self._events.append(event)
        self._came.set()

    def _wants(self, event: ChangeEvent) -> bool:
        if event.kind == "resource":
            uri = event.uri or ""
            return any(uri == wanted or uri.startswith(wanted.rstrip("/") + "/") for wanted in self.uris)
        return bool(self._wanted.get(f"{event.kind}ListChanged"))

    def _end(self) -> None:
        self._is_closed = True
        self._acknowledged.set()
        self._came.set()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._end()
        self._set.forget(self)

    # -- one attempt after the other ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while not self._is_closed:
            self._attempt = attempt = _Attempt()
            try:
                await self._set.run(self, self._wanted)
            except MCPError as error:
                self._fail(error)
                return
            # A first attempt that fails is an error of the program or of the server; a lost connection is tried again.
            except (FerruleError, OSError) as error:
                if not self._acknowledged.is_set() and not isinstance(error, ConnectionClosed):
                    self._fail(error)
                    return
                logger.debug("A subscription to %s broke: %s", self._set.label, error)
            # Changes since the end of this attempt are not sent again.
            if attempt.was_granted:
                self.put(ChangeEvent("gap"))
                failures = 0
            await anyio.sleep(retry_delay_s(failures, hint_ms=None))
            failures += 1

    def acknowledge(self, granted: Mapping[str, Any]) -> None:
        """Note that the server acknowledged the subscription, with the filter ``granted``."""
        self.granted = granted
        self._attempt.was_granted = True
        self._attempt.turned.set()
        self._acknowledged.set()

    def note_ended(self, error: Exception | None) -> None:
        """Note that the server has ended the current request; ``error`` is the reason, ``None`` if it gave none."""
        self._attempt.error = error
        self._attempt.turned.set()
        self._attempt.over.set()

    async def granted_or_ended(self) -> None:
        """Wait until the current request is acknowledged or has ended."""
        await self._attempt.turned.wait()

    async def ended(self) -> None:
        """Wait for the end of the current request, and raise the error that ended it."""
        await self._attempt.over.wait()
        if self._attempt.error is not None:
            raise self._attempt.error


class _Attempt:
    """One listen request."""

    def __init__(self) -> None:
        self.id: Any = None
        self.was_granted = False
        self.error: Exception | None = None
        self.turned = anyio.Event()
        self.over = anyio.Event()


class SubscriptionHost(Protocol):
    """The members of a client that subscriptions use."""

    def label(self) -> str:
        """The name of the server for messages."""
        ...

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> BackgroundTask:
        """Run a coroutine in a task, which is cancelled when the client closes."""
        ...

    def session_now(self) -> Session | None:
        """Return the session in use, or ``None`` if there is none that works."""
        ...

    async def session_again(self) -> Session:
        """Return a session that works; open a new one if necessary."""
        ...

    async def send_listen(self, session: Session, wanted: Mapping[str, Any]) -> None:
        """Send ``subscriptions/listen``; returns when the server ends it."""
        ...


class SubscriptionSet:
    """The subscriptions of one client."""

    def __init__(self, host: SubscriptionHost) -> None:
        self._host = host
        self._open: list[Subscription] = []
        self._asking: Subscription | None = None
        self._lock: anyio.Lock | None = None

    @property
    def label(self) -> str:
        """The name of the server for messages."""
        return self._host.label()

    def subscription(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
        more: Mapping[str, Any] | None = None,
    ) -> Subscription:
        """Return a subscription; its request is sent when the first event is awaited. See `ferrule.Client.listen`."""
        wanted: dict[str, Any] = dict(more or {})
        for kind, is_wanted in (("tools", tools), ("prompts", prompts), ("resources", resources)):
            if is_wanted:
                wanted[f"{kind}ListChanged"] = True
        if named := [str(uri) for uri in uris]:
            wanted["resourceSubscriptions"] = named
        return Subscription(self, wanted)

    def uris(self) -> set[str]:
        """Return the single resources that open subscriptions are about."""
        return {uri for subscription in self._open for uri in subscription.uris}

    def on_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Pass a notification to every subscription."""
        for subscription in list(self._open):
            subscription.on_notification(method, params)

    def put_gap(self) -> None:
        """Queue a ``"gap"`` event in every subscription."""
        for subscription in self._open:
            subscription.put(ChangeEvent("gap"))

    async def aclose(self) -> None:
        """Close all subscriptions."""
        for subscription in list(self._open):
            await subscription.aclose()

    def add(self, subscription: Subscription, run: Coroutine[Any, Any, None]) -> BackgroundTask:
        """Run a subscription's task until the subscription is closed, and return the task."""
        self._open.append(subscription)
        return self._host.start_task(run, "ferrule-subscription")

    def forget(self, subscription: Subscription) -> None:
        """Remove a subscription that has ended with an error; there is nothing to unsubscribe from."""
        if subscription in self._open:
            self._open.remove(subscription)

    async def drop(self, subscription: Subscription) -> None:
        """Remove a closed subscription; in the legacy era unsubscribe from the URIs that no other one has."""
        if subscription not in self._open:
            return
        self._open.remove(subscription)
        session = self._host.session_now()
        # A modern subscription ends with its request, which the caller has cancelled.
        if session is None or _LISTEN in session.revision.requests:
            return
        kept = self.uris()
        for uri in subscription.uris:
            if uri not in kept:
                try:
                    await session.send_raw_request("resources/unsubscribe", {"uri": uri}, {"timeout_s": 10})
                except (FerruleError, OSError) as error:
                    logger.debug("Unsubscribing from %s failed: %s", uri, error)

    def is_asking(self, subscription: Subscription) -> bool:
        """Whether the next acknowledgement belongs to this subscription."""
        return self._asking is subscription

    async def run(self, subscription: Subscription, wanted: Mapping[str, Any]) -> None:
        """Listen until the server ends it.

        Raises:
            Exception: the error that ended it.
        """
        session = await self._host.session_again()
        if _LISTEN not in session.revision.requests:
            await self._run_legacy(session, subscription, wanted)
            return
        if self._lock is None:
            self._lock = anyio.Lock()
        # Not every kind of channel shows the request's id, which the acknowledgement names. With one request at a time
        # the acknowledgement can belong to that one only.
        async with self._lock:
            self._asking = subscription
            task = self._host.start_task(self._listen(session, subscription, wanted), "ferrule-listen")
            try:
                with anyio.fail_after(ACKNOWLEDGE_S):
                    await subscription.granted_or_ended()
            except BaseException as error:
                task.cancel()
                if isinstance(error, TimeoutError):
                    raise ConnectionClosed(f"No acknowledgement within {ACKNOWLEDGE_S:g} s") from None
                raise
            finally:
                self._asking = None
        try:
            await subscription.ended()
        finally:
            task.cancel()

    async def _listen(self, session: Session, subscription: Subscription, wanted: Mapping[str, Any]) -> None:
        error: Exception | None = None
        try:
            await self._host.send_listen(session, wanted)
        except Exception as raised:
            error = raised
        subscription.note_ended(error)

    async def _run_legacy(self, session: Session, subscription: Subscription, wanted: Mapping[str, Any]) -> None:
        """Subscribe to single resources (a legacy server sends other changes by itself), until the channel ends."""
        for uri in subscription.uris:
            await session.send_raw_request("resources/subscribe", {"uri": uri}, {"timeout_s": 30})
        subscription.acknowledge(wanted)
        await session.channel.wait_closed()
        raise ConnectionClosed("The connection ended")


def _event(method: str, params: Mapping[str, Any] | None) -> ChangeEvent | None:
    kind = _KINDS.get(method)
    if kind is None:
        meta = (params or {}).get("_meta")
        is_ours = isinstance(meta, Mapping) and META_SUBSCRIPTION_ID in cast("Mapping[str, Any]", meta)
        return ChangeEvent("other", None, method, params) if is_ours and method != "notifications/cancelled" else None
    return ChangeEvent(kind, (params or {}).get("uri"), method, params)
