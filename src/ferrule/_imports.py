"""Imports without runs of the cyclic garbage collector, at the start of a program and at the first use of a name."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["without_collector"]

_FROZEN_BY_PROGRAM: Final = 1_000
"""So many frozen objects a program has frozen itself; Python 3.12 freezes some hundred at its start."""


@contextmanager
def without_collector() -> Generator[None]:
    """Run the block without the cyclic garbage collector, and let its next runs pass over what the block has made.

    For imports: modules, classes and functions stay, and the collector would search their midst 30 times in vain. They
    go to the oldest generation at once, because the first collection after the block would otherwise go through them
    all: 4 to 6 ms for a server. A program that has frozen objects (`gc.freeze`) keeps its generations as they are.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() < _FROZEN_BY_PROGRAM:
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        if collects:
            gc.enable()
