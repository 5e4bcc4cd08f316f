"""Middleware that comes with Ferrule, and the types to write one's own: ``async (ctx, call_next) -> result``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from ferrule.app.middleware.access import AccessRequest as AccessRequest
    from ferrule.app.middleware.audit.chain import ChainHead as ChainHead
    from ferrule.app.middleware.audit.chain import check_chains as check_chains
    from ferrule.app.middleware.audit.middleware import Audit as Audit
    from ferrule.app.middleware.audit.middleware import AuditUnavailable as AuditUnavailable
    from ferrule.app.middleware.audit.record import AuditRecord as AuditRecord
    from ferrule.app.middleware.audit.sinks import AuditFile as AuditFile
    from ferrule.app.middleware.audit.sinks import AuditLog as AuditLog
    from ferrule.app.middleware.audit.sinks import AuditSink as AuditSink
    from ferrule.app.middleware.policy import Deny as Deny
    from ferrule.app.middleware.policy import NotAllowed as NotAllowed
    from ferrule.app.middleware.policy import Policy as Policy
    from ferrule.app.middleware.quota import Quota as Quota
    from ferrule.app.middleware.quota import QuotaExceeded as QuotaExceeded
    from ferrule.app.middleware.quota import Usage as Usage

__all__ = [
    "AccessRequest",
    "Audit",
    "AuditFile",
    "AuditLog",
    "AuditRecord",
    "AuditSink",
    "AuditUnavailable",
    "CacheResults",
    "CallNext",
    "ChainHead",
    "Deny",
    "FastMiddleware",
    "HandlerResult",
    "LogRequests",
    "MaskErrors",
    "NotAllowed",
    "PlainCall",
    "Policy",
    "Quota",
    "QuotaExceeded",
    "RateLimit",
    "RateLimited",
    "ServerMiddleware",
    "ServerRequestContext",
    "Timing",
    "TimingOf",
    "Usage",
    "check_chains",
    "sender_of",
]

# Loaded on first use: few servers have policies, quotas and audits.
_LAZY = {
    "AccessRequest": "access",
    "Audit": "audit.middleware",
    "AuditFile": "audit.sinks",
    "AuditLog": "audit.sinks",
    "AuditRecord": "audit.record",
    "AuditSink": "audit.sinks",
    "AuditUnavailable": "audit.middleware",
    "ChainHead": "audit.chain",
    "Deny": "policy",
    "NotAllowed": "policy",
    "Policy": "policy",
    "Quota": "quota",
    "QuotaExceeded": "quota",
    "Usage": "quota",
    "check_chains": "audit.chain",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ferrule.app.middleware.{_LAZY[name]}"), name)
