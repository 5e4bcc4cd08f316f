"""The era of a connection that can serve both eras: a state machine, as two tables.

On a stream pair the era is a property of the connection. The first message that *succeeds* locks it: an ``initialize``
locks the legacy era, an accepted modern envelope or ``server/discover`` the modern era. A rejected message, and one
that belongs to no era (``ping``, an unknown method without an envelope), does not lock. Source: 2026-07-28,
"Versioning"; the lock is Ferrule's choice (the specification allows a server to serve both eras at once on stdio).

The caller uses `EraLock.judge` before it serves a message, and `EraLock.succeeded` after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ferrule.protocol.errors import InvalidRequest, MCPError, UnsupportedProtocolVersion
from ferrule.protocol.inbound import has_modern_envelope
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

__all__ = [
    "TRANSITIONS",
    "VERDICTS",
    "Era",
    "EraLock",
    "MessageEra",
    "Verdict",
    "is_handshake_version",
    "message_era",
]


class Era(Enum):
    """The state of a connection's lock."""

    __hash__ = object.__hash__  # see `MessageEra`

    OPEN = "open"
    LEGACY = "legacy"
    MODERN = "modern"


class MessageEra(Enum):
    """The era of a single message."""

    __hash__ = object.__hash__  # by identity: the hash of `Enum` is Python code, and each message needs the tables

    INITIALIZE = "initialize"
    """The request that opens the legacy era."""
    ENVELOPE = "envelope"
    """It has the modern per-request envelope or a part of it, or is ``server/discover``."""
    PLAIN = "plain"
    """Neither: a legacy message, or one of no era."""


class Verdict(Enum):
    """What to do with a message."""

    SERVE_LEGACY = "serve_legacy"
    SERVE_MODERN = "serve_modern"
    REFUSE_INITIALIZE = "refuse_initialize"
    REFUSE_ENVELOPE = "refuse_envelope"


VERDICTS: Final[Mapping[tuple[Era, MessageEra], Verdict]] = MappingProxyType(
    {
        (Era.OPEN, MessageEra.INITIALIZE): Verdict.SERVE_LEGACY,
        (Era.OPEN, MessageEra.ENVELOPE): Verdict.SERVE_MODERN,
        (Era.OPEN, MessageEra.PLAIN): Verdict.SERVE_LEGACY,
        (Era.LEGACY, MessageEra.INITIALIZE): Verdict.SERVE_LEGACY,  # the runner refuses a second handshake
        (Era.LEGACY, MessageEra.ENVELOPE): Verdict.REFUSE_ENVELOPE,
        (Era.LEGACY, MessageEra.PLAIN): Verdict.SERVE_LEGACY,
        (Era.MODERN, MessageEra.INITIALIZE): Verdict.REFUSE_INITIALIZE,
        (Era.MODERN, MessageEra.ENVELOPE): Verdict.SERVE_MODERN,
        (Era.MODERN, MessageEra.PLAIN): Verdict.SERVE_MODERN,  # the envelope's check then names the missing keys
    }
)

TRANSITIONS: Final[Mapping[tuple[Era, MessageEra], Era]] = MappingProxyType(
    {
        (Era.OPEN, MessageEra.INITIALIZE): Era.LEGACY,
        (Era.OPEN, MessageEra.ENVELOPE): Era.MODERN,
        (Era.OPEN, MessageEra.PLAIN): Era.OPEN,
        (Era.LEGACY, MessageEra.INITIALIZE): Era.LEGACY,
        (Era.LEGACY, MessageEra.ENVELOPE): Era.LEGACY,
        (Era.LEGACY, MessageEra.PLAIN): Era.LEGACY,
        (Era.MODERN, MessageEra.INITIALIZE): Era.MODERN,
        (Era.MODERN, MessageEra.ENVELOPE): Era.MODERN,
        (Era.MODERN, MessageEra.PLAIN): Era.MODERN,
    }
)
"""The state after a message that *succeeded*; a rejected message does not change the state."""


def is_handshake_version(version: object) -> bool:
    """Return whether a JSON value is a revision that ``initialize`` can negotiate."""
    return isinstance(version, str) and version in HANDSHAKE_PROTOCOL_VERSIONS


def message_era(method: str, params: Any) -> MessageEra:
    """Return the era of a request or notification."""
    if method == "initialize":
        return MessageEra.INITIALIZE
    if method == "server/discover" or has_modern_envelope(params):
        return MessageEra.ENVELOPE
    return MessageEra.PLAIN


class EraLock:
    """The lock of one connection.

    Args:
        modern_versions: the server's revisions of the modern era, for error responses.
    """

    __slots__ = ("_modern_versions", "state")

    def __init__(self, modern_versions: tuple[str, ...] = MODERN_PROTOCOL_VERSIONS) -> None:
        self.state = Era.OPEN
        self._modern_versions = modern_versions

    def judge(self, kind: MessageEra) -> Verdict:
        """Return the verdict on a message of this kind in the present state."""
        return VERDICTS[self.state, kind]

    def refusal(self, verdict: Verdict, params: Any) -> MCPError | None:
        """Return the error response of a verdict that refuses; ``None`` for one that serves."""
        if verdict is Verdict.REFUSE_ENVELOPE:
            return InvalidRequest("This connection was opened by initialize; requests carry no modern envelope here")
        if verdict is Verdict.REFUSE_INITIALIZE:
            requested: Any = params.get("protocolVersion") if isinstance(params, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            return UnsupportedProtocolVersion(requested, self._modern_versions)
        return None

    def succeeded(self, kind: MessageEra) -> None:
        """Change the state after a message of this kind was accepted (an ``initialize``: after its result)."""
        self.state = TRANSITIONS[self.state, kind]
