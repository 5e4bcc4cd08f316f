"""Cache hints: which results carry them and what they default to."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ferrule.protocol.caching import CACHEABLE_METHODS, DEFAULT_CACHE_HINT, CacheHint, hint_for
from ferrule.wire.revisions import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, REVISIONS

MODERN = REVISIONS[LATEST_MODERN_VERSION]
LEGACY = REVISIONS[LATEST_HANDSHAKE_VERSION]


def test_the_methods_are_those_of_all_revisions() -> None:
    """A method that only one revision can cache is still one for which a server may set a hint."""
    assert all(revision.cacheable_methods <= CACHEABLE_METHODS for revision in REVISIONS.values())


def test_the_connection_decides_which_methods_carry_hints() -> None:
    """A revision may add or drop one; the newest revision does not apply to an older connection."""
    other = replace(MODERN, cacheable_methods=frozenset({"tools/call"}))
    assert hint_for(other, "tools/call", {}) == DEFAULT_CACHE_HINT
    assert hint_for(other, "tools/list", {"*": CacheHint(9)}) is None
    assert hint_for(LEGACY, "tools/list", {"*": CacheHint(9)}) is None


def test_the_default_shares_nothing() -> None:
    """Right for any server: stale at once, for one authorization context."""
    assert CacheHint(0, "private") == DEFAULT_CACHE_HINT
    assert all(hint_for(MODERN, method, {}) == DEFAULT_CACHE_HINT for method in CACHEABLE_METHODS)


def test_the_most_specific_hint_wins() -> None:
    """The method's own, then the star, then the default."""
    own, star = CacheHint(5, "public"), CacheHint(9)
    assert hint_for(MODERN, "tools/list", {"tools/list": own, "*": star}) == own
    assert hint_for(MODERN, "prompts/list", {"tools/list": own, "*": star}) == star


def test_other_methods_have_no_hint_unless_one_is_set() -> None:
    """The star means the six; an extension's method may be named."""
    assert hint_for(MODERN, "tools/call", {"*": CacheHint(9)}) is None
    assert hint_for(MODERN, "skills/list", {"skills/list": CacheHint(9)}) == CacheHint(9)


@pytest.mark.parametrize("bad", [{"ttl_ms": -1}, {"scope": "shared"}, {"scope": None}])
def test_a_hint_refuses_nonsense(bad: dict[str, Any]) -> None:
    """When it is made, not when a client reads it."""
    with pytest.raises(ValueError):
        CacheHint(**bad)
