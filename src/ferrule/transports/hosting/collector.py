"""Settings of the garbage collector while a server runs: less frequent, because requests leave no reference cycles."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["patient_collector"]

_THRESHOLD: Final = 10_000


@contextmanager
def patient_collector() -> Generator[None]:
    """Run the cyclic garbage collector less often, and never on objects that existed before the first request.

    A request in flight has some dozen objects, so that with the default threshold the collector runs at each burst of
    requests and finds nothing: 7 % of a call over stdio (64 in flight). The threshold bounds the garbage that is kept.
    For programs that only run the server; a program that embeds a server keeps its own settings.
    """
    thresholds = gc.get_threshold()
    if thresholds[0]:  # 0: the program has turned the collector off
        gc.set_threshold(max(thresholds[0], _THRESHOLD), *thresholds[1:])
    # Modules and classes exist as long as the process: a full collection need not examine them.
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
