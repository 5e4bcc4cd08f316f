"""Middleware that is ready to use.

The names of `ferrule.app.middleware.builtin` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.app.middleware.builtin import CacheResults as CacheResults
    from ferrule.app.middleware.builtin import LogRequests as LogRequests
    from ferrule.app.middleware.builtin import MaskErrors as MaskErrors
    from ferrule.app.middleware.builtin import RateLimit as RateLimit
    from ferrule.app.middleware.builtin import RateLimited as RateLimited
    from ferrule.app.middleware.builtin import Timing as Timing
    from ferrule.app.middleware.builtin import TimingOf as TimingOf
    from ferrule.app.middleware.builtin import sender_of as sender_of

__all__ = ["CacheResults", "LogRequests", "MaskErrors", "RateLimit", "RateLimited", "Timing", "TimingOf", "sender_of"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.builtin"), name)
