"""Errors of stores, in addition to `ConnectionError` and `TimeoutError`, after which a later call may succeed."""

from __future__ import annotations

__all__ = ["StoreNotWritable"]


class StoreNotWritable(OSError):
    """The store can be reached but not written to: its disk or memory is full, or it is read-only.

    An operator must act: later calls fail too.
    """
