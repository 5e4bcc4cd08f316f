"""The cache of results that a server allows its client to keep, with their lifetime and scope (2026-07-28, "Caching").

Results are kept as bytes, so every caller gets values of its own. A key is method and params; a ``private`` result
also belongs to one authorization context, a ``public`` one to every client that shares the store. A change notification
removes the results that it makes outdated; the result of a request that was sent before the change is not kept.

Several processes may share a store (``Client(…, cache=open_store("redis://…").cache)``). While a store cannot be
reached, the client works as with an empty one: it sends each request to the server.

A result of a request that carried answers or a state is never kept.
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
"""Maximum lifetime of a kept result, in milliseconds: a year. A server may send any number, and stores count
milliseconds in 64 bits."""

_PROCESS_WORD: Final = os.urandom(8).hex()
_NUMBERS: Final = count(1)


@runtime_checkable
class HasCacheKey(Protocol):
    """Credentials that identify the authorization context of results."""

    @property
    def cache_key(self) -> str | None:
        """Return one text for all credentials with which a server returns the same results; ``None``: share nothing."""
        ...


def context_of(
    target: Target, auth: object, headers: Mapping[str, str], http: object, tls: TlsOptions | ssl.SSLContext | None
) -> tuple[str, str]:
    """Return the two names under which a client's results are kept: of the server, and of the authorization context.

    The context covers everything by which a server may identify its caller: the whole URL with user and query, every
    header (cookies too), the credential. A client gets a context of its own, and shares no private result, if a part
    of that is not readable: an ``auth=`` object without ``cache_key``, the program's own HTTP client, TLS settings with
    a certificate.

    Args:
        target: the server that is called.
        auth: credentials of the requests; ``None`` for none.
        headers: the headers of every request.
        http: an HTTP client of the program's own; ``None`` without.
        tls: `TlsOptions` or an `ssl.SSLContext`; ``None`` without.

    Returns:
        Two texts without secrets: parts that may be secret are hashed.
    """
    if not isinstance(target, HttpTarget):  # a server of this client's own
        return f"{target.label}#{_unique_name()}", "owner"
    from hashlib import sha256

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
    """Return a name that no other client uses, in this or another process: processes may share a store."""
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
        """Return a copy of a fresh result, as JSON; ``None`` if none is kept."""
        suffix = self._suffix(method, params)
        try:
            # The private result first: it is more specific than a public one, which has no owner.
            for owner in (self.partition, ""):
                found = await self._store.get(self._group(method), f"{owner}\n{suffix}")
                if found is not None:
                    return decode(found)
        except OSError as error:
            logger.warning("The cache cannot be reached: %s", error)
        return None

    def before(self, method: str) -> int:
        """Return a mark for `put`; call it before the request is sent."""
        return self._changes.get(method, 0)

    async def put(self, method: str, params: Mapping[str, Any] | None, result: Mapping[str, Any], mark: int) -> None:
        """Keep a complete result for the lifetime and in the scope that it names; do nothing if it names none."""
        ttl_ms = result.get("ttlMs")
        # The value comes from a peer: `True` is an int in Python, and `not ttl_ms > 0` is also true for NaN.
        if (
            isinstance(ttl_ms, bool)
            or not isinstance(ttl_ms, int | float)
            or not ttl_ms > 0
            or self._changes.get(method, 0) != mark
        ):
            return
        # The result of a later round depends on answers of the user (2026-07-28, "Caching").
        if params is not None and ("inputResponses" in params or "requestState" in params):
            return
        owner = "" if result.get("cacheScope") == "public" else self.partition
        key = f"{owner}\n{self._suffix(method, params)}"
        try:
            await self._store.put(self._group(method), key, encode(result), ttl_s=min(ttl_ms, MAX_TTL_MS) / 1000)
        except OSError as error:
            logger.warning("The cache cannot be reached: %s", error)

    async def invalidate(self, *methods: str) -> None:
        """Remove the results of these methods; results of requests that are in flight now are not kept either."""
        for method in methods:
            # Before the wait: a response that arrives meanwhile may have been made before the change.
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
