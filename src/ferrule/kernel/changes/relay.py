"""The bus of one process joined to those of all others that share a store.

What is published here is told to the others over a channel, and what they publish is delivered here. Nothing waits:
events go into a bounded queue, and when the channel is too slow, or cannot be reached, the oldest are dropped and
that is logged. Listeners lose nothing that they could rely on: a notification says that something changed, and
whoever was disconnected looks again.

Rule a newcomer would break: an event that came over the channel is delivered, never published, or it would go round
for ever.
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
from ferrule.stores.channel import Channel
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError, EncodeError

__all__ = ["relayed"]

logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 1024
_PAUSE_S: Final = 0.2


@asynccontextmanager
async def relayed(bus: SubscriptionBus, channel: Channel) -> AsyncGenerator[None]:
    """Join a bus to a channel while the context lasts. Entered once others are heard, or after a second without."""
    origin = secrets.token_hex(8)
    waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
    ready = anyio.Event()
    woken = _Wake()
    is_behind = False

    def relay(event: Event) -> None:
        nonlocal is_behind
        try:
            message = encode([origin, event.method, event.topic, dict(event.params)])
        except EncodeError:
            logger.exception("The event %s cannot be told to other processes", event.method)
            return
        if len(waiting) == _MAX_WAITING and not is_behind:
            is_behind = True  # said once for each time that it happens, not for each event
            logger.warning("Other processes are too slow to be told of every change; the oldest are dropped")
        waiting.append(message)
        woken.set()

    def take(message: bytes) -> None:
        try:
            sender, method, topic, params = cast("list[Any]", decode(message))
        except (DecodeError, ValueError, TypeError):
            return  # not an event: others share the channel
        if not (isinstance(method, str) and isinstance(topic, str) and isinstance(params, dict)):
            return  # neither is this
        if sender != origin:
            bus.deliver(Event(method, topic, cast("dict[str, Any]", params)))

    async def send_all() -> None:
        nonlocal is_behind
        while True:
            is_behind = False
            await woken.wait()
            while waiting:
                message = waiting[0]
                try:
                    await channel.send(message)
                except OSError as error:
                    logger.warning("Other processes cannot be told of a change yet: %s", error)
                    await anyio.sleep(_PAUSE_S)
                    continue
                if waiting and waiting[0] is message:
                    waiting.popleft()

    undo = bus.add_relay(relay)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(channel.listen, take, ready.set)
            group.start_soon(send_all)
            with anyio.move_on_after(1):
                await ready.wait()
            try:
                yield
            finally:
                group.cancel_scope.cancel()
    finally:
        undo()


class _Wake:
    """An event that is used again and again."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()
