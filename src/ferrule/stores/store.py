"""Choosing a store by its URL, and what one store offers.

``memory:`` lives in this process, ``sqlite:///jobs.db`` in a file that all processes of one machine share (three
slashes and a relative path, four and an absolute one, as other libraries have it), ``redis://host`` on a server that
any number of machines share. More schemes are one line in
`register_scheme`; a module named there is imported when the first URL of its scheme is opened.
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

__all__ = ["OpenStore", "Store", "StoreUrlError", "open_store", "register_scheme"]


class StoreUrlError(FerruleError, ValueError):
    """A store's URL cannot be used (the operator's mistake)."""


async def _nothing_is_open() -> None:
    """What a store without connections has to do to close."""


def _nothing_to_check() -> None:
    """What a store that may be away for a while has to look at before a server starts."""


class Store(Value, frozen=True):
    """Everything that is kept in one place.

    Attributes:
        marks: one-time marks.
        blobs: small opaque values.
        tasks: records of tasks.
        channel: short messages to the other processes; ``None`` where there is none.
        sessions, events: legacy sessions and what was sent on their streams; ``None`` keeps them in each process.
        cache: results that may be used again.
        rates: how often something happened.
        is_shared: whether other processes see the same.
        aclose: close what the running event loop has opened; whoever uses the store afterwards opens it anew. A server
            that was given a URL does it at the end of its lifespan; whoever made the store does it otherwise.
        check: looks, before a server starts, whether the store could be used at all, and raises `StoreUrlError` if not.
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
    aclose: Callable[[], Awaitable[None]] = _nothing_is_open
    check: Callable[[], None] = _nothing_to_check


OpenStore: TypeAlias = Callable[[str], Store]
"""``url -> Store``; opens nothing yet: the store is made where the server is, the file or socket on first use."""


def _open_memory(url: str) -> Store:
    return Store(MemoryMarks(), MemoryBlobs())


_schemes: dict[str, OpenStore | str] = {
    "memory": _open_memory,
    "sqlite": "ferrule.stores.sqlite.store:open_sqlite",
    "redis": "ferrule.stores.redis.store:open_redis",
    "rediss": "ferrule.stores.redis.store:open_redis",
    "redis+cluster": "ferrule.stores.redis.store:open_redis",
    "rediss+cluster": "ferrule.stores.redis.store:open_redis",
}

_EXTRAS: Final = {
    "redis": "redis",
    "rediss": "redis",
    "redis+cluster": "redis",
    "rediss+cluster": "redis",
}


def register_scheme(scheme: str, opens: OpenStore | str) -> None:
    """Serve URLs of ``scheme``: with a function, or with ``"module:function"``, imported on first use."""
    _schemes[scheme] = opens


def open_store(url: str) -> Store:
    """Return the store that a URL names.

    Raises:
        StoreUrlError: no such scheme, its module is missing, or the rest cannot be used.
    """
    scheme, colon, _ = url.partition(":")
    opens = _schemes.get(scheme) if colon else None
    if opens is None:
        raise StoreUrlError(f"{url!r} names no store; the schemes are {', '.join(sorted(_schemes))}")
    if isinstance(opens, str):
        module, _, name = opens.partition(":")
        try:
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
