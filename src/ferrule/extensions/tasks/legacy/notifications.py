"""Notifications to a legacy client about a task that another process runs: events of the bus are sent on its channel.

A modern client listens to the task itself (``taskIds`` of ``subscriptions/listen``), on any process. A legacy client
gets notifications on its connection, which only the process that received the call has.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ferrule.extensions.tasks.record import TERMINAL, TaskRecord, legacy_status_of, related_meta
from ferrule.extensions.tasks.repository import CHANGED, TASK_NOTIFICATION
from ferrule.kernel.changes.bus import ListenFilter
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import LocalError

__all__ = ["LegacyTaskNotifier"]

logger = logging.getLogger("ferrule.tasks")


class LegacyTaskNotifier:
    """Sends notifications of one task, from now until its end; see the module.

    Args:
        ctx: the context of the request that began the task.
        record: the task.
    """

    def __init__(self, ctx: ServerRequestContext[Any], record: TaskRecord) -> None:
        self._connection = ctx.session.connection
        self._task_id = record.task_id
        topics = [(CHANGED, record.task_id), (TASK_NOTIFICATION, record.task_id)]
        self._listener = ctx.server.bus.listen(ListenFilter(topics=topics))
        self._sending: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._end = loop.call_later(record.ttl_ms / 1000, self._listener.end)
        self._listener.on_wake(self._wake)
        # Goes on after lost events: status notifications are optional (2025-11-25, "Tasks"), and clients ask as well.
        self._listener.on_gap = lambda: None

    def _wake(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        """Send the waiting events in order."""
        while True:
            events = self._listener.drain()
            if not events:
                return
            for event in events:
                try:
                    await self._notify(event.method, event.params)
                except LocalError as error:  # no stream is open now; the client can always ask
                    logger.debug("A notification of task %s was not sent: %s", self._task_id, error)
                except Exception:
                    logger.exception("A notification of task %s could not be sent", self._task_id)
                if event.method == CHANGED and event.params.get("status") in TERMINAL:
                    self._end.cancel()
                    self._listener.on_wake(None)
                    self._listener.end()
                    return

    async def _notify(self, method: str, params: Any) -> None:
        if method == TASK_NOTIFICATION:
            await self._connection.notify(params["method"], params["params"])
            return
        # From the event, not from the record, which may contain a later change by now; that has its own event.
        sent = {**legacy_status_of(params), "_meta": related_meta(self._task_id)}
        await self._connection.notify("notifications/tasks/status", sent)
