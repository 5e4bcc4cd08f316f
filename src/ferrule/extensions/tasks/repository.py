"""Reading and changing of task records: compare-and-swap, access checks, and events for listeners.

Any process may answer, cancel or read a task; only the one that holds its lease runs it. The processes share the store,
and notify each other of changes over the server's bus. Events of the bus may be lost; code that waits for a task
therefore also reads it at intervals.

A final status never changes: all changes use `TaskRepository.change`, which does not change an ended record.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import anyio

from ferrule.app.authorization.principals import principal_id, principal_of
from ferrule.extensions.tasks.record import TaskRecord, legacy_task, modern_task, read_record
from ferrule.kernel.changes.bus import Event, Listener, ListenFilter
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import InvalidParams, MCPError
from ferrule.stores.errors import StoreNotWritable
from ferrule.stores.tasks import StoredTask, TaskStore, TooManyTasks
from ferrule.wire.codec import to_builtins
from ferrule.wire.jsonrpc import JsonRpcErrorCode

__all__ = [
    "CHANGED",
    "TASK_NOTIFICATION",
    "TaskGone",
    "TaskRepository",
    "TasksUnavailable",
    "legacy_status_params",
    "new_task_id",
    "owner_of",
]

logger = logging.getLogger("ferrule.tasks")

T = TypeVar("T")

CHANGED: Final = "notifications/tasks"
"""The method, and with a task's id the topic, of the event that a task changed."""

TASK_NOTIFICATION: Final = "ferrule/tasks/told"  # as release 0.1 names it: both may share a bus
"""An event that carries a notification of a task for the legacy client that began it, from another process."""

_WAKE_UP: Final = "ferrule/tasks/poke"  # as release 0.1 names it
"""An event for the process that runs a task: the record holds something new for it."""

# Several processes may change one record at the same time; more failures in a row mean an error.
_ATTEMPTS: Final = 50


class TaskGone(Exception):
    """The record does not exist any more, because it has expired."""


class TasksUnavailable(MCPError, OSError):
    """The store of the tasks cannot be used; the request fails, and running tasks continue."""

    def __init__(self) -> None:
        super().__init__(
            "The tasks of this server cannot be kept or read at the moment; try again later",
            code=int(JsonRpcErrorCode.INTERNAL_ERROR),
        )


class TaskRepository:
    """The task records of one server.

    Args:
        store: keeps the records.
        lease_s: seconds without a heartbeat after which another process may take a running task over.
        patience_s: seconds that a store may be unreachable before a change fails.
        max_tasks, max_per_owner: maximum number of records, of all owners and of one.
        max_task_bytes: maximum size of one record.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        store: TaskStore,
        *,
        lease_s: float,
        patience_s: float,
        max_tasks: int,
        max_per_owner: int,
        max_task_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.lease_s = lease_s
        self.clock = clock
        self._patience_s = patience_s
        self._away_at = -math.inf
        self._max_tasks = max_tasks
        self._max_per_owner = max_per_owner
        self._max_task_bytes = max_task_bytes
        self._servers: list[Server[Any]] = []
        self._wake_ups: Listener | None = None
        self._callbacks: dict[str, Callable[[], None]] = {}

    # -- records --------------------------------------------------------------------------------------------------

    async def add(self, record: TaskRecord, owner: str, *, lease_s: float | None = None) -> StoredTask:
        """Store a new record and return it as stored.

        Args:
            record: the new record.
            owner: see `owner_of`.
            lease_s: seconds until others may claim it; ``None`` for the usual ones.

        Raises:
            MCPError: -32603: there are too many tasks, of all owners or of this one, or the store cannot be used.
        """
        stored = StoredTask(
            task_id=record.task_id,
            owner=owner,
            created_at=record.created_at,
            expires_at=record.created_at + record.ttl_ms / 1000,
            is_open=True,
            body=self._body(record),
        )
        try:
            return await self._reach(
                lambda: self.store.add(
                    stored,
                    lease_s=self.lease_s if lease_s is None else lease_s,
                    max_tasks=self._max_tasks,
                    max_per_owner=self._max_per_owner,
                )
            )
        except TooManyTasks as error:
            raise MCPError(f"{error}; try again later", code=int(JsonRpcErrorCode.INTERNAL_ERROR)) from error

    async def find(self, task_id: str) -> tuple[StoredTask, TaskRecord] | None:
        """Return a record; ``None`` if there is none, or it has expired."""
        stored = await self._reach(lambda: self.store.get(task_id))
        return None if stored is None else (stored, read_record(stored.body))

    async def seen_by(self, ctx: ServerRequestContext[Any], task_id: str) -> TaskRecord:
        """Return a record, if the sender of the request may see it.

        Raises:
            InvalidParams: there is no such record, it has expired, or it belongs to another principal; the error is the
                same for all three, so that it is no sign that a task exists.
        """
        found = await self.find(task_id)
        if found is None or not self.is_theirs(ctx, found[1]):
            raise InvalidParams("There is no such task; it may have expired")
        return found[1]

    @staticmethod
    def is_theirs(ctx: ServerRequestContext[Any], record: TaskRecord) -> bool:
        """Return whether the principal of a request began the task; without principals the unguessable id decides."""
        return record.principal == principal_id(principal_of(ctx))

    async def change(
        self,
        task_id: str,
        mutate: Callable[[TaskRecord], bool],
        *,
        known: StoredTask | None = None,
        renew: bool = False,
        lease_s: float | None = None,
        announce: bool = True,
        release: bool = False,
    ) -> TaskRecord:
        """Change a record that has not ended, and return it.

        Args:
            task_id: the task id of the record.
            mutate: changes the record in place, and returns whether it did. It may be called several times.
            known: the record as last read, which saves reading it again.
            renew: also renew the lease, for ``lease_s`` seconds or the usual ones.
            lease_s: seconds of a renewed lease; ``None`` for the usual ones.
            announce: publish the change to listeners.
            release: end the lease, so that another process may claim the task immediately.

        Raises:
            TaskGone: the record has expired.
            TasksUnavailable: the store cannot be used.
        """
        stored = known
        usual_s = self.lease_s if lease_s is None else lease_s
        lease_s = 0.0 if release else usual_s if renew else None
        for attempt in range(_ATTEMPTS):
            if stored is None:
                stored = await self._reach(lambda: self.store.get(task_id))
                if stored is None:
                    raise TaskGone(task_id)
            record = read_record(stored.body)
            # Each time the record is read anew: it may have ended, or have been changed, since the last attempt.
            if record.is_over or not mutate(record):
                return record
            record.updated_at = self.clock()
            body = self._body(record)  # first: a record that is too large fails here
            wanted = StoredTask(
                task_id=task_id,
                owner=stored.owner,
                version=stored.version,
                created_at=stored.created_at,
                expires_at=stored.expires_at,
                is_open=not record.is_over,
                body=body,
            )
            changed = await self._reach(lambda wanted=wanted: self.store.replace(wanted, lease_s=lease_s))  # type: ignore[misc]
            if changed is not None:
                if announce:
                    self.announce(record)
                return record
            stored = None
            # With a growing pause, so that one of the competing processes succeeds.
            await anyio.sleep(0.001 * attempt)
        raise MCPError("The task changes too often", code=int(JsonRpcErrorCode.INTERNAL_ERROR))

    def _body(self, record: TaskRecord) -> bytes:
        """Return the record as bytes; one that is too large fails and loses its outcome, journal and questions."""
        body = record.to_bytes()
        if len(body) <= self._max_task_bytes:
            return body
        what = "result" if record.result is not None else "state"
        logger.error("The %s of task %s has more than %d bytes", what, record.task_id, self._max_task_bytes)
        record.status, record.result, record.journal = "failed", None, None
        record.questions, record.answers = {}, {}
        record.status_message = f"The {what} of the task is larger than {self._max_task_bytes} bytes"
        record.error = {"code": int(JsonRpcErrorCode.INTERNAL_ERROR), "message": record.status_message}
        body = record.to_bytes()
        if len(body) > self._max_task_bytes:
            record.arguments, record.meta = {}, {}
            body = record.to_bytes()
        return body

    async def claim(self, limit: int) -> list[StoredTask]:
        """Lease tasks whose lease has run out to this process, and return them.

        None are returned right after the store was unreachable: the processes that run them could not renew their
        leases either, and get the time of one lease to do so.
        """
        claimed = await self._timed(lambda: self.store.claim(lease_s=self.lease_s, limit=limit))
        return claimed if anyio.current_time() - self._away_at >= self.lease_s else []

    async def _timed(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call the store, and record when it was unreachable: it raised, or took a large part of a lease."""
        began = anyio.current_time()
        try:
            return await call()
        except (OSError, TimeoutError):
            began = -math.inf
            raise
        finally:
            now = anyio.current_time()
            if now - began > self.lease_s / 3:
                self._away_at = now

    async def _reach(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call the store; repeat the call while it cannot be reached, for ``patience_s`` seconds.

        Raises:
            TasksUnavailable: it stayed unreachable, or cannot be written to.
        """
        deadline = anyio.current_time() + self._patience_s
        pause_s = 0.05
        while True:
            try:
                return await self._timed(call)
            except (OSError, TimeoutError) as error:
                if isinstance(error, StoreNotWritable) or anyio.current_time() + pause_s >= deadline:
                    logger.error("The task store cannot be used: %s", error)
                    raise TasksUnavailable from error
                logger.warning("The task store cannot be reached (%s); trying again", error)
            await anyio.sleep(pause_s)
            pause_s = min(1.0, self.lease_s / 5, pause_s * 2)  # in time to renew a lease before others may claim it

    # -- notifications --------------------------------------------------------------------------------------------

    def serve(self, server: Server[Any]) -> None:
        """Publish changes on the bus of this server, too."""
        if server not in self._servers:
            self._servers.append(server)

    def announce(self, record: TaskRecord) -> None:
        """Publish the status of a task to its listeners."""
        for server in self._servers:
            params: dict[str, Any] = to_builtins(modern_task(record))
            server.bus.publish(Event(CHANGED, record.task_id, params))

    def publish(self, task_id: str, method: str, params: Mapping[str, Any]) -> None:
        """Publish a notification for the process that has the connection of the client that began a task."""
        for server in self._servers:
            server.bus.publish(Event(TASK_NOTIFICATION, task_id, {"method": method, "params": params}))

    def notify(self, task_id: str) -> None:
        """Make the process that runs a task read its record."""
        on_notify = self._callbacks.get(task_id)
        if on_notify is not None:
            on_notify()
            return
        for server in self._servers:
            server.bus.publish(Event(_WAKE_UP, task_id))

    def on_notify(self, task_id: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` when the record of a task that runs here has changed; return a function that stops it."""
        self._callbacks[task_id] = callback
        if self._wake_ups is None and self._servers:
            self._wake_ups = self._servers[0].bus.listen(ListenFilter())
            self._wake_ups.on_wake(self._deliver_wake_ups)
            self._wake_ups.on_gap = self._wake_all
        if self._wake_ups is not None:
            self._wake_ups.add_topic(_WAKE_UP, task_id)

        def undo() -> None:
            self._callbacks.pop(task_id, None)
            if self._wake_ups is not None:
                self._wake_ups.discard_topic(_WAKE_UP, task_id)
            if not self._callbacks:  # a dict keeps the memory of its largest size until it is cleared
                self._callbacks.clear()

        return undo

    def _deliver_wake_ups(self) -> None:
        wake_ups = self._wake_ups
        if wake_ups is None:
            return
        for event in wake_ups.drain():
            callback = self._callbacks.get(event.topic)
            if callback is not None:
                callback()

    def _wake_all(self) -> None:
        """Make all tasks that run here read their record, after wake-ups may have been lost."""
        for callback in list(self._callbacks.values()):
            callback()

    def changes(self, ctx: ServerRequestContext[Any], task_id: str) -> Listener:
        """Return a listener for the changes of one task; the caller ends it."""
        return ctx.server.bus.listen(ListenFilter(topics=[(CHANGED, task_id)]))


def new_task_id() -> str:
    """Return a new id of 192 random bits."""
    # Where clients do not authenticate, the id is a bearer token (2025-11-25, "Tasks", security).
    return secrets.token_urlsafe(24)


def owner_of(ctx: ServerRequestContext[Any]) -> str:
    """Return the owner of a request's tasks: the principal, else the legacy session or connection; ``""`` for none."""
    principal = principal_id(principal_of(ctx))
    if principal is not None:
        return f"principal:{principal}"
    connection = ctx.session.connection
    if not connection.revision.has_sessions:
        return ""
    if connection.session_id is not None:
        return f"session:{connection.session_id}"
    return f"connection:{connection.state.setdefault('ferrule.tasks.owner', secrets.token_urlsafe(16))}"


def legacy_status_params(record: TaskRecord) -> Mapping[str, Any]:
    """Return params of ``notifications/tasks/status`` (2025-11-25)."""
    params: dict[str, Any] = to_builtins(legacy_task(record))
    return params
