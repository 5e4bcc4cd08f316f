"""Legacy sessions in Redis, for all workers: records, events of their streams, and a channel.

All keys of a session have its id as their hash tag. The channel is publish and subscribe, which stores no messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ferrule.stores.channel import OnMessage
from ferrule.stores.events import Replay, StoredEvent
from ferrule.stores.redis.server import NOW, RedisServer, milliseconds

__all__ = ["RedisChannel", "RedisEvents", "RedisSessions"]

_RETRY_S: Final = 0.2
# A subscription without messages is checked by a ping after this time: a lost connection is not noticed otherwise.
_QUIET_S: Final = 30.0


class RedisSessions:
    """`ferrule.stores.sessions.SessionStore` in Redis; one round trip per call."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def _key(self, session_id: str) -> str:
        return self._server.key(f"session:{session_id}", "facts")

    async def put(self, session_id: str, value: bytes, *, idle_s: float) -> None:
        """Store a value and restart its idle time; see `SessionStore.put`."""
        await self._server.run(lambda client: client.set(self._key(session_id), value, px=milliseconds(idle_s)))

    async def get(self, session_id: str, *, idle_s: float) -> bytes | None:
        """Return a value and restart its idle time of ``idle_s`` seconds; see `SessionStore.get`."""
        found: bytes | None = await self._server.run(
            lambda client: client.getex(self._key(session_id), px=milliseconds(idle_s))
        )
        return found

    async def delete(self, session_id: str) -> None:
        """Delete a value; see `SessionStore.delete`."""
        await self._server.run(lambda client: client.delete(self._key(session_id)))


# ``log`` is the list of a stream's events, ``next`` a hash of the next number of each stream, and ``ages`` the streams
# by their expiry. The first number of a stream is the current time, or above the numbers of the session's other
# streams. So a stream that was deleted and continues gets new ids: an old id then finds nothing, instead of the wrong
# event.

_APPEND: Final = (
    NOW
    + """
local log, next, ages = KEYS[1], KEYS[2], KEYS[3]
local stream, data, most, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local streams = tonumber(ARGV[5])
for _, old in ipairs(redis.call('ZRANGEBYSCORE', ages, '-inf', now, 'LIMIT', 0, 16)) do
  redis.call('HDEL', next, old)
  redis.call('ZREM', ages, old)
end
if redis.call('HEXISTS', next, stream) == 0 then
  local start = now
  for _, other in ipairs(redis.call('HVALS', next)) do start = math.max(start, tonumber(other)) end
  redis.call('HSET', next, stream, string.format('%.0f', start))
end
local number = redis.call('HINCRBY', next, stream, 1) - 1
redis.call('RPUSH', log, data)
redis.call('LTRIM', log, -most, -1)
redis.call('ZADD', ages, now + ttl, stream)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ttl) end
local found = {number}
local extra = redis.call('ZCARD', ages) - streams
if extra > 0 then
  for _, old in ipairs(redis.call('ZRANGE', ages, 0, extra)) do
    if old ~= stream and #found <= extra then
      redis.call('HDEL', next, old)
      redis.call('ZREM', ages, old)
      found[#found + 1] = old
    end
  end
end
return found
"""
)

_TAIL: Final = """
local log, next = KEYS[1], KEYS[2]
local seen, following = tonumber(ARGV[2]), tonumber(redis.call('HGET', next, ARGV[1]) or 0)
local first = following - redis.call('LLEN', log)
if seen >= following or seen + 1 < first then return nil end
return redis.call('LRANGE', log, seen + 1 - first, -1)
"""


class RedisEvents:
    """`ferrule.stores.events.EventStore` in Redis.

    Args:
        server: the Redis server.
        max_stream_events: maximum number of events of a stream; the oldest are deleted first.
        max_session_streams: maximum number of streams of a session; the least recently written are deleted first.
        ttl_s: seconds after its last event until a stream is deleted.
    """

    def __init__(
        self,
        server: RedisServer,
        *,
        max_stream_events: int = 256,
        max_session_streams: int = 256,
        ttl_s: float = 1800.0,
    ) -> None:
        self._server = server
        self._most = max_stream_events
        self._most_streams = max_session_streams
        self._ttl_s = ttl_s

    def _log(self, session_id: str, stream_id: str) -> str:
        return self._server.key(f"session:{session_id}", "log", stream_id)

    def _streams(self, session_id: str) -> tuple[str, str]:
        tag = f"session:{session_id}"
        return self._server.key(tag, "next"), self._server.key(tag, "ages")

    async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
        """Store one event at the end of a stream and return its id; see `EventStore.append`."""
        keys = (self._log(session_id, stream_id), *self._streams(session_id))
        values: list[Any] = [stream_id, data, self._most, milliseconds(self._ttl_s), self._most_streams]
        number: int
        number, *dropped = await self._server.run(lambda client: client.eval(_APPEND, 3, *keys, *values))
        if dropped:
            # In a second command: a script may only touch keys that it was given, and these were not known before.
            logs = [self._log(session_id, name.decode()) for name in dropped]
            await self._server.run(lambda client: client.delete(*logs))
        return f"{stream_id}-{number}"

    async def replay(self, session_id: str, last_event_id: str) -> Replay | None:
        """Return the events after ``last_event_id`` on its stream; see `EventStore.replay`."""
        stream_id, _, number = last_event_id.rpartition("-")
        # Untrusted. Lua's numbers are exact up to 2^53, which has 16 digits.
        if not stream_id or not (number.isascii() and number.isdigit()) or len(number) > 15:
            return None
        keys, seen = (self._log(session_id, stream_id), self._streams(session_id)[0]), int(number)
        found: list[bytes] | None = await self._server.run(lambda client: client.eval(_TAIL, 2, *keys, stream_id, seen))
        if found is None:
            return None
        return Replay(stream_id, [StoredEvent(f"{stream_id}-{seen + 1 + i}", data) for i, data in enumerate(found)])

    async def forget(self, session_id: str) -> None:
        """Delete all events of a session that has ended; see `EventStore.forget`."""
        numbers, ages = self._streams(session_id)
        names: list[bytes] = await self._server.run(lambda client: client.hkeys(numbers))
        logs = [self._log(session_id, name.decode()) for name in names]
        await self._server.run(lambda client: client.delete(numbers, ages, *logs))


class RedisChannel:
    """`ferrule.stores.channel.Channel` over publish and subscribe."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._name = server.key("channel")

    async def send(self, message: bytes) -> None:
        """Send a message to all other processes, and to the subscribers of this one; see `Channel.send`."""
        await self._server.run(lambda client: client.publish(self._name, message))

    async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
        """Call ``on_message`` with each message, until cancelled; see `Channel.listen`."""
        while not _is_cancelled():
            try:
                await self._server.translated(lambda _: self._listen(on_message, on_ready))
            except (ConnectionError, TimeoutError):
                # Otherwise an unreachable server would make this loop use the whole processor.
                await asyncio.sleep(_RETRY_S)

    async def _listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None) -> None:
        # Subscribe messages are needed for `on_ready`, also after redis-py has reconnected by itself.
        pubsub = self._server.subscriber.pubsub(ignore_subscribe_messages=False)
        try:
            await pubsub.subscribe(self._name)
            is_pinged = False
            while not _is_cancelled():
                message: Any = await pubsub.get_message(timeout=_QUIET_S)
                if message is None:
                    if is_pinged:  # no reply to the ping in the same time: the connection is lost
                        raise TimeoutError("Redis does not answer")
                    is_pinged = True
                    await pubsub.ping()
                    continue
                is_pinged = False
                if message["type"] == "message":
                    on_message(message["data"])
                elif message["type"] == "subscribe" and on_ready is not None:
                    on_ready()
        finally:
            await pubsub.aclose()


def _is_cancelled() -> bool:
    """Return whether the current task was cancelled.

    redis-py may lose a cancellation while it opens a subscription again (seen in 8.1 on uvloop).
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
