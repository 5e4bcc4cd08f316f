"""Counts of open sessions, streams and the like of a server, computed only when they are read.

An endpoint registers once how to count its sessions or streams; serving requests then costs nothing. Registered objects
are referenced weakly: a deleted endpoint is not counted.
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
        """Add ``count(holder)`` to the count ``name`` as long as ``holder`` exists.

        Args:
            name: the name of the count.
            holder: the object with the sessions or streams; referenced weakly.
            count: must not reference ``holder``, or that would never be deleted.
        """
        self._sources.setdefault(name, weakref.WeakKeyDictionary())[holder] = count

    def read(self, name: str) -> int:
        """Return the sum of the counts of a name; 0 if there are none. Safe in any thread."""
        source = self._sources.get(name)
        # A copy: another thread may read while the event loop adds or deletes holders.
        return 0 if source is None else sum(count(holder) for holder, count in list(source.items()))


def gauges_of(server: Server[Any]) -> Gauges:
    """Return the `Gauges` of a server; made on first use."""
    return server.attachments.made(Gauges)
