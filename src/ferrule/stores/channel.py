"""Short messages from one process to all others that share a store; nobody keeps them.

A message reaches whoever is subscribed when it is sent, at most once and in the order of each sender. What must not
be lost is kept elsewhere, and a message only says that there is something to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Channel", "MemoryChannel", "OnMessage"]

OnMessage = Callable[[bytes], None]
"""Takes one message; must not wait."""


class Channel(Protocol):
    """One channel, shared by all who name the same store."""

    async def send(self, message: bytes) -> None:
        """Send to all others, and to this process's own subscribers.

        Raises:
            OSError: the store cannot be reached; the message is lost.
        """
        ...

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message from now on, until cancelled.

        A lost connection is made again; messages in between are lost. ``on_ready`` is called each time that it stands.
        """
        ...


class MemoryChannel:
    """The channel of one process; several objects with one ``name`` are one channel, for tests.

    Args:
        peers: the subscribers; shared by those that belong together.
    """

    def __init__(self, peers: list[OnMessage] | None = None) -> None:
        self._peers: list[OnMessage] = [] if peers is None else peers

    async def send(self, message: bytes) -> None:
        """See `Channel`."""
        for peer in list(self._peers):
            peer(message)

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """See `Channel`."""
        import anyio

        self._peers.append(on_message)
        try:
            if on_ready is not None:
                on_ready()
            await anyio.sleep_forever()
        finally:
            self._peers.remove(on_message)
