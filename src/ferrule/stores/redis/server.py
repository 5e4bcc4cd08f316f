"""The connections to one Redis or Valkey, and the handling of its failures.

A connection belongs to one event loop of one process: it is opened on first use, and again on another loop or after a
fork. The exceptions of redis-py become `ConnectionError` or `TimeoutError`.

Each call has ``timeout_s`` seconds in all. A broken connection is opened again within ``patience_s`` seconds, so that a
restart of Redis is not noticed. If that fails, or there is no reply, further calls try once, for a second at most,
until one succeeds: not each of many requests must wait for a server that is known to be unreachable. Scripts must
therefore give the same result if they run twice: the reply to the first run may be lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final, TypeVar

from ferrule.stores.errors import StoreNotWritable

__all__ = ["DEFAULT_PREFIX", "NOW", "RedisServer", "digest", "milliseconds"]

T = TypeVar("T")

DEFAULT_PREFIX: Final = "ferrule"
_RETRY_S: Final = 0.05
_PROBE_S: Final = 1.0
# For each process: a server with many workers must not use up the 10,000 clients that Redis accepts by default.
_MAX_CONNECTIONS: Final = 64

# Error codes of Redis: no memory left, no disk for a snapshot, fewer replicas than required.
_NOT_WRITABLE: Final = ("OOM ", "MISCONF ", "NOREPLICAS ")

NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
"""The first lines of a script that needs the time: ``now`` in milliseconds since the epoch, by the clock of Redis."""


def milliseconds(seconds: float) -> int:
    """Return seconds as milliseconds, at least 1."""
    # Redis refuses an expiry of 0.
    return max(1, round(seconds * 1000))


def digest(text: str) -> str:
    """Return 32 hexadecimal digits for a text that is long or private, for use in a key."""
    # "surrogatepass": owners and keys may contain lone surrogates, which strict UTF-8 refuses.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


class _Refuses(StoreNotWritable, ConnectionError):
    """Redis refuses to write; also a `ConnectionError`, since callers of Redis handle that."""


class _IsReplica(_Refuses):
    """The server is a replica and read-only until a fail-over makes it, or another one, the primary."""


class RedisServer:
    """One address, and the connections to it.

    Args:
        url: the URL of Redis, without options of Ferrule.
        prefix: the prefix of all keys.
        cluster: whether the address is that of a node of a Redis Cluster.
        timeout_s: maximum duration of one call in seconds.
        patience_s: seconds, within ``timeout_s``, in which a broken connection is opened again.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = DEFAULT_PREFIX,
        cluster: bool = False,
        timeout_s: float = 5.0,
        patience_s: float = 2.0,
    ) -> None:
        self.url = url
        self.prefix = prefix
        self._is_cluster = cluster
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._is_away = False
        self._clients: tuple[Any, Any] | None = None
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._looks_up = asyncio.Lock()
        self._owner: tuple[int, Any] | None = None

    def key(self, *parts: str) -> str:
        """Return a key; the first part is its hash tag, so that keys which share it share a slot of a cluster."""
        return f"{self.prefix}:{{{parts[0]}}}" + "".join(f":{part}" for part in parts[1:])

    @property
    def client(self) -> Any:
        """The client of the running loop, for commands."""
        return self._both()[0]

    @property
    def subscriber(self) -> Any:
        """The client of the running loop, for subscriptions: each node of a cluster receives all messages."""
        return self._both()[1]

    def _both(self) -> tuple[Any, Any]:
        # A socket must not be used by two processes, nor by two event loops.
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._clients is None or self._owner != owner:
            self._owner = owner
            self._free, self._looks_up = asyncio.Semaphore(_MAX_CONNECTIONS), asyncio.Lock()
            self._clients = self._connect()
        return self._clients

    def _connect(self) -> tuple[Any, Any]:
        redis: Any = import_module("redis.asyncio")
        retries: Any = import_module("redis.asyncio.retry").Retry
        at_once: Any = import_module("redis.backoff").NoBackoff()
        options = {"socket_timeout": self._timeout_s, "socket_connect_timeout": self._timeout_s}
        # `run` retries: retries of redis-py would add its timeouts up to half a minute. In a cluster redis-py must
        # retry after a slot has moved.
        # 30 seconds: firewalls close idle connections without notice; a ping finds that before a command does.
        single = redis.Redis.from_url(self.url, health_check_interval=30, retry=retries(at_once, 0), **options)
        if not self._is_cluster:
            return single, single
        return redis.RedisCluster.from_url(self.url, retry=retries(at_once, 3), **options), single

    async def run(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return the result of ``await call(client)`` within the time limits; retry after a broken connection.

        Raises:
            ConnectionError, TimeoutError: Redis cannot be reached.
            StoreNotWritable: Redis has no memory left, cannot write to its disk, or stays a replica.
        """
        clock = asyncio.get_running_loop().time
        self._both()  # imports redis-py at the first call, whose time must not count
        # One attempt only while Redis is known to be unreachable: see the module.
        retry_until = clock() if self._is_away else clock() + self._patience_s
        timeout_s = min(self._timeout_s, _PROBE_S) if self._is_away else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                while True:
                    try:
                        result = await self.translated(call)
                    except ConnectionError as error:
                        is_answer = isinstance(error, _Refuses) and not isinstance(error, _IsReplica)
                        if is_answer or clock() >= retry_until:
                            raise
                        await asyncio.sleep(_RETRY_S)
                    else:
                        self._is_away = False
                        return result
        except ConnectionError as error:
            self._is_away = not isinstance(error, _Refuses) or isinstance(error, _IsReplica)
            raise
        except TimeoutError as error:
            self._is_away = True
            raise TimeoutError(f"Redis does not answer within {timeout_s:g} s") from error

    async def translated(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return the result of ``await call(client)``, without retries and time limit; convert redis-py's errors.

        Raises:
            ConnectionError, TimeoutError: Redis cannot be reached.
            StoreNotWritable: Redis refuses to write.
        """
        from redis import exceptions

        try:
            if self._is_cluster:
                await self._know_the_nodes()
            return await call(self.client)
        except exceptions.TimeoutError as error:
            raise TimeoutError(f"Redis does not answer: {error}") from error
        except _away(exceptions) as error:
            raise ConnectionError(f"Redis cannot be reached: {error}") from error
        except exceptions.ResponseError as error:
            # By the code in the text: if it comes from inside a script, it is not at the beginning.
            if isinstance(error, exceptions.ReadOnlyError) or "READONLY" in str(error):
                await self.aclose()  # a replica now: a new connection may reach the new primary
                raise _IsReplica(f"Redis cannot be written to: {error}") from error
            if isinstance(error, exceptions.OutOfMemoryError) or any(code in str(error) for code in _NOT_WRITABLE):
                raise _Refuses(f"Redis cannot be written to: {error}") from error
            raise
        except RuntimeError as error:
            # uvloop says so when a connection is closed between two steps of redis-py; asyncio raises an OSError.
            if type(error) is not RuntimeError or "closed" not in str(error):
                raise
            raise ConnectionError(f"Redis cannot be reached: {error}") from error
        except AttributeError as error:
            if not self._is_cluster or error.obj is not None:
                raise
            # While redis-py loads the nodes of a cluster again, it closes connections that other tasks are opening
            # (seen in 8.1).
            raise ConnectionError(f"A connection was closed while it was in use: {error}") from error

    async def _know_the_nodes(self) -> None:
        """Load the nodes of a cluster, in one task at a time: redis-py breaks connections if several tasks do it."""
        async with self._looks_up:
            await self._both()[0].initialize()

    @property
    def _slots(self) -> asyncio.Semaphore:
        self._both()
        return self._free

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        if self._clients is not None and self._owner == (os.getpid(), asyncio.get_running_loop()):
            # Taken first: a call that arrives while this closes must open new connections.
            clients, self._clients, self._owner = self._clients, None, None
            # Both are the same object unless it is a cluster.
            for client in dict.fromkeys(clients):
                await client.aclose()


def _away(exceptions: Any) -> tuple[type[Exception], ...]:
    """Return the exceptions after which a later call may succeed; others are errors of the commands themselves."""
    names = (
        "ConnectionError",
        "BusyLoadingError",
        "TryAgainError",
        "ClusterDownError",
        "MasterDownError",
        "RedisClusterException",
    )
    return tuple(getattr(exceptions, name) for name in names)
