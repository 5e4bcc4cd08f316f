"""ferrule.extensions.cards.cache: what is kept, for how long, and how much of it."""

from __future__ import annotations

import pytest

from ferrule.extensions.cards.cache import MAX_DOCUMENTS, DocumentCache
from ferrule.testing import ManualClock

URL = "https://example.com/card"


@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        ("max-age=60", 60), ("public, MAX-AGE = 60", 60), ("max-age=9999999", 86400), ("max-age=99999999999999", 86400),
        ("no-cache, max-age=60", 0), ("max-age=-1", 0), ("max-age=x", 0), ("", 0),
    ],
)  # fmt: skip
def test_the_time_of_a_document(control: str, seconds: int) -> None:
    """At most a day, whatever a server says."""
    clock = ManualClock()
    cache = DocumentCache(clock)
    cache.store(URL, {"a": 1}, {"cache-control": control, "etag": '"t"'})
    assert (cache.fresh(URL) is not None) is (seconds > 0)
    clock.advance(seconds)
    assert cache.fresh(URL) is None
    assert cache.conditions(URL) == {"if-none-match": '"t"'}


def test_what_must_not_be_kept_is_not() -> None:
    cache = DocumentCache(ManualClock())
    cache.store(URL, {"a": 1}, {"etag": '"t"'})
    cache.store(URL, {"a": 2}, {"cache-control": "no-store", "etag": '"u"'})
    assert cache.conditions(URL) == {}
    cache.store(URL, {"a": 1}, {})
    assert cache.unchanged(URL, {}) is None


def test_a_cache_is_bounded() -> None:
    """By the number of documents, each of which is bounded where it is read; tags of servers are bounded, too."""
    cache = DocumentCache(ManualClock())
    for number in range(MAX_DOCUMENTS + 5):
        cache.store(f"{URL}/{number}", {}, {"cache-control": "max-age=60"})
    kept = [number for number in range(MAX_DOCUMENTS + 5) if cache.fresh(f"{URL}/{number}") is not None]
    assert kept == list(range(5, MAX_DOCUMENTS + 5))
    cache.store(URL, {}, {"cache-control": "max-age=60", "etag": "x" * 2000})
    assert cache.conditions(URL) == {}
    assert cache.fresh(URL) == {}
