"""Task records in the project's database."""

from __future__ import annotations

from typing import Any, Final

from django.db import connections

from ferrule.django.models import TaskRow
from ferrule.django.store.database import Database, digest
from ferrule.stores.tasks import StoredTask, TooManyTasks, as_added, same_or_refused

__all__ = ["DjangoTasks"]

_ADDING: Final = int.from_bytes(b"ferrule", "big")
"""Number of the advisory lock of PostgreSQL under which records are counted and added."""


class DjangoTasks:
    """`ferrule.stores.tasks.TaskStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def using(self) -> str:
        """The alias of the database."""
        return self._database.using

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Store a new record, leased to the caller, and return it as stored; see `TaskStore.add`."""
        owner = digest(task.owner)

        def work(now: float) -> StoredTask:
            stored = as_added(task, now)
            with self._database.atomic():
                self._lock(now)
                found = self._find(task.task_id, now)
                if found is not None:
                    return same_or_refused(found, task)
                alive = self._database.rows(TaskRow).filter(expires_at__gt=now)
                if alive[:max_tasks].count() >= max_tasks:
                    raise TooManyTasks(owner=False)
                if task.owner and alive.filter(owner_key=owner)[:max_per_owner].count() >= max_per_owner:
                    raise TooManyTasks(owner=True)
                if stored.expires_at > now:
                    # An expired record with this id may not have been deleted yet.
                    self._database.rows(TaskRow).filter(key=digest(task.task_id)).delete()
                    self._database.rows(TaskRow).create(
                        key=digest(task.task_id),
                        task_id=_utf8(task.task_id),
                        owner_key=owner,
                        owner=_utf8(task.owner),
                        version=1,
                        created_at=task.created_at,
                        expires_at=stored.expires_at,
                        leased_until=now + lease_s,
                        body=task.body,
                    )
            return stored

        return await self._database.run(work)

    def _lock(self, now: float) -> None:
        """Let no other process add a record until the end of the transaction: the bounds are counted before."""
        connection = connections[self._database.using]
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ADDING])
            return
        # In a transaction of the project, which may begin here, SQLite takes its lock with the first statement that
        # writes; one that reads first fails if another process writes before it does.
        self._database.rows(TaskRow).filter(expires_at__lte=now).delete()

    async def get(self, task_id: str) -> StoredTask | None:
        """Return a record; see `TaskStore.get`."""
        return await self._database.run(lambda now: self._find(task_id, now))

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change a record, or end it; see `TaskStore.replace`."""

        def work(now: float) -> StoredTask | None:
            values: dict[str, Any] = {"version": task.version + 1, "body": task.body}
            if not task.is_open:
                values["leased_until"] = None
            elif lease_s is not None:
                values["leased_until"] = now + lease_s
            rows = self._database.rows(TaskRow).filter(key=digest(task.task_id))
            # Owner and times, which never change; the rest is what is written. Read first: the change comes last.
            row = rows.only("owner", "created_at", "expires_at").first()
            unchanged = rows.filter(version=task.version, leased_until__isnull=False, expires_at__gt=now)
            if row is None or not unchanged.update(**values):
                return None
            return StoredTask(
                task_id=task.task_id,
                owner=_text(row.owner),
                version=task.version + 1,
                created_at=row.created_at,
                expires_at=row.expires_at,
                is_open=task.is_open,
                body=task.body,
            )

        return await self._database.run(work)

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Return records of an owner, the last added first; see `TaskStore.page`.

        Raises:
            KeyError: ``after`` is not a record of this owner, or has expired.
        """

        def work(now: float) -> list[StoredTask]:
            rows = self._database.rows(TaskRow).filter(owner_key=digest(owner), expires_at__gt=now)
            if after is not None:
                number = rows.filter(key=digest(after)).values_list("number", flat=True).first()
                # One error for both, or a client could find out which ids of others exist.
                if number is None or not owner:
                    raise KeyError(after)
                rows = rows.filter(number__lt=number)
            return [_task(row) for row in rows.order_by("-number")[:limit]] if owner else []

        return await self._database.run(work)

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Lease open records whose lease has run out to the caller, and return them; see `TaskStore.claim`."""
        claimed: list[StoredTask] = []  # also what was claimed before a call of `work` failed

        def work(now: float) -> None:
            while len(claimed) < limit:
                found = self._claim(now, lease_s, limit - len(claimed))
                if found is None:
                    break
                claimed.extend(found)

        try:
            await self._database.run(work)
        except OSError:
            if not claimed:
                raise
        return claimed

    def _claim(self, now: float, lease_s: float, limit: int) -> list[StoredTask] | None:
        """Lease some of the records whose lease has run out; ``None`` if there are none."""
        lost = self._database.rows(TaskRow).filter(leased_until__lte=now, expires_at__gt=now)
        if self._database.locks_rows:
            lost = lost.select_for_update(skip_locked=True)
        elif not lost.exists():
            return None  # without the lock of the database, which the transaction would take
        with self._database.atomic():
            rows = list(lost.order_by("leased_until", "number")[:limit])
            # By the lease that was read: the database may be one that locks neither rows nor itself.
            claimed = [
                row
                for row in rows
                if self._database.rows(TaskRow)
                .filter(pk=row.pk, leased_until=row.leased_until)
                .update(leased_until=now + lease_s)
            ]
        return [_task(row) for row in claimed] if rows else None

    def _find(self, task_id: str, now: float) -> StoredTask | None:
        row = self._database.rows(TaskRow).filter(key=digest(task_id), expires_at__gt=now).first()
        return None if row is None else _task(row)


def _task(row: TaskRow) -> StoredTask:
    return StoredTask(
        task_id=_text(row.task_id),
        owner=_text(row.owner),
        version=row.version,
        created_at=row.created_at,
        expires_at=row.expires_at,
        is_open=row.leased_until is not None,
        body=bytes(row.body),
    )


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _text(value: Any) -> str:
    return bytes(value).decode(errors="surrogatepass")
