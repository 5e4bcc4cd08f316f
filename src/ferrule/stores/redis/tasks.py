"""Task records in Redis, whose clock measures leases and lifetimes, so that workers with different clocks agree.

All records of one prefix share a slot of a cluster, because the bounds on their number hold for all of them together.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ferrule.stores.redis.server import NOW, RedisServer, digest, milliseconds
from ferrule.stores.tasks import StoredTask, TooManyTasks

__all__ = ["RedisTasks"]

_OWNER_IS_FULL: Final = 2
_EXISTS: Final = 3

# Scripts get the names of all keys that they touch, so that a cluster can route them. ``all`` and ``leases`` are sorted
# sets of task ids, by expiry and by the end of the lease, both in milliseconds. ``owned`` and ``lives`` contain those
# of one owner, by the order of adding and by expiry: ``lives`` gives their number, and those that have expired. Each
# set expires with the last of its records. A script first writes what takes memory and then deletes: a full Redis
# refuses the first write of a script that needs memory, and no later one.

_FORGET_EXPIRED: Final = """
local function forget_expired(owned, lives, all)
  if redis.call('ZCARD', owned) ~= redis.call('ZCARD', lives) then -- release 0.1 wrote no lives
    for _, id in ipairs(redis.call('ZRANGE', owned, 0, -1)) do
      redis.call('ZADD', lives, redis.call('ZSCORE', all, id) or 0, id)
    end
    local left = redis.call('PTTL', owned)
    if left > 0 then redis.call('PEXPIRE', lives, left) end
  end
  while true do
    local gone = redis.call('ZRANGEBYSCORE', lives, '-inf', now, 'LIMIT', 0, 1000)
    if #gone == 0 then return end
    redis.call('ZREM', owned, unpack(gone))
    redis.call('ZREM', lives, unpack(gone))
  end
end
"""

_ADD: Final = (
    NOW
    + _FORGET_EXPIRED
    + """
local task, owned, lives, all, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, owner, created, life, lease, body = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local found = redis.call('HMGET', task, 'version', 'owner', 'created', 'body', 'expires')
if found[1] then
  if found[1] == '1' and found[2] == owner and found[3] == created and found[4] == body then return found[5] end
  return 3
end
if redis.call('ZCOUNT', all, '(' .. now, '+inf') >= tonumber(ARGV[7]) then return 1 end
if owner ~= '' then
  forget_expired(owned, lives, all)
  if redis.call('ZCARD', lives) >= tonumber(ARGV[8]) then return 2 end
end
local expires = string.format('%.0f', now + life)
if life <= 0 then return expires end
redis.call('HSET', task, 'owner', owner, 'version', 1, 'created', created, 'expires', expires, 'open', 1, 'body', body)
redis.call('PEXPIREAT', task, expires)
redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
redis.call('ZADD', all, expires, id)
redis.call('ZADD', leases, now + lease, id)
local keys = {all, leases}
if owner ~= '' then
  local last = redis.call('ZREVRANGE', owned, 0, 0, 'WITHSCORES')
  redis.call('ZADD', owned, (last[2] or 0) + 1, id)
  redis.call('ZADD', lives, expires, id)
  keys[3], keys[4] = owned, lives
end
for _, key in ipairs(keys) do
  if redis.call('PTTL', key) < life then redis.call('PEXPIREAT', key, expires) end
end
return expires
"""
)

_PAGE: Final = (
    NOW
    + _FORGET_EXPIRED
    + """
local owned, lives, all = KEYS[1], KEYS[2], KEYS[3]
local after, below = ARGV[1], ARGV[2]
forget_expired(owned, lives, all)
if after ~= '' then
  local place = redis.call('ZSCORE', owned, after)
  if not place then return nil end
  below = '(' .. place
end
return redis.call('ZREVRANGEBYSCORE', owned, below, '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
"""
)

_REPLACE: Final = (
    NOW
    + """
local task, leases = KEYS[1], KEYS[2]
local id, version, open, lease, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local found = redis.call('HMGET', task, 'version', 'open', 'owner', 'created', 'expires')
if found[1] ~= version or found[2] ~= '1' then return nil end
redis.call('HSET', task, 'version', version + 1, 'open', open, 'body', body)
if open == '0' then redis.call('ZREM', leases, id)
elseif lease ~= '' then redis.call('ZADD', leases, 'XX', now + lease, id) end
return {found[3], found[4], found[5]}
"""
)

_CLAIM: Final = (
    NOW
    + """
local leases, all = KEYS[1], KEYS[2]
local limit, ids = tonumber(ARGV[2]), {}
redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
while #ids < limit do
  local lost = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit - #ids)
  if #lost == 0 then break end
  for _, id in ipairs(lost) do
    if redis.call('ZSCORE', all, id) then
      redis.call('ZADD', leases, 'XX', now + ARGV[1], id)
      ids[#ids + 1] = id
    else
      redis.call('ZREM', leases, id)
    end
  end
end
return ids
"""
)


class RedisTasks:
    """`ferrule.stores.tasks.TaskStore` in Redis; all records of one prefix share a slot."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._all = server.key("tasks", "all")
        self._leases = server.key("tasks", "leases")

    def _task(self, task_id: str) -> str:
        return self._server.key("tasks", "task", task_id)

    def _of(self, owner: str) -> tuple[str, str]:
        name = digest(owner)
        return self._server.key("tasks", "owner", name), self._server.key("tasks", "lives", name)

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """Store a new record, leased to the caller, and return it as stored; see `TaskStore.add`."""
        keys = [self._task(task.task_id), *self._of(task.owner), self._all, self._leases]
        values: list[Any] = [
            task.task_id,
            task.owner,
            repr(task.created_at),
            round((task.expires_at - task.created_at) * 1000),
            round(lease_s * 1000),
        ]
        values += [task.body, max_tasks, max_per_owner]
        # Bytes are an expiry, numbers the reason of a refusal.
        added: int | bytes = await self._server.run(lambda client: client.eval(_ADD, len(keys), *keys, *values))
        if added == _EXISTS:
            raise ValueError(f"There is another task {task.task_id!r}")
        if isinstance(added, int):
            raise TooManyTasks(owner=added == _OWNER_IS_FULL)
        return replace(task, version=1, is_open=True, expires_at=int(added) / 1000)

    async def get(self, task_id: str) -> StoredTask | None:
        """Return a record; see `TaskStore.get`."""
        found: Any = await self._server.run(lambda client: client.hmget(self._task(task_id), *_FACTS))
        return _read(task_id, found)

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """Change a record, or end it; see `TaskStore.replace`."""
        keys = [self._task(task.task_id), self._leases]
        # Lua has no null for an argument.
        lease = "" if lease_s is None else str(round(lease_s * 1000))
        values: list[Any] = [task.task_id, task.version, int(task.is_open), lease, task.body]
        found: Any = await self._server.run(lambda client: client.eval(_REPLACE, len(keys), *keys, *values))
        if found is None:
            return None
        owner, created, expires = found
        return replace(
            task,
            version=task.version + 1,
            owner=owner.decode(),
            created_at=float(created),
            expires_at=int(expires) / 1000,
        )

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """Return records of an owner, the last added first; see `TaskStore.page`.

        It takes two round trips, and more if records of the page expire between them.
        """
        keys = [*self._of(owner), self._all]
        tasks: list[StoredTask] = []
        cursor, below = after or "", "+inf"
        while True:
            values = [cursor, below, max(limit - len(tasks), 0)]
            found: list[bytes] | None = await self._server.run(
                lambda client, values=values: client.eval(_PAGE, len(keys), *keys, *values)  # type: ignore[misc]
            )
            if found is None:
                raise KeyError(after)
            ids = found[::2]
            read = await self._found(ids)
            # Fewer than were asked for if some expired between the two round trips: the page is then filled from older
            # ones.
            tasks += read
            if len(read) == len(ids):
                return tasks
            cursor, below = "", f"({found[-1].decode()}"

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """Lease open records whose lease has run out to the caller, in two round trips; see `TaskStore.claim`."""
        ids: list[bytes] = await self._server.run(
            lambda client: client.eval(_CLAIM, 2, self._leases, self._all, milliseconds(lease_s), limit)
        )
        return [task for task in await self._found(ids) if task.is_open]  # it may have ended after the script

    async def _found(self, ids: list[bytes]) -> list[StoredTask]:
        """Return those of these records that have not expired, read in one round trip."""
        if not ids:
            return []
        names = [task_id.decode() for task_id in ids]

        async def read(client: Any) -> list[Any]:
            # No transaction: each record is read on its own, and `replace` checks its version.
            pipeline = client.pipeline(transaction=False)
            for task_id in names:
                pipeline.hmget(self._task(task_id), *_FACTS)
            rows: list[Any] = await pipeline.execute()
            return rows

        rows = await self._server.run(read)
        read_tasks = (_read(task_id, row) for task_id, row in zip(names, rows, strict=True))
        return [task for task in read_tasks if task is not None]


_FACTS: Final = ("owner", "version", "created", "expires", "open", "body")


def _read(task_id: str, row: Any) -> StoredTask | None:
    """Return the record with these `_FACTS`; ``None`` if there is none, or it has expired."""
    owner, version, created, expires, is_open, body = row
    if version is None:
        return None
    return StoredTask(
        task_id=task_id,
        owner=owner.decode(),
        version=int(version),
        created_at=float(created),
        expires_at=int(expires) / 1000,
        is_open=is_open == b"1",
        body=body,
    )
