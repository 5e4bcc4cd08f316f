"""Cache hints of results: which results have them, and their defaults.

Source: 2026-07-28, "Caching". ``ttlMs`` and ``cacheScope`` are mandatory in complete results of some methods, and not
allowed in interim ones. A hint that a handler sets itself takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ferrule.wire.revisions import REVISIONS, Revision
from ferrule.wire.struct import Value

__all__ = ["CACHEABLE_METHODS", "DEFAULT_CACHE_HINT", "CacheHint", "hint_for"]

CACHEABLE_METHODS: Final = frozenset[str]().union(*(revision.cacheable_methods for revision in REVISIONS.values()))
"""The methods with cacheable results in any revision; for one connection see `Revision.cacheable_methods`."""


class CacheHint(Value, frozen=True):
    """How long a result may be reused, and by whom.

    Args:
        ttl_ms: milliseconds after receipt; 0 for no reuse.
        scope: ``"private"`` for one authorization context, ``"public"`` for all, including intermediaries.

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
"""No reuse: correct for all servers."""


def hint_for(revision: Revision, method: str, hints: Mapping[str, CacheHint]) -> CacheHint | None:
    """Return the hint for a method's results: its own, else the one under ``"*"``, else the default.

    Args:
        revision: the revision of the connection.
        method: the method of the request.
        hints: the server's hints, by method or ``"*"``.

    Returns:
        ``None`` for a method whose results have no hint in this revision. A hint for the method's own name always
        applies, because extensions may have cacheable methods.
    """
    found = hints.get(method)
    if found is not None:
        return found
    return hints.get("*", DEFAULT_CACHE_HINT) if method in revision.cacheable_methods else None
