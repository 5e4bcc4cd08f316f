"""Stores in PostgreSQL, for any number of processes and machines.

The names of `ferrule.stores.postgres.store` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.stores.postgres.store import PostgresBlobs as PostgresBlobs
    from ferrule.stores.postgres.store import PostgresCache as PostgresCache
    from ferrule.stores.postgres.store import PostgresChannel as PostgresChannel
    from ferrule.stores.postgres.store import PostgresEvents as PostgresEvents
    from ferrule.stores.postgres.store import PostgresMarks as PostgresMarks
    from ferrule.stores.postgres.store import PostgresRateLimits as PostgresRateLimits
    from ferrule.stores.postgres.store import PostgresServer as PostgresServer
    from ferrule.stores.postgres.store import PostgresSessions as PostgresSessions
    from ferrule.stores.postgres.store import PostgresTasks as PostgresTasks
    from ferrule.stores.postgres.store import open_postgres as open_postgres

__all__ = [
    "PostgresBlobs",
    "PostgresCache",
    "PostgresChannel",
    "PostgresEvents",
    "PostgresMarks",
    "PostgresRateLimits",
    "PostgresServer",
    "PostgresSessions",
    "PostgresTasks",
    "open_postgres",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.store"), name)
