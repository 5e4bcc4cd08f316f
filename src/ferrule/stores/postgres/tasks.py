"""Task records in PostgreSQL, whose clock measures leases and lifetimes: workers with different clocks agree."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ferrule.stores.postgres.server import PostgresServer, digest, utf8
from ferrule.stores.tasks import StoredTask, TooManyTasks

__all__ = ["PostgresTasks"]

_STORED: Final = 0
_OWNER_IS_FULL: Final = 2
_EXISTS: Final = 3
_COLUMNS: Final = "task_id, owner, version, created_at, expires_at, leased_until, body"
_LAST: Final = 2**62
"""Above the numbers of all records."""


class PostgresTasks:
    """`ferrule.stores.tasks.TaskStore` in PostgreSQL.

    Records are added by one transaction at a time, because the bounds on their number are exact.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._add = server.sql("SELECT * FROM {schema}.add_task($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
        self._get = server.sql(f"SELECT {_COLUMNS} FROM {{schema}}.tasks WHERE key = $1 AND expires_at > {{now}}")
        self._replace = server.sql(
            "UPDATE {schema}.tasks SET version = version + 1, body = $3, leased_until = CASE WHEN NOT $4::boolean "
            "THEN NULL WHEN $5::float8 IS NULL THEN leased_until ELSE {now} + $5 END "
            "WHERE key = $1 AND version = $2 AND leased_until IS NOT NULL AND expires_at > {now} "
            "RETURNING owner, created_at, expires_at"
        )
        self._number = server.sql(
            "SELECT number FROM {schema}.tasks WHERE key = $1 AND owner_key = $2 AND expires_at > {now}"
        )
        self._page = server.sql(
            f"SELECT {_COLUMNS} FROM {{schema}}.tasks WHERE owner_key = $1 AND owner <> '' AND number < $2 "
            "AND expires_at > {now} ORDER BY number DESC LIMIT $3"
        )
        # Rows that another process claims at the same moment are skipped: they are no longer free.
        self._claim = server.sql(
            "WITH lost AS MATERIALIZED (SELECT number, leased_until FROM {schema}.tasks "
            "WHERE leased_until <= {now} AND expires_at > {now} ORDER BY leased_until, task_id LIMIT $2 "
            "FOR UPDATE SKIP LOCKED), claimed AS "
            "(UPDATE {schema}.tasks AS task SET leased_until = {now} + $1 FROM lost "
            "WHERE task.number = lost.number RETURNING task.*, lost.leased_until AS lost_at) "
            f"SELECT {_COLUMNS} FROM claimed ORDER BY lost_at, task_id"
        )

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Store a new record, leased to the caller, and return it as stored; see `TaskStore.add`."""
        outcome, expires_at = await self._server.row(
            self._add,
            digest(task.task_id),
            utf8(task.task_id),
            digest(task.owner),
            utf8(task.owner),
            task.created_at,
            task.expires_at - task.created_at,
            float(lease_s),
            task.body,
            max_tasks,
            max_per_owner,
        )
        if outcome == _EXISTS:
            raise ValueError(f"There is another task {task.task_id!r}")
        if outcome != _STORED:
            raise TooManyTasks(owner=outcome == _OWNER_IS_FULL)
        return replace(task, version=1, is_open=True, expires_at=expires_at)

    async def get(self, task_id: str) -> StoredTask | None:
        """Return a record; see `TaskStore.get`."""
        found = await self._server.row(self._get, digest(task_id))
        return None if found is None else _task(found)

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change a record, or end it; see `TaskStore.replace`."""
        lease = None if lease_s is None else float(lease_s)
        found = await self._server.row(
            self._replace, digest(task.task_id), task.version, task.body, task.is_open, lease
        )
        if found is None:
            return None
        owner, created_at, expires_at = found
        return replace(
            task,
            version=task.version + 1,
            owner=_text(owner),
            created_at=created_at,
            expires_at=expires_at,
        )

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Return records of an owner, the last added first; see `TaskStore.page`.

        Raises:
            KeyError: ``after`` is not a record of this owner, or has expired.
        """
        if not owner and after is None:
            return []
        before = _LAST
        if after is not None:
            found: int | None = await self._server.value(self._number, digest(after), digest(owner))
            # One error for both, or a client could find out which ids of others exist.
            if found is None or not owner:
                raise KeyError(after)
            before = found
        return [_task(row) for row in await self._server.rows(self._page, digest(owner), before, limit)]

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Lease open records whose lease has run out to the caller, and return them; see `TaskStore.claim`."""
        return [_task(row) for row in await self._server.rows(self._claim, float(lease_s), limit)]


def _task(row: Any) -> StoredTask:
    task_id, owner, version, created_at, expires_at, leased_until, body = row
    return StoredTask(
        task_id=_text(task_id),
        owner=_text(owner),
        version=version,
        created_at=created_at,
        expires_at=expires_at,
        is_open=leased_until is not None,
        body=body,
    )


def _text(value: bytes) -> str:
    return value.decode(errors="surrogatepass")
