"""Records of tasks, which exist longer than the request that began them: changed by compare-and-swap.

The store interprets four facts of a record (owner, expiry, whether it is open, version) and keeps the rest as bytes.
Two writers never overwrite each other: `TaskStore.replace` refuses a record that was read before the last change, and
the caller reads it again.

An open record has a *lease*: the process that runs the task renews it, and after it has run out another process may
`claim` the task. Leases and lifetimes are durations that the store measures with its own clock, so that workers with
different clocks agree.

An expired record does not exist, even if it has not been deleted yet: every method must check the expiry.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ferrule.stores.clock import steady_time

__all__ = ["MemoryTasks", "StoredTask", "TaskStore", "TooManyTasks"]


class TooManyTasks(Exception):
    """A bound of tasks is reached.

    Attributes:
        owner: whether it is the bound on the tasks of this owner; otherwise it is that on all tasks.
    """

    def __init__(self, *, owner: bool) -> None:
        super().__init__("This caller has too many tasks" if owner else "There are too many tasks")
        self.owner = owner


class StoredTask(Struct, frozen=True, kw_only=True):
    """One record.

    Attributes:
        task_id: a random id, chosen by the caller.
        owner: the principal that may list it; ``""`` for none.
        version: number of changes; 0 for a record that was never stored.
        created_at: seconds since the epoch, by the clock of the process that adds it.
        expires_at: seconds since the epoch; from then on the record does not exist. In a new record, by the clock of
            the process that adds it: ``expires_at - created_at`` is the lifetime. In a stored record, by the store's
            clock.
        is_open: whether the task has not ended yet.
        body: all other data; opaque to the store.
    """

    task_id: str
    owner: str
    version: int = 0
    created_at: float
    expires_at: float
    is_open: bool
    body: bytes


class TaskStore(Protocol):
    """Records of tasks, shared by all processes that use the same store.

    The owner, creation and expiry of a record never change; its body does, and it ends once. An ended record cannot be
    changed.
    """

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Store a new record, leased to the caller, and return it as stored.

        The record exists for ``expires_at - created_at`` seconds from now; if that is 0 or less, it is not stored.
        Adding the same record again, before it has changed, returns the stored record: a caller that lost the
        connection may repeat the call.

        Args:
            task: an open record with a new id.
            lease_s: seconds until another process may claim it.
            max_tasks: maximum number of records; checked before this one is added.
            max_per_owner: maximum number of records of its owner; records without an owner are not counted.

        Raises:
            TooManyTasks: one of the bounds is reached.
            ValueError: there is another record with this id.
            OSError: the store cannot be reached or written to.
        """
        ...

    async def get(self, task_id: str) -> StoredTask | None:
        """Return a record; ``None`` if there is none, or it has expired.

        Raises:
            OSError: the store cannot be reached.
        """
        ...

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change the body of a record that was read with ``task.version``, or end it.

        Args:
            task: the changed record, with the version that was read. Its owner and times are ignored.
            lease_s: seconds of a new lease; ``None`` keeps the lease. An ended task has none.

        Returns:
            The record as stored; ``None`` if it has changed, ended or expired meanwhile: then nothing was written.

        Raises:
            OSError: the store cannot be reached or written to.
        """
        ...

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Return records of an owner, the last added first.

        Args:
            owner: the owner; ``""`` has no records to list.
            after: the id of the last record of the page before; ``None`` for the first page.
            limit: maximum number of records.

        Raises:
            KeyError: ``after`` is not a record of this owner, or has expired.
            OSError: the store cannot be reached.
        """
        ...

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Lease open records whose lease has run out to the caller, and return them.

        Each record is returned to one caller only, those whose lease ran out first before others. Fewer than ``limit``
        records mean that there are no more.

        Args:
            lease_s: seconds of the new lease.
            limit: maximum number of records.

        Raises:
            OSError: the store cannot be reached or written to.
        """
        ...


def as_added(task: StoredTask, now: float) -> StoredTask:
    """Return a new record as it is stored: with version 1, and its expiry by the store's clock.

    Args:
        task: the new record.
        now: the time of the store's clock, in seconds since the epoch.
    """
    # The lifetime as a duration: the clock of the caller may be wrong.
    return replace(task, version=1, is_open=True, expires_at=task.expires_at + (now - task.created_at))


def same_or_refused(found: StoredTask, task: StoredTask) -> StoredTask:
    """Return ``found`` if it is the record that adding ``task`` has stored; for all implementations of `add`.

    Raises:
        ValueError: it is another record with the same id.
    """
    # Version 1: a record that has changed since was not added by the repeated call.
    if found.version != 1 or (found.owner, found.created_at, found.body) != (task.owner, task.created_at, task.body):
        raise ValueError(f"There is another task {task.task_id!r}")
    return found


class _Kept:
    """A record, and its neighbours in the linked list of its owner."""

    __slots__ = ("leased_until", "newer", "older", "task")

    def __init__(self, task: StoredTask, leased_until: float, older: _Kept | None) -> None:
        self.task = task
        self.leased_until: float | None = leased_until
        self.older = older
        self.newer: _Kept | None = None


class _Owned:
    """The records of one owner, linked in the order in which they were added, so that removing one costs one step."""

    __slots__ = ("count", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.newest: _Kept | None = None


class MemoryTasks:
    """A `TaskStore` in the memory of one process.

    The cost of an operation depends on the number of records that it returns, not on the number of all; adding and
    leasing also update two heaps: of the expiries and of the ends of leases.

    Args:
        clock: returns seconds since the epoch; for tests. The default ignores changes of the system's clock.
    """

    def __init__(self, *, clock: Callable[[], float] = steady_time) -> None:
        self._clock = clock
        self._tasks: dict[str, _Kept] = {}
        self._owned: dict[str, _Owned] = {}
        self._expiry: list[tuple[float, str]] = []
        self._leases: list[tuple[float, str]] = []

    def __len__(self) -> int:
        self._sweep()
        return len(self._tasks)

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Store a new record, leased to the caller, and return it as stored; see `TaskStore.add`."""
        self._sweep()
        found = self._tasks.get(task.task_id)
        if found is not None:
            return same_or_refused(found.task, task)
        if len(self._tasks) >= max_tasks:
            raise TooManyTasks(owner=False)
        owned = self._owned.get(task.owner)
        if task.owner and (0 if owned is None else owned.count) >= max_per_owner:
            raise TooManyTasks(owner=True)
        now = self._clock()
        stored = as_added(task, now)
        # After the check of the bounds, which also applies to a record without lifetime.
        if stored.expires_at <= now:
            return stored
        kept = _Kept(stored, now + lease_s, None if owned is None else owned.newest)
        self._tasks[task.task_id] = kept
        if task.owner:
            if owned is None:
                owned = self._owned[task.owner] = _Owned()
            elif owned.newest is not None:
                owned.newest.newer = kept
            owned.newest = kept
            owned.count += 1
        heappush(self._expiry, (stored.expires_at, task.task_id))
        self._lease(kept, now + lease_s)
        return stored

    async def get(self, task_id: str) -> StoredTask | None:
        """Return a record; see `TaskStore.get`."""
        found = self._tasks.get(task_id)
        return None if found is None or found.task.expires_at <= self._clock() else found.task

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change a record, or end it; see `TaskStore.replace`."""
        kept = self._tasks.get(task.task_id)
        now = self._clock()
        if kept is None or kept.task.expires_at <= now:
            return None
        found = kept.task
        # Compare-and-swap: the caller reads the record again and decides anew.
        if found.version != task.version or not found.is_open:
            return None
        kept.task = replace(found, version=found.version + 1, is_open=task.is_open, body=task.body)
        if not task.is_open:
            kept.leased_until = None
        elif lease_s is not None:
            self._lease(kept, now + lease_s)
        return kept.task

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Return records of an owner, the last added first; see `TaskStore.page`."""
        self._sweep()
        owned = self._owned.get(owner)
        kept = None if owned is None else owned.newest
        if after is not None:
            last = self._tasks.get(after)
            # The same error for all three, or a client could find out which ids of others exist.
            if last is None or not owner or last.task.owner != owner:
                raise KeyError(after)
            kept = last.older
        tasks: list[StoredTask] = []
        while kept is not None and len(tasks) < limit:
            tasks.append(kept.task)
            kept = kept.older
        return tasks

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Lease open records whose lease has run out to the caller, and return them; see `TaskStore.claim`."""
        self._sweep()
        now = self._clock()
        claimed: list[_Kept] = []
        while len(claimed) < limit and self._leases and self._leases[0][0] <= now:
            until, task_id = heappop(self._leases)
            kept = self._tasks.get(task_id)
            if kept is not None and kept.leased_until == until:
                kept.leased_until = None  # otherwise another entry with the same time would return it again
                claimed.append(kept)
        for kept in claimed:
            self._lease(kept, now + lease_s)
        return [kept.task for kept in claimed]

    def _lease(self, kept: _Kept, until: float) -> None:
        kept.leased_until = until
        heappush(self._leases, (until, kept.task.task_id))
        if len(self._leases) > 2 * len(self._tasks) + 64:  # entries of leases that were renewed, or ended
            self._leases = [
                (kept.leased_until, task_id) for task_id, kept in self._tasks.items() if kept.leased_until is not None
            ]
            heapify(self._leases)

    def _sweep(self) -> None:
        now = self._clock()
        while self._expiry and self._expiry[0][0] <= now:
            self._forget(self._tasks.pop(heappop(self._expiry)[1]))
        if not self._tasks:  # a dict keeps the memory of its largest size until `clear`
            for emptied in (self._tasks, self._owned, self._leases):
                emptied.clear()

    def _forget(self, kept: _Kept) -> None:
        kept.leased_until = None
        owned = self._owned.get(kept.task.owner)
        if owned is None:
            return
        older, newer = kept.older, kept.newer
        if older is not None:
            older.newer = newer
        if newer is not None:
            newer.older = older
        else:
            owned.newest = older
        # Otherwise a reference to one removed record would keep the memory of all its neighbours.
        kept.older = kept.newer = None
        owned.count -= 1
        if not owned.count:
            del self._owned[kept.task.owner]
