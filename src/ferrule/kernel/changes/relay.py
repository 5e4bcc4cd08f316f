"""Connects the bus of one process with the buses of all processes that share a store.

Events that are published in this process are sent to the others over a channel, and theirs are delivered here.
Publishing never waits: events go into a bounded queue. When the channel is too slow or cannot be reached, the oldest
are dropped, with a log message.

Where events were lost, the listeners learn that they may have missed some (`SubscriptionBus.deliver_gap`): in the other
processes after events were dropped here, by a message in their place, and in this process each time when the channel is
open again, since messages in between are lost.

An event from the channel must be delivered (`SubscriptionBus.deliver`), never published, or it would circulate for
ever.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio

from ferrule.kernel.changes.bus import Event, SubscriptionBus
from ferrule.stores.channel import Channel, PollingChannel
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError, EncodeError

__all__ = ["relayed"]

logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 1024
"""Events that may wait for the channel."""

_GAP: Final = "gap"
"""In place of the method of an event: events before this message are missing."""

_PAUSE_S: Final = 0.2
"""Seconds until the next attempt after the channel could not be reached."""


@asynccontextmanager
async def relayed(bus: SubscriptionBus, channel: Channel) -> AsyncGenerator[None]:
    """Connect a bus with a channel while the context manager is entered.

    Entering waits until the channel receives messages, for one second at most.

    Args:
        bus: the bus of this process.
        channel: the channel that it shares with the other processes.
    """
    # A channel also returns what this process sent; its own events are recognized by this and not delivered twice.
    origin = secrets.token_hex(8)
    gap = encode([origin, _GAP, "", {}])
    waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
    ready = anyio.Event()
    woken = _AutoResetEvent()
    is_behind = has_dropped = False

    def relay(event: Event) -> None:
        nonlocal is_behind, has_dropped
        try:
            message = encode([origin, event.method, event.topic, dict(event.params)])
        except EncodeError:
            logger.exception("The event %s cannot be sent to other processes", event.method)
            return
        if len(waiting) == _MAX_WAITING:
            has_dropped = True
            if not is_behind:
                is_behind = True  # logged once until the queue is sent again, not for each event
                logger.warning("The channel to other processes is too slow for all changes; the oldest are dropped")
        waiting.append(message)
        woken.set()

    def on_message(message: bytes) -> None:
        try:
            sender, method, topic, params = cast("list[Any]", decode(message))
        except (DecodeError, ValueError, TypeError):
            return  # not an event: the channel has other messages too
        if not (isinstance(method, str) and isinstance(topic, str) and isinstance(params, dict)):
            return  # neither is this
        if sender == origin:
            return
        if method == _GAP:
            bus.deliver_gap()
        else:
            bus.deliver(Event(method, topic, cast("dict[str, Any]", params)))

    def on_open() -> None:
        bus.deliver_gap()
        ready.set()

    async def receive_all() -> None:
        if isinstance(channel, PollingChannel):
            await channel.listen_while(lambda: len(bus) > 0, on_message, on_open)
        else:
            await channel.listen(on_message, on_open)

    async def send_all() -> None:
        nonlocal is_behind, has_dropped
        sent_since_gap = 0
        while True:
            is_behind = False
            await woken.wait()
            while waiting or has_dropped:
                # At the end, or in a lasting overload after as many events as the queue holds: it costs each client
                # one read of all that it subscribed to.
                is_gap = has_dropped and (not waiting or sent_since_gap >= _MAX_WAITING)
                # Removed only after it was sent, so that a failed attempt does not lose it.
                message = gap if is_gap else waiting[0]
                if is_gap:
                    has_dropped = False  # before it is sent: others may be dropped meanwhile
                try:
                    await channel.send(message)
                except OSError as error:
                    logger.warning("A change cannot be sent to other processes yet: %s", error)
                    has_dropped = has_dropped or is_gap
                    await anyio.sleep(_PAUSE_S)
                    continue
                sent_since_gap = 0 if is_gap else sent_since_gap + 1
                if waiting and waiting[0] is message:  # it may have been dropped from a full queue meanwhile
                    waiting.popleft()

    # Before the channel listens: events that are published meanwhile wait in the queue.
    undo = bus.add_relay(relay)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(receive_all)
            group.start_soon(send_all)
            # Bounded: a server must also start while its channel (Redis) cannot be reached.
            with anyio.move_on_after(1):
                await ready.wait()
            try:
                yield
            finally:
                group.cancel_scope.cancel()
    finally:
        undo()


class _AutoResetEvent:
    """An event that each wait clears: `set` before a wait is not lost."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()
