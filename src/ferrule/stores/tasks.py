"""Tasks that outlive the request which began them: one record per task, changed by compare-and-swap.

The store knows four facts of a record (whose it is, when it ends, whether it is still open, which version it has)
and keeps the rest as bytes. Two writers never overwrite each other: `TaskStore.replace` refuses a record that was
read before the last change, and the caller reads again.

An open record carries a *lease*: whoever runs the task renews it, and when it has run out somebody else may `claim`
the task. Leases and lives are durations and the store counts them by its own clock, so that workers whose clocks differ
agree, and none of them ends what another keeps.

Rule a newcomer would break: a record that has expired does not exist, whether or not it was swept away yet.
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
    """There is no room for another task; ``owner`` tells whether it is the caller's own share that is used up."""

    def __init__(self, *, owner: bool) -> None:
        super().__init__("This caller has too many tasks" if owner else "There are too many tasks")
        self.owner = owner


class StoredTask(Struct, frozen=True, kw_only=True):
    """One record.

    Attributes:
        task_id: unguessable, chosen by the caller.
        owner: who may list it; ``""`` for nobody.
        version: counts the changes; 0 for a record that was never stored.
        created_at: seconds since the epoch, by the clock of whoever adds it.
        expires_at: seconds since the epoch; from then on the record does not exist. By the clock of whoever adds it in
            a record that was never stored, where it says with ``created_at`` how long the record lives; by the clock of
            the store in one that was.
        is_open: whether the task has not ended yet.
        body: everything else; opaque.
    """

    task_id: str
    owner: str
    version: int = 0
    created_at: float
    expires_at: float
    is_open: bool
    body: bytes


class TaskStore(Protocol):
    """Records of tasks, shared by all who name the same store.

    What a record says of its owner, its creation and its expiry stays as it was added; what changes is its body and,
    once, that it has ended. Whatever is written after the end finds no record to write to.
    """

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Keep a new record, leased to the caller; gives it as stored. It can be found once this returns.

        The record lives for ``expires_at - created_at`` seconds from now, and not at all if that is not more than 0.
        Adding the same record again before it changed gives it as it is stored: whoever lost the answer may ask again.

        Args:
            task: its id must be new, and it must be open.
            lease_s: seconds until somebody else may claim it.
            max_tasks, max_per_owner: how many records there may be, before this one is added. The second does not hold
                for those that are nobody's.

        Raises:
            TooManyTasks: one of the bounds is reached.
            ValueError: there is another record of this id.
            OSError: the store cannot be reached or written to.
        """
        ...

    async def get(self, task_id: str) -> StoredTask | None:
        """Return the record, ``None`` when there is none (any more)."""
        ...

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change the body of a record that was read with ``task.version``, or end it; gives it as stored.

        ``None``: it has changed, ended or gone in the meantime, and nothing was written.

        Args:
            task: the record as it shall be, with the version that was read. Its owner and times are ignored.
            lease_s: renews the lease; ``None`` leaves it. An ended task has none.
        """
        ...

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Records of an owner, those added last first.

        Args:
            owner: of ``""``, nobody, there are none to list.
            after: the id of the last record of the page before; ``None`` begins.
            limit: at most so many.

        Raises:
            KeyError: ``after`` is no record of this owner (any more).
        """
        ...

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Open records whose lease has run out, leased to the caller from now on; each is given to one caller only.

        Those whose lease ran out first come first; there are fewer than ``limit`` only if there are no more.
        """
        ...


def as_added(task: StoredTask, now: float) -> StoredTask:
    """Return a new record as a store keeps it whose clock says ``now``."""
    return replace(task, version=1, is_open=True, expires_at=task.expires_at + (now - task.created_at))


def same_or_refused(found: StoredTask, task: StoredTask) -> StoredTask:
    """``found``, if it is what adding ``task`` made; the rule of every implementation.

    Raises:
        ValueError: it is another record of the same id.
    """
    if found.version != 1 or (found.owner, found.created_at, found.body) != (task.owner, task.created_at, task.body):
        raise ValueError(f"There is another task {task.task_id!r}")
    return found


class _Kept:
    """A record, and its place among those of its owner."""

    __slots__ = ("leased_until", "newer", "older", "task")

    def __init__(self, task: StoredTask, leased_until: float, older: _Kept | None) -> None:
        self.task = task
        self.leased_until: float | None = leased_until
        self.older = older
        self.newer: _Kept | None = None


class _Owned:
    """The records of one owner, linked in the order in which they were added: any of them leaves in one step."""

    __slots__ = ("count", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.newest: _Kept | None = None


class MemoryTasks:
    """Records of one process.

    No operation looks at more records than it gives; adding and leasing also keep two heaps in order, of the ends of
    lives and of leases.

    Args:
        clock: seconds since the epoch, for tests. The usual one cannot be set.
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
        """See `TaskStore`."""
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
        """See `TaskStore`."""
        found = self._tasks.get(task_id)
        return None if found is None or found.task.expires_at <= self._clock() else found.task

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """See `TaskStore`."""
        kept = self._tasks.get(task.task_id)
        now = self._clock()
        if kept is None or kept.task.expires_at <= now:
            return None
        found = kept.task
        if found.version != task.version or not found.is_open:
            return None
        kept.task = replace(found, version=found.version + 1, is_open=task.is_open, body=task.body)
        if not task.is_open:
            kept.leased_until = None
        elif lease_s is not None:
            self._lease(kept, now + lease_s)
        return kept.task

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """See `TaskStore`."""
        self._sweep()
        owned = self._owned.get(owner)
        kept = None if owned is None else owned.newest
        if after is not None:
            last = self._tasks.get(after)
            if last is None or not owner or last.task.owner != owner:
                raise KeyError(after)
            kept = last.older
        tasks: list[StoredTask] = []
        while kept is not None and len(tasks) < limit:
            tasks.append(kept.task)
            kept = kept.older
        return tasks

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """See `TaskStore`."""
        self._sweep()
        now = self._clock()
        claimed: list[_Kept] = []
        while len(claimed) < limit and self._leases and self._leases[0][0] <= now:
            until, task_id = heappop(self._leases)
            kept = self._tasks.get(task_id)
            if kept is not None and kept.leased_until == until:
                kept.leased_until = None  # or another entry of the same time would give it again
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
        if not self._tasks:  # an emptied dict keeps the room of its fullest hour, a cleared one does not
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
        kept.older = kept.newer = None
        owned.count -= 1
        if not owned.count:
            del self._owned[kept.task.owner]
