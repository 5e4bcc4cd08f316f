"""Stores in one SQLite file, for the processes of one machine.

The names of `ferrule.stores.sqlite.store` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.stores.sqlite.store import SqliteBlobs as SqliteBlobs
    from ferrule.stores.sqlite.store import SqliteCache as SqliteCache
    from ferrule.stores.sqlite.store import SqliteChannel as SqliteChannel
    from ferrule.stores.sqlite.store import SqliteEvents as SqliteEvents
    from ferrule.stores.sqlite.store import SqliteFile as SqliteFile
    from ferrule.stores.sqlite.store import SqliteMarks as SqliteMarks
    from ferrule.stores.sqlite.store import SqliteRateLimits as SqliteRateLimits
    from ferrule.stores.sqlite.store import SqliteSessions as SqliteSessions
    from ferrule.stores.sqlite.store import SqliteTasks as SqliteTasks
    from ferrule.stores.sqlite.store import open_sqlite as open_sqlite

__all__ = [
    "SqliteBlobs",
    "SqliteCache",
    "SqliteChannel",
    "SqliteEvents",
    "SqliteFile",
    "SqliteMarks",
    "SqliteRateLimits",
    "SqliteSessions",
    "SqliteTasks",
    "open_sqlite",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.store"), name)
