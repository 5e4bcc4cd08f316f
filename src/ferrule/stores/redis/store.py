"""The store in Redis (6.2 on) or Valkey, for any number of processes.

``redis://host:6379/0?prefix=name``; ``rediss://`` for TLS; ``redis+cluster://`` and ``rediss+cluster://`` for a Redis
Cluster. All keys begin with the prefix and have an expiry, so that no data remains when no process uses it. Keys that
change together have the same hash tag, which puts them into one slot of a cluster. Where two processes could write at
the same time, a script does the change, which Redis runs atomically.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlunsplit

from ferrule.stores.marks import Mark
from ferrule.stores.redis.server import DEFAULT_PREFIX, RedisServer, digest, milliseconds
from ferrule.stores.redis.sessions import RedisChannel, RedisEvents, RedisSessions
from ferrule.stores.redis.tasks import RedisTasks
from ferrule.stores.store import Store, StoreUrlError
from ferrule.stores.urls import split_url, without_password

__all__ = [
    "RedisBlobs",
    "RedisCache",
    "RedisChannel",
    "RedisEvents",
    "RedisMarks",
    "RedisRateLimits",
    "RedisServer",
    "RedisSessions",
    "RedisTasks",
    "open_redis",
]

_RUNNING: Final = "r"
_DONE: Final = b"d"

# A running mark contains a token of the call that made it: if the reply of the script is lost and the script runs
# again, it returns the same result.

_BEGIN: Final = """
local found = redis.call('GET', KEYS[1])
if not found then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
if found == ARGV[1] then return nil end
return found
"""


class RedisMarks:
    """`ferrule.stores.marks.OneTimeMarks` in Redis."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim a key and return its state; see `OneTimeMarks.begin`."""
        name = self._server.key(f"mark:{key}")
        values: list[Any] = [_RUNNING + secrets.token_hex(8), milliseconds(ttl_s)]
        found: bytes | None = await self._server.run(lambda client: client.eval(_BEGIN, 1, name, *values))
        if found is None:
            return Mark("mine")
        return Mark("done", found[1:]) if found[:1] == _DONE else Mark("running")

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``; a later outcome replaces it; see `OneTimeMarks.finish`."""
        name = self._server.key(f"mark:{key}")
        await self._server.run(lambda client: client.set(name, _DONE + value, px=milliseconds(ttl_s)))


class RedisBlobs:
    """`ferrule.stores.blobs.BlobStore` in Redis."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value, in place of an older one; see `BlobStore.put`."""
        name = self._server.key(f"blob:{key}")
        if ttl_s <= 0:
            await self._server.run(lambda client: client.delete(name))
            return
        await self._server.run(lambda client: client.set(name, value, px=milliseconds(ttl_s)))

    async def get(self, key: str) -> bytes | None:
        """Return the value; see `BlobStore.get`."""
        found: bytes | None = await self._server.run(lambda client: client.get(self._server.key(f"blob:{key}")))
        return found


# A group has a random generation (`era`), with which its entries begin. Dropping the group deletes the generation: its
# entries no longer match, and are deleted at their own expiry. The generation expires after all entries.

_ERA_BYTES: Final = 16

_PUT: Final = """
local entry, era = KEYS[1], KEYS[2]
local value, ttl = ARGV[2], tonumber(ARGV[3])
local word = redis.call('GET', era) or ARGV[1]
if redis.call('PTTL', era) < ttl then redis.call('SET', era, word, 'PX', ttl) end
redis.call('SET', entry, word .. value, 'PX', ttl)
"""


class RedisCache:
    """`ferrule.stores.cache.CacheStore` in Redis; eviction is configured in Redis (``maxmemory-policy``)."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def _keys(self, group: str, key: str) -> tuple[str, str]:
        tag = f"cache:{digest(group)}"
        return self._server.key(tag, "entry", digest(key)), self._server.key(tag, "era")

    async def get(self, group: str, key: str) -> bytes | None:
        """Return a value; see `CacheStore.get`."""
        keys = self._keys(group, key)
        found: list[bytes | None] = await self._server.run(lambda client: client.mget(keys))
        entry, era = found
        if entry is None or era is None or entry[:_ERA_BYTES] != era:
            return None
        return entry[_ERA_BYTES:]

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value for at most ``ttl_s`` seconds; see `CacheStore.put`."""
        if ttl_s <= 0:
            entry = self._keys(group, key)[0]
            await self._server.run(lambda client: client.delete(entry))
            return
        values: list[Any] = [secrets.token_hex(_ERA_BYTES // 2), value, milliseconds(ttl_s)]
        await self._server.run(lambda client: client.eval(_PUT, 2, *self._keys(group, key), *values))

    async def drop(self, group: str) -> None:
        """Delete all values of a group; see `CacheStore.drop`."""
        era = self._keys(group, "")[1]
        await self._server.run(lambda client: client.delete(era))


# All in microseconds; `ferrule.stores.rates.next_full_at` is the same in Python. Times are formatted with `%.2f`, as
# exact as numbers of this size are: Lua's default format loses digits. A reply is an integer, here of 2^53 at most.

_TAKE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local size, per, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = tonumber(redis.call('GET', KEYS[1]) or now)
if full > now + per then
  full = now + per
  redis.call('SET', KEYS[1], string.format('%.2f', full), 'PX', math.ceil(per / 1000) + 1)
end
local taken = math.max(full, now) + tokens * per / size
if ARGV[4] == '1' then taken = math.min(taken, now + per) end
local wait = taken - now - per
if wait > 1 then return math.min(math.ceil(wait), 2^53) end
if taken <= now then return 0 end
redis.call('SET', KEYS[1], string.format('%.2f', taken), 'PX', math.ceil((taken - now) / 1000) + 1)
return 0
"""


class RedisRateLimits:
    """`ferrule.stores.rates.RateLimitStore` in Redis, which measures time with its own clock."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one token from a bucket; see `RateLimitStore.take`."""
        return await self.spend(key, size=size, per_s=per_s, tokens=1)

    async def spend(self, key: str, *, size: int, per_s: float, tokens: int, anyway: bool = False) -> float:
        """Take several tokens from a bucket; see `SpendsTokens.spend`."""
        name = self._server.key(f"rate:{digest(key)}")
        values: list[Any] = [size, round(per_s * 1e6), tokens, int(anyway)]
        wait_us: int = await self._server.run(lambda client: client.eval(_TAKE, 1, name, *values))
        return wait_us / 1e6


def open_redis(url: str) -> Store:
    """Return the store that ``redis://…``, ``rediss://…`` or the same with ``+cluster`` names; connects on first use.

    Raises:
        StoreUrlError: the URL has no host, an invalid port, database, prefix or option, or for a cluster a database
            other than 0.
        ModuleNotFoundError: redis-py is not installed (``pip install 'ferrule[redis]'``).
    """
    library: Any = import_module("redis.asyncio.connection")  # if it is missing, that raises now, not in a request
    parts = split_url(url)
    options = {} if parts is None else dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", DEFAULT_PREFIX)
    # redis-py takes a database that is no number for 0. `{}` would change the hash tag, `:` the parts of a key, and `*`
    # a pattern.
    if (
        parts is None
        or not parts.hostname
        or not re.fullmatch(r"/?[0-9]*/?", parts.path)
        or not prefix
        or any(character in prefix for character in "{}:* ")
    ):
        raise StoreUrlError(f"{without_password(url)!r} is not redis://host:port/database?prefix=name")
    scheme, _, kind = parts.scheme.partition("+")
    if kind and parts.path.strip("/") not in ("", "0"):
        raise StoreUrlError(f"{without_password(url)!r} names a database, but a Redis Cluster has only database 0")
    plain = urlunsplit(parts._replace(scheme=scheme, query=urlencode(options)))
    try:
        library.parse_url(plain)
        _check_options(library, plain, options, in_cluster=bool(kind))
    except ValueError as error:
        raise StoreUrlError(f"{without_password(url)!r}: {error}") from None
    server = RedisServer(plain, prefix=prefix, cluster=bool(kind))
    return Store(
        RedisMarks(server),
        RedisBlobs(server),
        is_shared=True,
        tasks=RedisTasks(server),
        channel=RedisChannel(server),
        sessions=RedisSessions(server),
        events=RedisEvents(server),
        cache=RedisCache(server),
        rates=RedisRateLimits(server),
        aclose=server.aclose,
    )


def _check_options(library: Any, url: str, options: Mapping[str, str], *, in_cluster: bool) -> None:
    """Check the options of a URL, which redis-py passes on as arguments at the first command only.

    Args:
        library: ``redis.asyncio.connection``.
        url: the URL as redis-py reads it.
        options: its options.
        in_cluster: whether the client of a cluster gets them as well.

    Raises:
        ValueError: an option is unknown, or redis-py refuses its value.
    """
    bare = url.partition("?")[0]
    for name, value in options.items():
        try:
            library.ConnectionPool.from_url(f"{bare}?{urlencode({name: value})}").make_connection()
            if in_cluster:
                signature(import_module("redis.asyncio").RedisCluster).bind_partial(**{name: value})
        except Exception:  # redis-py has several, whose texts quote values
            raise ValueError(f"the option {name!r} is unknown here, or has an invalid value") from None
