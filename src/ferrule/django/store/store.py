"""`django_store`: all parts of a store in one database of the project."""

from __future__ import annotations

from django.db import connections

from ferrule.django.store.channel import DjangoChannel
from ferrule.django.store.database import VENDORS, Database
from ferrule.django.store.events import DjangoEvents
from ferrule.django.store.tasks import DjangoTasks
from ferrule.django.store.values import DjangoBlobs, DjangoCache, DjangoMarks, DjangoRateLimits, DjangoSessions
from ferrule.stores.store import Store, StoreUrlError

__all__ = ["clean", "django_store", "open_django"]


def django_store(using: str = "default", *, poll_s: float = 0.25, max_cache_bytes: int = 256 << 20) -> Store:
    """Return a store in a database of the project, for all its processes; nothing is opened before it is used.

    Args:
        using: the alias of the database in ``DATABASES``.
        poll_s: seconds between two looks for messages of other processes.
        max_cache_bytes: maximum size of cached results.

    Raises:
        StoreUrlError: there is no such database, or its kind is neither PostgreSQL nor SQLite.
    """
    if using not in connections.settings:
        raise StoreUrlError(f"There is no database {using!r} in DATABASES")
    vendor = connections[using].vendor
    if vendor not in VENDORS:
        raise StoreUrlError(
            f"The database {using!r} is {vendor}; Ferrule's store needs PostgreSQL or SQLite. "
            "Choose another one with MCP['STORE'], such as 'redis://localhost:6379/0'"
        )
    database = Database(using, max_cache_bytes=max_cache_bytes)
    return Store(
        DjangoMarks(database),
        DjangoBlobs(database),
        is_shared=True,
        tasks=DjangoTasks(database),
        channel=DjangoChannel(database, poll_s=poll_s),
        sessions=DjangoSessions(database),
        events=DjangoEvents(database),
        cache=DjangoCache(database),
        rates=DjangoRateLimits(database),
    )


def open_django(url: str) -> Store:
    """Return the store of the setting ``MCP["STORE"]``: ``"django"``, or ``"django:alias"`` for another database.

    Raises:
        StoreUrlError: there is no such database, or it cannot hold a store.
    """
    return django_store(url.partition(":")[2] or "default")


def clean(using: str = "default", *, batch: int = 500) -> int:
    """Delete all expired rows of a store in batches, in this thread, and return the number of batches.

    Servers do that too, one batch a minute; this is for a table that has grown while none ran.

    Args:
        using: the alias of the database.
        batch: maximum number of rows of a table that one transaction deletes.

    Raises:
        StoreNotMigrated: the tables are missing.
        OSError: the database cannot be used.
    """
    database = Database(using)
    batches = 1
    while database.call(lambda now: database.sweep(now, batch=batch)):
        batches += 1
    return batches
