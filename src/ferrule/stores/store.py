"""`Store`, which holds all parts of one store, and the choice of a store by its URL.

``memory:`` is in this process, ``sqlite:///jobs.db`` in a file that all processes of one machine share (three slashes
and a relative path, or four for an absolute one, as in other libraries), ``redis://host`` and
``postgresql://host/database`` on a server that any number of machines share. `register_scheme` adds a scheme; its
module is imported when the first URL of the scheme is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import field

from ferrule.stores.blobs import BlobStore, MemoryBlobs
from ferrule.stores.cache import CacheStore, MemoryCacheStore
from ferrule.stores.channel import Channel
from ferrule.stores.marks import MemoryMarks, OneTimeMarks
from ferrule.stores.rates import MemoryRateLimits, RateLimitStore
from ferrule.stores.sessions import SessionStore
from ferrule.stores.tasks import MemoryTasks, TaskStore
from ferrule.wire.faults import FerruleError
from ferrule.wire.struct import Value

if TYPE_CHECKING:
    from ferrule.stores.events import EventStore

__all__ = ["OpenStore", "Store", "StoreUrlError", "nothing_is_open", "open_store", "register_scheme"]


class StoreUrlError(FerruleError, ValueError):
    """A store's URL cannot be used (the operator's mistake)."""


async def nothing_is_open() -> None:
    """Close a store without connections: do nothing."""


# As for Redis and PostgreSQL: they may be started after the server.
def _nothing_to_check() -> None:
    """Check a store that may be unreachable when a server starts: do nothing."""


class Store(Value, frozen=True):
    """The parts of one store.

    Attributes:
        marks: one-time marks.
        blobs: small opaque values.
        tasks: records of tasks.
        channel: short messages to the other processes; ``None`` if there is none.
        sessions, events: legacy sessions and the events of their streams; ``None`` keeps them in each process.
        cache: cached results.
        rates: rate limits.
        is_shared: whether other processes use the same data.
        aclose: closes the connections of the running event loop; they are opened again on the next use. A server that
            made the store from a URL calls it at the end of its lifespan; otherwise the code that made the store does.
        check: raises `StoreUrlError` if the store cannot be used; called before a server starts.
    """

    marks: OneTimeMarks
    blobs: BlobStore
    is_shared: bool = False
    tasks: TaskStore = field(default_factory=MemoryTasks)
    channel: Channel | None = None
    sessions: SessionStore | None = None
    events: EventStore | None = None
    cache: CacheStore = field(default_factory=MemoryCacheStore)
    rates: RateLimitStore = field(default_factory=MemoryRateLimits)
    aclose: Callable[[], Awaitable[None]] = nothing_is_open
    check: Callable[[], None] = _nothing_to_check


OpenStore: TypeAlias = Callable[[str], Store]
"""``url -> Store``. It opens no file or connection: that happens on first use."""


def _open_memory(url: str) -> Store:
    return Store(MemoryMarks(), MemoryBlobs())


# By name where the module needs a library that may not be installed.
_schemes: dict[str, OpenStore | str] = {
    "memory": _open_memory,
    "sqlite": "ferrule.stores.sqlite.store:open_sqlite",
    "redis": "ferrule.stores.redis.store:open_redis",
    "rediss": "ferrule.stores.redis.store:open_redis",
    "redis+cluster": "ferrule.stores.redis.store:open_redis",
    "rediss+cluster": "ferrule.stores.redis.store:open_redis",
    "postgresql": "ferrule.stores.postgres.store:open_postgres",
    "postgres": "ferrule.stores.postgres.store:open_postgres",
}

# For the hint in the error: the name of the extra differs from that of the scheme.
_EXTRAS: Final = {
    "redis": "redis",
    "rediss": "redis",
    "redis+cluster": "redis",
    "rediss+cluster": "redis",
    "postgresql": "postgres",
    "postgres": "postgres",
}


def register_scheme(scheme: str, opens: OpenStore | str) -> None:
    """Register a function for URLs of a scheme; it replaces an earlier one.

    Args:
        scheme: the part of the URL before the colon.
        opens: the function, or ``"module:function"``, which is imported on first use.
    """
    _schemes[scheme] = opens


def open_store(url: str) -> Store:
    """Return the store that a URL names.

    Raises:
        StoreUrlError: the scheme is unknown, its module is not installed, or the rest of the URL is invalid.
    """
    # Without `urlsplit`: a path without a colon must not be taken for a scheme.
    scheme, colon, _ = url.partition(":")
    opens = _schemes.get(scheme) if colon else None
    if opens is None:
        from ferrule.stores.urls import without_password

        raise StoreUrlError(f"{without_password(url)!r} names no store; the schemes are {', '.join(sorted(_schemes))}")
    if isinstance(opens, str):
        module, _, name = opens.partition(":")
        try:
            # Imported only now: a server without Redis must not need its library.
            opens = _schemes[scheme] = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            raise _missing(scheme, error) from error
    try:
        return opens(url)
    except ModuleNotFoundError as error:
        raise _missing(scheme, error) from error


def _missing(scheme: str, error: ModuleNotFoundError) -> StoreUrlError:
    extra = _EXTRAS.get(scheme)
    hint = "" if extra is None else f": pip install 'ferrule[{extra}]'"
    return StoreUrlError(f"A {scheme}: store needs the module {error.name!r}, which is not installed{hint}")
