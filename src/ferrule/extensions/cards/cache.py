"""`DocumentCache`: catalogs and cards that were read, for a program that discovers the same sites again.

A document is used without a request for as long as its ``Cache-Control`` allows, and asked for by its ``ETag`` after
that (the extension, "Caching").
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ferrule.wire.struct import Value

__all__ = ["DocumentCache"]

MAX_DOCUMENTS: Final = 256
"""Most documents of one cache; the one that was stored first is removed."""

_MAX_AGE_S: Final = 24 * 3600.0
_MAX_TAG: Final = 1024
_AGE: Final = re.compile(r"max-age\s*=\s*\"?(\d{1,10})")


class _Kept(Value, frozen=True):
    document: dict[str, Any]
    tag: str | None
    fresh_until_s: float


class DocumentCache:
    """Documents by URL, in the memory of this process; for `discover` and `read_card`.

    At most `MAX_DOCUMENTS` of them; none is used for more than a day without asking.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def fresh(self, url: str) -> dict[str, Any] | None:
        """Return a document that needs no request; ``None`` if there is none."""
        kept = self._kept.get(url)
        return kept.document if kept is not None and self._clock() < kept.fresh_until_s else None

    def conditions(self, url: str) -> dict[str, str]:
        """Return the headers that ask for a document only if it has changed; empty for one that is not known."""
        kept = self._kept.get(url)
        return {} if kept is None or kept.tag is None else {"if-none-match": kept.tag}

    def unchanged(self, url: str, headers: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the document that the server has confirmed (304); ``None`` if it is not known."""
        kept = self._kept.get(url)
        if kept is None:
            return None
        self._kept[url] = _Kept(kept.document, kept.tag, self._clock() + _age_s(headers))
        return kept.document

    def store(self, url: str, document: dict[str, Any], headers: Mapping[str, str]) -> None:
        """Keep a document, unless its headers forbid it."""
        self._kept.pop(url, None)
        control = headers.get("cache-control", "").lower()
        tag = headers.get("etag")
        age_s = _age_s(headers)
        if "no-store" in control or (age_s <= 0 and tag is None):
            return
        while len(self._kept) >= MAX_DOCUMENTS:
            del self._kept[next(iter(self._kept))]
        kept_tag = tag if tag is not None and len(tag) <= _MAX_TAG else None
        self._kept[url] = _Kept(document, kept_tag, self._clock() + age_s)


def _age_s(headers: Mapping[str, str]) -> float:
    """Return the seconds for which a response is fresh: of ``max-age``, 0 without, at most a day."""
    control = headers.get("cache-control", "").lower()
    found = None if "no-cache" in control or "no-store" in control else _AGE.search(control)
    return 0.0 if found is None else min(float(found[1]), _MAX_AGE_S)
