"""Changes, told to a legacy client: what the bus publishes goes out as notifications beside all requests.

Begun once the client said that it is initialized; ended with its connection. The modern era has no such thing: there
a client listens (`subscriptions/listen`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.kernel.changes.bus import Listener, ListenFilter
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import Outbound

if TYPE_CHECKING:
    from ferrule.kernel.server import Server

__all__ = ["forward_changes", "open_listener"]


def open_listener(connection: Connection, server: Server[object]) -> Listener | None:
    """A listener for a legacy connection; ``None`` if it has one or if the server has nothing to tell."""
    if connection.listener is not None or connection.is_modern:
        return None
    if not server.list_changed and not server.resource_updates:
        return None
    listener = connection.listener = server.bus.listen(ListenFilter(server.list_changed))
    connection.on_closing(listener.end)
    return listener


async def forward_changes(listener: Listener, outbound: Outbound) -> None:
    """Send what the listener hears until it ends."""
    async for event in listener:
        await outbound.notify(event.method, event.params or None)
