"""Forwarding of published changes to a legacy client, as notifications that belong to no request.

It starts once the client has sent ``notifications/initialized`` and ends with the connection. A modern client asks for
changes by ``subscriptions/listen`` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.kernel.changes.bus import Listener, ListenFilter
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import Dispatcher, Outbound, RunsTasks

if TYPE_CHECKING:
    from ferrule.kernel.server import Server

__all__ = ["start_forwarding"]


def start_forwarding(dispatcher: Dispatcher, connection: Connection, server: Server[Any]) -> None:
    """Send the changes that the server publishes to the client of a connection, until the connection closes.

    It does nothing if forwarding has started already, if the server publishes no changes, or if the dispatcher cannot
    run tasks now: without a task the events of the listener would fill its buffer.

    Args:
        dispatcher: the channel to the client.
        connection: the connection of that client, after its handshake.
        server: whose changes are sent.
    """
    if connection.listener is not None or not (server.list_changed or server.resource_updates):
        return
    if not isinstance(dispatcher, RunsTasks) or not dispatcher.is_running:
        return
    listener = connection.listener = server.bus.listen(ListenFilter(server.changing_lists(connection.revision)))
    # The task then ends by itself, before the dispatcher would cancel it.
    connection.on_closing(listener.end)
    dispatcher.start_task(_forward(listener, dispatcher))


async def _forward(listener: Listener, outbound: Outbound) -> None:
    async for event in listener:
        await outbound.notify(event.method, event.params or None)
