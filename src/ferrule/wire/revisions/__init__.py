"""The revisions of the protocol that Ferrule speaks: the only place that knows what differs between them.

Ask a `Revision` for a flag or a table; comparing version strings elsewhere is what a newcomer would do, and what a
test forbids.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ferrule.wire.revisions.base import Revision
from ferrule.wire.revisions.project import project_params, project_result, projection_of
from ferrule.wire.revisions.r2024_11_05 import REVISION as R2024_11_05
from ferrule.wire.revisions.r2025_03_26 import REVISION as R2025_03_26
from ferrule.wire.revisions.r2025_06_18 import REVISION as R2025_06_18
from ferrule.wire.revisions.r2025_11_25 import REVISION as R2025_11_25
from ferrule.wire.revisions.r2026_07_28 import REVISION as R2026_07_28
from ferrule.wire.revisions.rewrites import NotExpressible, needs_output_wrapping, wrap_output_schema

__all__ = [
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "LATEST_HANDSHAKE_VERSION",
    "LATEST_MODERN_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "REVISIONS",
    "NotExpressible",
    "Revision",
    "is_core_method",
    "needs_output_wrapping",
    "project_params",
    "project_result",
    "projection_of",
    "wrap_output_schema",
]

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {r.version: r for r in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)}
)
"""Every revision by its version string, oldest first."""

HANDSHAKE_PROTOCOL_VERSIONS: Final[tuple[str, ...]] = tuple(v for v, r in REVISIONS.items() if not r.is_modern)
"""The legacy revisions, negotiated by ``initialize``; oldest first."""

MODERN_PROTOCOL_VERSIONS: Final[tuple[str, ...]] = tuple(v for v, r in REVISIONS.items() if r.is_modern)
"""The revisions whose requests carry their own envelope; oldest first."""

LATEST_HANDSHAKE_VERSION: Final = HANDSHAKE_PROTOCOL_VERSIONS[-1]
"""What a server answers to a version that it does not know."""

LATEST_MODERN_VERSION: Final = MODERN_PROTOCOL_VERSIONS[-1]
"""What a client tries first."""

_CORE_METHODS: Final = frozenset(
    method
    for revision in REVISIONS.values()
    for table in (
        revision.requests,
        revision.notifications,
        revision.server_requests,
        revision.server_notifications,
    )
    for method in table
)


def is_core_method(method: str) -> bool:
    """Whether some revision's core has a request or notification of this name, in either direction."""
    return method in _CORE_METHODS
