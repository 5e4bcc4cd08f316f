"""What stores raise beside `ConnectionError` and `TimeoutError`, which say that waiting may help."""

from __future__ import annotations

__all__ = ["StoreNotWritable"]


class StoreNotWritable(OSError):
    """The store answers and refuses to write: its disk or memory is full, or it may only be read.

    An operator must act; waiting alone does not help.
    """
