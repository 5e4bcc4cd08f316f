"""The supported revisions of the protocol: the only package with the differences between them.

Other code reads the flags and tables of a connection's `Revision`. A test forbids comparing version strings elsewhere,
and using a table of the newest revision in place of the connection's.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ferrule.wire.revisions.base import Revision
from ferrule.wire.revisions.index import INDEX
from ferrule.wire.revisions.project import (
    project_params,
    project_result,
    project_value,
    projection_of,
    read_params,
    read_result,
    read_value,
)
from ferrule.wire.revisions.rewrites import NotExpressible, needs_output_wrapping, wrap_output_schema

__all__ = [
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "INTERACTIVE_METHODS",
    "LATEST_HANDSHAKE_VERSION",
    "LATEST_MODERN_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "REVISIONS",
    "NotExpressible",
    "Revision",
    "has_server_notification",
    "is_core_method",
    "needs_output_wrapping",
    "project_params",
    "project_result",
    "project_value",
    "projection_of",
    "read_params",
    "read_result",
    "read_value",
    "wrap_output_schema",
]

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType({revision.version: revision for revision in INDEX})
"""Every revision by its version string, oldest first."""

HANDSHAKE_PROTOCOL_VERSIONS: Final[tuple[str, ...]] = tuple(v for v, r in REVISIONS.items() if not r.is_modern)
"""The legacy revisions, negotiated by ``initialize``; oldest first."""

MODERN_PROTOCOL_VERSIONS: Final[tuple[str, ...]] = tuple(v for v, r in REVISIONS.items() if r.is_modern)
"""The revisions whose requests carry their own envelope; oldest first."""

LATEST_HANDSHAKE_VERSION: Final = (HANDSHAKE_PROTOCOL_VERSIONS or MODERN_PROTOCOL_VERSIONS)[-1]
"""The version with which a server responds to an unknown one; the newest revision if the index has no legacy one."""

LATEST_MODERN_VERSION: Final = MODERN_PROTOCOL_VERSIONS[-1]
"""The version that a client tries first."""

INTERACTIVE_METHODS: Final = frozenset[str]().union(*(revision.input_required_methods for revision in INDEX))
"""Requests whose handlers may ask the client: in the result if the revision has input requests, else by requests.

`Revision.input_required_methods` of a connection has the requests whose results may contain questions.
"""

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
    """Return whether the core of some revision has a request or notification of this name, in either direction."""
    return method in _CORE_METHODS


def has_server_notification(revision: Revision, method: str) -> bool:
    """Return whether a server may send a notification in ``revision``.

    Notifications of the core are in the table of the revision; those of extensions are always allowed.
    """
    return method in revision.server_notifications or method not in _CORE_METHODS
