"""Task records in the SQLite file of `ferrule.stores.sqlite.file`, which survive the process and a power failure.

Each change is one statement or one immediate transaction, so that no other process writes between its read and its
write. Times are seconds of the file's clock, which all processes share.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from ferrule.stores.sqlite.file import SqliteFile, transaction
from ferrule.stores.tasks import StoredTask, TooManyTasks, as_added, same_or_refused

__all__ = ["SqliteTasks"]

_COLUMNS: Final = "task_id, owner, version, created_at, expires_at, leased_until, body"


class SqliteTasks:
    """`ferrule.stores.tasks.TaskStore` in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Store a new record, leased to the caller, and return it as stored; see `TaskStore.add`."""

        def work(connection: sqlite3.Connection, now: float) -> StoredTask:
            stored = as_added(task, now)
            with transaction(connection):
                # First, because the counts include expired rows until they are deleted.
                connection.execute("DELETE FROM ferrule_tasks WHERE expires_at <= ?", (now,))
                found = _find(connection, task.task_id, now)
                if found is not None:
                    return same_or_refused(found, task)
                if _count(connection, "") >= max_tasks:
                    raise TooManyTasks(owner=False)
                if task.owner and _count(connection, task.owner) >= max_per_owner:
                    raise TooManyTasks(owner=True)
                connection.execute(
                    f"INSERT INTO ferrule_tasks ({_COLUMNS}) VALUES (?, ?, 1, ?, ?, ?, ?)",
                    (task.task_id, task.owner, task.created_at, stored.expires_at, now + lease_s, task.body),
                )
            return stored

        return await self._file.run(work)

    async def get(self, task_id: str) -> StoredTask | None:
        """Return a record; see `TaskStore.get`."""
        return await self._file.run(lambda connection, now: _find(connection, task_id, now))

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change a record, or end it; see `TaskStore.replace`."""

        def work(connection: sqlite3.Connection, now: float) -> StoredTask | None:
            # Without a new lease the column keeps its value.
            lease, value = "leased_until", list[float]()
            if not task.is_open:
                lease = "NULL"
            elif lease_s is not None:
                lease, value = "?", [now + lease_s]
            with transaction(connection):
                changed = connection.execute(
                    f"UPDATE ferrule_tasks SET version = version + 1, body = ?, leased_until = {lease} "
                    "WHERE task_id = ? AND version = ? AND leased_until IS NOT NULL AND expires_at > ?",
                    (task.body, *value, task.task_id, task.version, now),
                )
                return _find(connection, task.task_id, now) if changed.rowcount == 1 else None

        return await self._file.run(work)

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Return records of an owner, the last added first; see `TaskStore.page`.

        Raises:
            KeyError: ``after`` is not a record of this owner, or has expired.
        """

        def work(connection: sqlite3.Connection, now: float) -> list[StoredTask]:
            if not owner and after is None:
                return []
            # Above all numbers, so that both cases use one statement.
            before = 2**62
            if after is not None:
                found: Any = connection.execute(
                    "SELECT number FROM ferrule_tasks WHERE task_id = ? AND owner = ? AND expires_at > ?",
                    (after, owner, now),
                ).fetchone()
                # One error for both, or a client could find out which ids of others exist.
                if found is None or not owner:
                    raise KeyError(after)
                before = found[0]
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM ferrule_tasks WHERE owner = ? AND number < ? AND expires_at > ? "
                "ORDER BY number DESC LIMIT ?",
                (owner, before, now, limit),
            )
            return [_task(row) for row in rows]

        return await self._file.run(work)

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Lease open records whose lease has run out to the caller, and return them; see `TaskStore.claim`."""

        def work(connection: sqlite3.Connection, now: float) -> list[StoredTask]:
            with transaction(connection):
                rows: list[Any] = connection.execute(
                    f"SELECT {_COLUMNS} FROM ferrule_tasks WHERE leased_until <= ? AND expires_at > ? "
                    "ORDER BY leased_until, task_id LIMIT ?",
                    (now, now, limit),
                ).fetchall()
                connection.executemany(
                    "UPDATE ferrule_tasks SET leased_until = ? WHERE task_id = ?",
                    [(now + lease_s, row[0]) for row in rows],
                )
            return [_task(row) for row in rows]

        return await self._file.run(work)


def _find(connection: sqlite3.Connection, task_id: str, now: float) -> StoredTask | None:
    found: Any = connection.execute(
        f"SELECT {_COLUMNS} FROM ferrule_tasks WHERE task_id = ? AND expires_at > ?", (task_id, now)
    ).fetchone()
    return None if found is None else _task(found)


def _count(connection: sqlite3.Connection, owner: str) -> int:
    """Return the number of an owner's records; ``""`` for the number of all."""
    row: Any = connection.execute("SELECT tasks FROM ferrule_task_counts WHERE owner = ?", (owner,)).fetchone()
    return 0 if row is None else row[0]


def _task(row: Any) -> StoredTask:
    task_id, owner, version, created_at, expires_at, leased_until, body = row
    return StoredTask(
        task_id=task_id,
        owner=owner,
        version=version,
        created_at=created_at,
        expires_at=expires_at,
        is_open=leased_until is not None,
        body=bytes(body),
    )
