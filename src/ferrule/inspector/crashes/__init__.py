"""Tracebacks that the process of a server writes to stderr, for the page of its developer.

They come from the process that the inspector started, and never over the wire: a peer gets a masked message.
"""

from __future__ import annotations

from ferrule.inspector.crashes.reader import Crash, CrashReader

__all__ = ["Crash", "CrashReader"]
