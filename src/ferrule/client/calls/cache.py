"""Results that a server allows to be kept: for how long, and for whom (2026-07-28, "Caching").

Results are kept as bytes, so every caller gets values of its own. A key is method and params; a ``private`` result
also belongs to one authorization context, a ``public`` one to every client that shares the store. A change notification
drops what it is about, and a result that was asked for before the change is not kept after it.

The store may be one that several processes share (``Client(…, cache=open_store("redis://…").cache)``). One that cannot
be reached is an empty one: the server is asked.

The rule that a newcomer would break: a result of a request that carried answers or a state is never kept.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ferrule.client.targets import HttpTarget, Target
from ferrule.stores.cache import CacheStore, MemoryCacheStore
from ferrule.transports.http.backend import TlsOptions
from ferrule.wire.codec import decode, encode

if TYPE_CHECKING:
    import ssl

__all__ = ["CacheStore", "MemoryCacheStore", "ResultCache", "context_of"]

logger = logging.getLogger(__name__)

MAX_TTL_MS: Final = 365 * 86_400_000
"""A year: a server may say any number, and stores count milliseconds in 64 bits."""

_PROCESS_WORD: Final = os.urandom(8).hex()
_NUMBERS: Final = count(1)


@runtime_checkable
class HasCacheKey(Protocol):
    """Credentials that can say for whom results may be kept."""

    @property
    def cache_key(self) -> str | None:
        """The same text for everything that the server answers alike; ``None``: nothing may be shared."""
        ...


def context_of(
    target: Target, auth: object, headers: Mapping[str, str], http: object, tls: TlsOptions | ssl.SSLContext | None
) -> tuple[str, str]:
    """Return what a client's results are kept under: the server that gave them, and the authorization context.

    The context is all that may tell a server who asks: the whole URL with user and query, every header (cookies are
    among them), the credential. A client has a context of its own, and shares nothing private, where a part of that
    cannot be looked into: an ``auth=`` object without ``cache_key``, an HTTP client of the program's own, TLS settings
    with a certificate.

    Args:
        target: the server that is called.
        auth: credentials of the requests; ``None`` for none.
        headers: the headers of every request.
        http: an HTTP client of the program's own; ``None`` without.
        tls: `TlsOptions` or an `ssl.SSLContext`; ``None`` without.

    Returns:
        Two texts that show no secret: what may be one is hashed.
    """
    from hashlib import sha256

    if not isinstance(target, HttpTarget):  # a server of this client's own
        return f"{target.label}#{_unique_name()}", "owner"
    credential = auth.cache_key if isinstance(auth, HasCacheKey) else None
    address = sha256(target.url.encode()).hexdigest()[:32]
    server = f"{target.label}#{address}" if "?" in target.url else target.label  # a query may name another server
    # An SSL context of the program's own does not say whether it holds a certificate.
    has_certificate = tls.client_cert_file is not None if isinstance(tls, TlsOptions) else tls is not None
    if (auth is not None and credential is None) or http is not None or has_certificate:
        return server, f"client-{_unique_name()}"
    sent = sorted((name.lower(), value) for name, value in {**target.headers, **headers}.items())
    return server, sha256(repr((target.url, credential, sent)).encode()).hexdigest()[:32]


def _unique_name() -> str:
    """Return a name that is used once, over all processes: a store may be shared by several."""
    return f"{_PROCESS_WORD}-{os.getpid()}-{next(_NUMBERS)}"


class ResultCache:
    """The cache of one client.

    Args:
        store: where to keep results.
        server: identifies the server among those that share the store.
        partition: identifies the authorization context; private results are kept under it.
    """

    def __init__(self, store: CacheStore, *, server: str, partition: str) -> None:
        self._store = store
        self._server = server
        self.partition = partition
        self._changes: dict[str, int] = {}

    async def get(self, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return a fresh result as JSON of the caller's own; ``None`` if none is kept."""
        suffix = self._suffix(method, params)
        try:
            for owner in (self.partition, ""):
                found = await self._store.get(self._group(method), f"{owner}\n{suffix}")
                if found is not None:
                    return decode(found)
        except OSError as error:
            logger.warning("The cache cannot be reached: %s", error)
        return None

    def before(self, method: str) -> int:
        """Return a mark to take before asking, for `put`."""
        return self._changes.get(method, 0)

    async def put(self, method: str, params: Mapping[str, Any] | None, result: Mapping[str, Any], mark: int) -> None:
        """Keep a complete result for as long, and for whom, it says."""
        ttl_ms = result.get("ttlMs")
        if (
            isinstance(ttl_ms, bool)
            or not isinstance(ttl_ms, int | float)
            or not ttl_ms > 0
            or self._changes.get(method, 0) != mark
        ):
            return
        if params is not None and ("inputResponses" in params or "requestState" in params):
            return
        owner = "" if result.get("cacheScope") == "public" else self.partition
        key = f"{owner}\n{self._suffix(method, params)}"
        try:
            await self._store.put(self._group(method), key, encode(result), ttl_s=min(ttl_ms, MAX_TTL_MS) / 1000)
        except OSError as error:
            logger.warning("The cache cannot be reached: %s", error)

    async def invalidate(self, *methods: str) -> None:
        """Drop the results of these methods, and keep none of those that are being asked for now."""
        for method in methods:
            self._changes[method] = self._changes.get(method, 0) + 1
            try:
                await self._store.drop(self._group(method))
            except OSError as error:
                logger.warning(
                    "The cache kept results of %s that have changed, since it cannot be reached: %s", method, error
                )

    def _group(self, method: str) -> str:
        return f"{self._server}\n{method}"

    @staticmethod
    def _suffix(method: str, params: Mapping[str, Any] | None) -> str:
        own = {key: value for key, value in (params or {}).items() if key != "_meta"}
        return encode(dict(sorted(own.items()))).decode()
