"""Middleware that comes with Ferrule, and the types to write one's own: ``async (ctx, call_next) -> result``."""

from ferrule.app.middleware.builtin import (
    CacheResults,
    LogRequests,
    MaskErrors,
    RateLimit,
    RateLimited,
    Timing,
    TimingOf,
    sender_of,
)
from ferrule.kernel.server import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

__all__ = [
    "CacheResults",
    "CallNext",
    "HandlerResult",
    "LogRequests",
    "MaskErrors",
    "RateLimit",
    "RateLimited",
    "ServerMiddleware",
    "ServerRequestContext",
    "Timing",
    "TimingOf",
    "sender_of",
]
