"""Stores in Redis or Valkey, for any number of processes and machines.

The names of `ferrule.stores.redis.store` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.stores.redis.store import RedisBlobs as RedisBlobs
    from ferrule.stores.redis.store import RedisCache as RedisCache
    from ferrule.stores.redis.store import RedisChannel as RedisChannel
    from ferrule.stores.redis.store import RedisEvents as RedisEvents
    from ferrule.stores.redis.store import RedisMarks as RedisMarks
    from ferrule.stores.redis.store import RedisRateLimits as RedisRateLimits
    from ferrule.stores.redis.store import RedisServer as RedisServer
    from ferrule.stores.redis.store import RedisSessions as RedisSessions
    from ferrule.stores.redis.store import RedisTasks as RedisTasks
    from ferrule.stores.redis.store import open_redis as open_redis

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


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.store"), name)
