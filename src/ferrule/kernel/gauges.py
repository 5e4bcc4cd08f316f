"""How much of something a server has open right now, asked only when somebody measures.

Whoever holds sessions or streams says once how to count them; nothing is counted while requests are served. Holders
are held weakly: an endpoint that is gone counts for nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ferrule.kernel.server import Server

__all__ = ["Gauges", "gauges_of"]

HolderT = TypeVar("HolderT")


class Gauges:
    """The counts of one server, by name."""

    def __init__(self) -> None:
        self._sources: dict[str, weakref.WeakKeyDictionary[Any, Callable[[Any], int]]] = {}

    def add(self, name: str, holder: HolderT, count: Callable[[HolderT], int]) -> None:
        """Count ``count(holder)`` under ``name`` as long as ``holder`` lives; ``count`` must not hold it."""
        self._sources.setdefault(name, weakref.WeakKeyDictionary())[holder] = count

    def read(self, name: str) -> int:
        """The sum of what counts under a name; 0 when nothing does. From the event loop's thread or any other."""
        source = self._sources.get(name)
        return 0 if source is None else sum(count(holder) for holder, count in list(source.items()))


def gauges_of(server: Server[Any]) -> Gauges:
    """Return the counts of a server; made on first use."""
    found = server.attachments.get(Gauges)
    if found is None:
        found = server.attachments[Gauges] = Gauges()
    return found
