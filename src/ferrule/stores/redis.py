"""Everything that several processes share, in Redis (6.2 on) or Valkey: marks, blobs, task records, and a channel.

``redis://host:6379/0?prefix=name``; ``rediss://`` for TLS. All keys begin with the prefix and end with an expiry, so
that nothing is left when everybody has gone. Keys that change together carry one hash tag and live in one slot of a
cluster; where two writers could meet a script decides, which Redis runs alone. Leases are counted by the clock of
Redis, so that workers whose clocks differ agree.

A connection belongs to one event loop of one process: it is opened on first use, and anew on another loop or after a
fork. What redis-py raises becomes `ConnectionError` or `TimeoutError`, which callers know.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec.structs import replace

from ferrule.stores.channel import OnMessage
from ferrule.stores.events import Replay, StoredEvent
from ferrule.stores.marks import Mark
from ferrule.stores.store import Store, StoreUrlError
from ferrule.stores.tasks import StoredTask, TooManyTasks

__all__ = [
    "RedisBlobs",
    "RedisChannel",
    "RedisEvents",
    "RedisMarks",
    "RedisServer",
    "RedisSessions",
    "RedisTasks",
    "open_redis",
]

T = TypeVar("T")

_DEFAULT_PREFIX: Final = "ferrule"
_RUNNING: Final = b"r"
_DONE: Final = b"d"
_RETRY_S: Final = 0.2


class RedisServer:
    """One address, and the connections to it.

    Args:
        url: without our own options.
        prefix: of every key.
        timeout_s: seconds that one command may take.
    """

    def __init__(self, url: str, *, prefix: str = _DEFAULT_PREFIX, timeout_s: float = 5.0) -> None:
        self.url = url
        self.prefix = prefix
        self._timeout_s = timeout_s
        self._client: Any = None
        self._home: tuple[int, Any] | None = None

    def key(self, *parts: str) -> str:
        """A key; the first part is its hash tag."""
        return f"{self.prefix}:{{{parts[0]}}}" + "".join(f":{part}" for part in parts[1:])

    @property
    def client(self) -> Any:
        """The client of the running loop."""
        home = (os.getpid(), asyncio.get_running_loop())
        if self._home != home:
            redis: Any = import_module("redis.asyncio")
            self._client = redis.Redis.from_url(
                self.url,
                socket_timeout=self._timeout_s,
                socket_connect_timeout=self._timeout_s,
                health_check_interval=30,
            )
            self._home = home
        return self._client

    async def run(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """``await call(client)``, with the errors of the connection under their common names.

        Raises:
            ConnectionError, TimeoutError: Redis cannot be reached.
        """
        from redis import exceptions

        try:
            return await call(self.client)
        except exceptions.TimeoutError as error:
            raise TimeoutError(f"Redis does not answer: {error}") from error
        except (exceptions.ConnectionError, exceptions.BusyLoadingError, exceptions.ReadOnlyError) as error:
            raise ConnectionError(f"Redis cannot be reached: {error}") from error

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        if self._home == (os.getpid(), asyncio.get_running_loop()):
            client, self._client, self._home = self._client, None, None
            await client.aclose()


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


_BEGIN: Final = """
local found = redis.call('GET', KEYS[1])
if not found then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return found
"""


class RedisMarks:
    """`ferrule.stores.marks.OneTimeMarks` in Redis."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """See `OneTimeMarks`."""
        name = self._server.key(f"mark:{key}")
        found: bytes | None = await self._server.run(lambda client: client.eval(_BEGIN, 1, name, _RUNNING, _ms(ttl_s)))
        if found is None:
            return Mark("mine")
        return Mark("done", found[1:]) if found[:1] == _DONE else Mark("running")

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `OneTimeMarks`."""
        name = self._server.key(f"mark:{key}")
        await self._server.run(lambda client: client.set(name, _DONE + value, px=_ms(ttl_s)))


class RedisBlobs:
    """`ferrule.stores.blobs.BlobStore` in Redis."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `BlobStore`."""
        await self._server.run(lambda client: client.set(self._server.key(f"blob:{key}"), value, px=_ms(ttl_s)))

    async def get(self, key: str) -> bytes | None:
        """See `BlobStore`."""
        found: bytes | None = await self._server.run(lambda client: client.get(self._server.key(f"blob:{key}")))
        return found


# Scripts get the names of all keys that they touch, so that a cluster can route them. ``all`` and ``leases`` are
# sorted sets of task ids, by expiry and by the end of the lease, both in milliseconds.

_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_ADD: Final = (
    _NOW
    + """
local task, owned, all, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, owner, created, expires, lease, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
if redis.call('ZCARD', all) >= tonumber(ARGV[7]) then return 1 end
if owner ~= '' then
  for _, old in ipairs(redis.call('ZRANGE', owned, 0, -1)) do
    if not redis.call('ZSCORE', all, old) then redis.call('ZREM', owned, old) end
  end
  if redis.call('ZCARD', owned) >= tonumber(ARGV[8]) then return 2 end
end
redis.call('HSET', task, 'owner', owner, 'version', 1, 'created', created, 'expires', expires, 'open', 1, 'body', body)
redis.call('PEXPIREAT', task, expires)
redis.call('ZADD', all, expires, id)
redis.call('ZADD', leases, now + lease, id)
local keys = {all, leases}
if owner ~= '' then
  local last = redis.call('ZREVRANGE', owned, 0, 0, 'WITHSCORES')
  redis.call('ZADD', owned, (last[2] or 0) + 1, id)
  keys[3] = owned
end
for _, key in ipairs(keys) do
  if redis.call('PTTL', key) < expires - now then redis.call('PEXPIREAT', key, expires) end
end
return 0
"""
)

_REPLACE: Final = (
    _NOW
    + """
local task, leases = KEYS[1], KEYS[2]
local id, version, open, lease, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('HGET', task, 'version') ~= version then return 0 end
redis.call('HSET', task, 'version', version + 1, 'open', open, 'body', body)
if open == '0' then redis.call('ZREM', leases, id)
elseif lease ~= '' then redis.call('ZADD', leases, 'XX', now + lease, id) end
return 1
"""
)

_CLAIM: Final = (
    _NOW
    + """
local leases = KEYS[1]
local ids = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do redis.call('ZADD', leases, 'XX', now + ARGV[1], id) end
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
        return self._server.key("tasks", "owner", hashlib.sha256(owner.encode()).hexdigest()[:32])

    async def add(self, task: StoredTask, *, lease_s: float, max_tasks: int, max_per_owner: int) -> StoredTask:
        """See `TaskStore`."""
        keys = [self._task(task.task_id), self._owned(task.owner), self._all, self._leases]
        values: list[Any] = [task.task_id, task.owner, repr(task.created_at), _ms(task.expires_at), _ms(lease_s)]
        values += [task.body, max_tasks, max_per_owner]
        refused: int = await self._server.run(lambda client: client.eval(_ADD, len(keys), *keys, *values))
        if refused:
            raise TooManyTasks(owner=refused == 2)
        return replace(task, version=1)

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
        """See `TaskStore`; the expiry stays that of the creation."""
        keys = [self._task(task.task_id), self._leases]
        lease = "" if lease_s is None else str(round(lease_s * 1000))
        values: list[Any] = [task.task_id, task.version, int(task.is_open), lease, task.body]
        changed: int = await self._server.run(lambda client: client.eval(_REPLACE, len(keys), *keys, *values))
        return replace(task, version=task.version + 1) if changed else None

    async def page(self, owner: str, after: str | None, limit: int) -> list[StoredTask]:
        """See `TaskStore`."""
        owned = self._owned(owner)
        start = 0
        if after is not None:
            rank: int | None = await self._server.run(lambda client: client.zrevrank(owned, after))
            if rank is None:
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
            lambda client: client.eval(_CLAIM, 1, self._leases, _ms(lease_s), limit)
        )
        tasks: list[StoredTask] = []
        for task_id in ids:
            found = await self.get(task_id.decode())
            if found is not None and found.is_open:
                tasks.append(found)
            else:
                await self._forget(task_id)
        return tasks

    async def _forget(self, task_id: bytes) -> None:
        await self._server.run(lambda client: client.zrem(self._leases, task_id))


class RedisSessions:
    """`ferrule.stores.sessions.SessionStore` in Redis; one round trip per call."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def _key(self, session_id: str) -> str:
        return self._server.key(f"session:{session_id}", "facts")

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """See `SessionStore`."""
        await self._server.run(lambda client: client.set(self._key(session_id), value, px=_ms(idle_s)))

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """See `SessionStore`."""
        found: bytes | None = await self._server.run(lambda client: client.getex(self._key(session_id), px=_ms(idle_s)))
        return found

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        await self._server.run(lambda client: client.delete(self._key(session_id)))


# ``log`` is a list, ``facts`` a hash with the number of each stream's next and first kept event.

_APPEND: Final = """
local log, facts = KEYS[1], KEYS[2]
local stream, data, most, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local number = redis.call('HINCRBY', facts, stream .. '/next', 1) - 1
redis.call('RPUSH', log, data)
while redis.call('LLEN', log) > most do
  redis.call('LPOP', log)
  redis.call('HINCRBY', facts, stream .. '/first', 1)
end
redis.call('PEXPIRE', log, ttl)
redis.call('PEXPIRE', facts, ttl)
return number
"""

_TAIL: Final = """
local log, facts = KEYS[1], KEYS[2]
local stream, seen = ARGV[1], tonumber(ARGV[2])
local next = tonumber(redis.call('HGET', facts, stream .. '/next') or 0)
local first = tonumber(redis.call('HGET', facts, stream .. '/first') or 0)
if seen >= next or seen + 1 < first then return nil end
return redis.call('LRANGE', log, seen + 1 - first, -1)
"""


class RedisEvents:
    """`ferrule.stores.events.EventStore` in Redis.

    Args:
        server: where.
        max_stream_events: events kept per stream; the oldest go first.
        ttl_s: seconds after a stream's last event that it is forgotten.
    """

    def __init__(self, server: RedisServer, *, max_stream_events: int = 256, ttl_s: float = 1800.0) -> None:
        self._server = server
        self._most = max_stream_events
        self._ttl_s = ttl_s

    def _keys(self, session_id: str, stream_id: str) -> tuple[str, str]:
        tag = f"session:{session_id}"
        return self._server.key(tag, "log", stream_id), self._server.key(tag, "streams")

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """See `EventStore`."""
        keys = self._keys(session_id, stream_id)
        values: list[Any] = [stream_id, data, self._most, _ms(self._ttl_s)]
        number: int = await self._server.run(lambda client: client.eval(_APPEND, 2, *keys, *values))
        return f"{stream_id}-{number}"

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """See `EventStore`."""
        stream_id, _, number = last_event_id.rpartition("-")
        if not stream_id or not (number.isascii() and number.isdigit()) or len(number) > 15:
            return None
        keys, seen = self._keys(session_id, stream_id), int(number)
        found: list[bytes] | None = await self._server.run(lambda client: client.eval(_TAIL, 2, *keys, stream_id, seen))
        if found is None:
            return None
        return Replay(stream_id, [StoredEvent(f"{stream_id}-{seen + 1 + i}", data) for i, data in enumerate(found)])

    async def forget(self, session_id: str) -> None:
        """See `EventStore`."""
        facts = self._keys(session_id, "")[1]
        names: list[bytes] = await self._server.run(lambda client: client.hkeys(facts))
        streams = {name.decode().rpartition("/")[0] for name in names}
        logs = [self._keys(session_id, stream_id)[0] for stream_id in streams]
        await self._server.run(lambda client: client.delete(facts, *logs))


class RedisChannel:
    """`ferrule.stores.channel.Channel` over publish and subscribe."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._name = server.key("channel")

    async def send(self, message: bytes) -> None:
        """See `Channel`."""
        await self._server.run(lambda client: client.publish(self._name, message))

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """See `Channel`."""
        while True:
            try:
                await self._server.run(lambda client: self._listen(client, on_message, on_ready))
            except (ConnectionError, TimeoutError):
                await asyncio.sleep(_RETRY_S)

    async def _listen(self, client: Any, on_message: OnMessage, on_ready: Callable[[], None] | None) -> None:
        pubsub = client.pubsub(ignore_subscribe_messages=False)
        try:
            await pubsub.subscribe(self._name)
            while True:
                message: Any = await pubsub.get_message(timeout=30.0)
                if message is None:
                    await pubsub.ping()
                elif message["type"] == "message":
                    on_message(message["data"])
                elif message["type"] == "subscribe" and on_ready is not None:
                    on_ready()
        finally:
            await pubsub.aclose()


def open_redis(url: str) -> Store:
    """The store that ``redis://…`` or ``rediss://…`` names; connects on first use.

    Raises:
        StoreUrlError: no host, or an unusable prefix.
        ModuleNotFoundError: redis-py is not installed (``pip install 'ferrule[redis]'``).
    """
    import_module("redis.asyncio")  # what is missing is said now, and not at the first request
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", _DEFAULT_PREFIX)
    if not parts.hostname or not prefix or any(character in prefix for character in "{}:* "):
        raise StoreUrlError(f"{url!r} is not redis://host:port/database?prefix=name")
    server = RedisServer(urlunsplit(parts._replace(query=urlencode(options))), prefix=prefix)
    return Store(
        RedisMarks(server),
        RedisBlobs(server),
        is_shared=True,
        tasks=RedisTasks(server),
        channel=RedisChannel(server),
        sessions=RedisSessions(server),
        events=RedisEvents(server),
    )
