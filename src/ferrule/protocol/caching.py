"""Cache hints on results: which results carry them, and what they default to.

Source: 2026-07-28, "Caching". ``ttlMs`` and ``cacheScope`` are mandatory on complete results of six methods and
never stand on interim ones. A hint that a handler set itself wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ferrule.wire.revisions import REVISIONS, Revision
from ferrule.wire.struct import Value

__all__ = ["CACHEABLE_METHODS", "DEFAULT_CACHE_HINT", "CacheHint", "hint_for"]

CACHEABLE_METHODS: Final = frozenset[str]().union(*(revision.cacheable_methods for revision in REVISIONS.values()))
"""The methods with cacheable results in some revision; `Revision.cacheable_methods` says it for a connection."""


class CacheHint(Value, frozen=True):
    """How long a result may be reused, and by whom.

    Args:
        ttl_ms: milliseconds from receipt; 0 means "ask again".
        scope: ``"private"`` for one authorization context, ``"public"`` for anyone, intermediaries included.

    Raises:
        ValueError: a negative time or an unknown scope.
    """

    ttl_ms: int = 0
    scope: Literal["public", "private"] = "private"

    def __post_init__(self) -> None:
        if self.ttl_ms < 0:
            raise ValueError("ttl_ms is 0 or more")
        if self.scope not in ("public", "private"):
            raise ValueError("scope is public or private")


DEFAULT_CACHE_HINT: Final = CacheHint()
"""Nothing may be reused: right for any server, and the one to change first."""


def hint_for(revision: Revision, method: str, hints: Mapping[str, CacheHint]) -> CacheHint | None:
    """Return the hint for a method's results: its own, else the one under ``"*"``, else the default.

    Args:
        revision: the connection's.
        method: the request that is answered.
        hints: the server's, by method or ``"*"``.

    Returns:
        ``None`` for a method whose results carry no hint in this revision. A hint that the server gave for the method
        by name holds in every case, because extensions have cacheable methods of their own.
    """
    found = hints.get(method)
    if found is not None:
        return found
    return hints.get("*", DEFAULT_CACHE_HINT) if method in revision.cacheable_methods else None
