"""What each handler and middleware gets, by the name that this module had before `ferrule.kernel.server` defined it."""

from __future__ import annotations

from ferrule.kernel.server import (
    CallNext,
    Handler,
    HandlerResult,
    LifespanT,
    LifespanT_contra,
    ServerMiddleware,
    ServerRequestContext,
)

__all__ = [
    "CallNext",
    "Handler",
    "HandlerResult",
    "LifespanT",
    "LifespanT_contra",
    "ServerMiddleware",
    "ServerRequestContext",
]
