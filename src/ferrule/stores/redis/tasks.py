"""Task records in Redis. Leases and lives are counted by the clock of Redis, so that workers whose clocks differ agree.

All records of one prefix share a slot of a cluster: the bounds on their number are of all of them together.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ferrule.stores.redis.server import NOW, RedisServer, digest, milliseconds
from ferrule.stores.tasks import StoredTask, TooManyTasks

__all__ = ["RedisTasks"]

_OWNER_IS_FULL: Final = 2
_EXISTS: Final = 3

# Scripts get the names of all keys that they touch, so that a cluster can route them. ``all`` and ``leases`` are
# sorted sets of task ids, by expiry and by the end of the lease, both in milliseconds. They and ``owned``
# live as long as the record in them that lives longest. What takes memory is written before anything is cleaned up: a
# full Redis refuses the first write of a script and no later one.

_ADD: Final = (
    NOW
    + """
local task, owned, all, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, owner, created, life, lease, body = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local found = redis.call('HMGET', task, 'version', 'owner', 'created', 'body', 'expires')
if found[1] then
  if found[1] == '1' and found[2] == owner and found[3] == created and found[4] == body then return found[5] end
  return 3
end
if redis.call('ZCOUNT', all, '(' .. now, '+inf') >= tonumber(ARGV[7]) then return 1 end
local gone, count = {}, 0
if owner ~= '' then
  for _, old in ipairs(redis.call('ZRANGE', owned, 0, -1)) do
    local ends = redis.call('ZSCORE', all, old)
    if ends and tonumber(ends) > now then count = count + 1 else gone[#gone + 1] = old end
  end
  if count >= tonumber(ARGV[8]) then return 2 end
end
local expires = string.format('%.0f', now + life)
if life <= 0 then return expires end
redis.call('HSET', task, 'owner', owner, 'version', 1, 'created', created, 'expires', expires, 'open', 1, 'body', body)
redis.call('PEXPIREAT', task, expires)
redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
for _, old in ipairs(gone) do redis.call('ZREM', owned, old) end
redis.call('ZADD', all, expires, id)
redis.call('ZADD', leases, now + lease, id)
local keys = {all, leases}
if owner ~= '' then
  local last = redis.call('ZREVRANGE', owned, 0, 0, 'WITHSCORES')
  redis.call('ZADD', owned, (last[2] or 0) + 1, id)
  keys[3] = owned
end
for _, key in ipairs(keys) do
  if redis.call('PTTL', key) < life then redis.call('PEXPIREAT', key, expires) end
end
return expires
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

    def _owned(self, owner: str) -> str:
        return self._server.key("tasks", "owner", digest(owner))

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """See `TaskStore`."""
        keys = [self._task(task.task_id), self._owned(task.owner), self._all, self._leases]
        values: list[Any] = [
            task.task_id,
            task.owner,
            repr(task.created_at),
            round((task.expires_at - task.created_at) * 1000),
            round(lease_s * 1000),
        ]
        values += [task.body, max_tasks, max_per_owner]
        added: int | bytes = await self._server.run(lambda client: client.eval(_ADD, len(keys), *keys, *values))
        if added == _EXISTS:
            raise ValueError(f"There is another task {task.task_id!r}")
        if isinstance(added, int):
            raise TooManyTasks(owner=added == _OWNER_IS_FULL)
        return replace(task, version=1, is_open=True, expires_at=int(added) / 1000)

    async def get(self, task_id: str) -> StoredTask | None:
        """See `TaskStore`."""
        found: Any = await self._server.run(
            lambda client: client.hmget(self._task(task_id), "owner", "version", "created", "expires", "open", "body")
        )
        if found[1] is None:
            return None
        owner, version, created, expires, is_open, body = found
        return StoredTask(
            task_id=task_id,
            owner=owner.decode(),
            version=int(version),
            created_at=float(created),
            expires_at=int(expires) / 1000,
            is_open=is_open == b"1",
            body=body,
        )

    async def replace(self, task: StoredTask, *, lease_s: float | None = None) -> StoredTask | None:
        """See `TaskStore`."""
        keys = [self._task(task.task_id), self._leases]
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
        """See `TaskStore`."""
        owned = self._owned(owner)
        start = 0
        if after is not None:
            rank: int | None = await self._server.run(lambda client: client.zrevrank(owned, after))
            if rank is None or await self.get(after) is None:
                raise KeyError(after)
            start = rank + 1
        tasks: list[StoredTask] = []
        while len(tasks) < limit:
            ids = await self._ids(owned, start, limit)
            if not ids:
                break
            start += len(ids)
            for task_id in ids:
                found = await self.get(task_id)
                if found is not None and len(tasks) < limit:
                    tasks.append(found)
        return tasks

    async def _ids(self, owned: str, start: int, limit: int) -> list[str]:
        found: list[bytes] = await self._server.run(lambda client: client.zrevrange(owned, start, start + limit - 1))
        return [task_id.decode() for task_id in found]

    async def claim(self, *, lease_s: float, limit: int) -> list[StoredTask]:
        """See `TaskStore`."""
        ids: list[bytes] = await self._server.run(
            lambda client: client.eval(_CLAIM, 2, self._leases, self._all, milliseconds(lease_s), limit)
        )
        tasks: list[StoredTask] = []
        for task_id in ids:
            found = await self.get(task_id.decode())
            if found is not None and found.is_open:  # not ended or expired in the meantime
                tasks.append(found)
        return tasks
