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
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware, PlainCall
from ferrule.kernel.server import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

__all__ = [
    "CacheResults",
    "CallNext",
    "FastMiddleware",
    "HandlerResult",
    "LogRequests",
    "MaskErrors",
    "PlainCall",
    "RateLimit",
    "RateLimited",
    "ServerMiddleware",
    "ServerRequestContext",
    "Timing",
    "TimingOf",
    "sender_of",
]
