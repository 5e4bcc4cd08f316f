"""Short messages from one process to all others that share a store; they are not kept.

A message reaches the subscribers of the time when it is sent, at most once and in the order of each sender. Data that
must not be lost is stored elsewhere; a message only announces it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

__all__ = ["Channel", "MemoryChannel", "OnMessage", "PollingChannel"]

OnMessage = Callable[[bytes], None]
"""Called with each message; must not wait."""


class Channel(Protocol):
    """One channel, shared by all processes that use the same store."""

    async def send(self, message: bytes) -> None:
        """Send a message to all other processes, and to the subscribers of this one.

        Raises:
            OSError: the store cannot be reached; the message is lost.
        """
        ...

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message, until cancelled.

        A lost connection is opened again; messages in between are lost. A second call of ``on_ready`` shows that.

        Args:
            on_message: called with each message.
            on_ready: called each time when the connection is open.
        """
        ...


@runtime_checkable
class PollingChannel(Protocol):
    """A channel that asks for messages at intervals, and so costs something while nothing listens."""

    async def listen_while(
        self,
        is_wanted: Callable[[], bool],
        on_message: OnMessage,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """As `Channel.listen`, without asking while ``is_wanted()`` is false.

        The first question after a pause also brings messages of the pause, as far as the channel has them still.
        """
        ...


class MemoryChannel:
    """A `Channel` in the memory of one process; objects with the same ``peers`` are one channel, for tests.

    Args:
        peers: the list of subscribers, which several objects may share.
    """

    def __init__(self, peers: list[OnMessage] | None = None) -> None:
        self._peers: list[OnMessage] = [] if peers is None else peers

    async def send(self, message: bytes) -> None:
        """Send a message to all other processes, and to the subscribers of this one; see `Channel.send`."""
        # A copy: a subscriber may stop to listen while it is called.
        for peer in list(self._peers):
            peer(message)

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message, until cancelled; see `Channel.listen`."""
        import anyio

        self._peers.append(on_message)
        try:
            if on_ready is not None:
                on_ready()
            await anyio.sleep_forever()
        finally:
            self._peers.remove(on_message)
