"""Which era a message belongs to on a connection that speaks both: a lock, written as a table.

On a stream pair the era is a property of the connection. It starts open; what *succeeds* first decides: an
`initialize` locks legacy, an accepted modern envelope or `server/discover` locks modern. A rejected message and an
era-neutral one (`ping`, an unknown method without an envelope) never lock. Source: 2026-07-28, "Versioning"; the
lock itself is Ferrule's choice where the specification leaves room (a server MAY serve both eras at once on stdio).

Pure: the caller asks `EraLock.judge` before serving and calls `EraLock.succeeded` after.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ferrule.protocol.errors import InvalidRequest, MCPError, UnsupportedProtocolVersion
from ferrule.protocol.inbound import has_modern_envelope
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS

__all__ = ["TRANSITIONS", "VERDICTS", "Era", "EraLock", "MessageEra", "Verdict", "message_era"]


class Era(Enum):
    """The state of a connection's lock."""

    __hash__ = object.__hash__  # as below

    OPEN = "open"
    LEGACY = "legacy"
    MODERN = "modern"


class MessageEra(Enum):
    """What a message shows of its era by itself."""

    __hash__ = object.__hash__  # by identity: Enum's own is Python code, and the tables are asked for every message

    INITIALIZE = "initialize"
    """The request that opens the legacy era."""
    ENVELOPE = "envelope"
    """It carries (part of) the modern per-request envelope, or is `server/discover`."""
    PLAIN = "plain"
    """Neither: legacy by shape, or neutral."""


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
        (Era.LEGACY, MessageEra.INITIALIZE): Verdict.SERVE_LEGACY,  # and the runner refuses the second handshake
        (Era.LEGACY, MessageEra.ENVELOPE): Verdict.REFUSE_ENVELOPE,
        (Era.LEGACY, MessageEra.PLAIN): Verdict.SERVE_LEGACY,
        (Era.MODERN, MessageEra.INITIALIZE): Verdict.REFUSE_INITIALIZE,
        (Era.MODERN, MessageEra.ENVELOPE): Verdict.SERVE_MODERN,
        (Era.MODERN, MessageEra.PLAIN): Verdict.SERVE_MODERN,  # the ladder then names what is missing
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
"""Where a message that *succeeded* leads; a rejected one leads nowhere."""


def message_era(method: str, params: Any) -> MessageEra:
    """Return what a request or notification shows of its era."""
    if method == "initialize":
        return MessageEra.INITIALIZE
    if method == "server/discover" or has_modern_envelope(params):
        return MessageEra.ENVELOPE
    return MessageEra.PLAIN


class EraLock:
    """The lock of one connection.

    Args:
        modern_versions: what the server speaks of the modern era, for the refusals.
    """

    __slots__ = ("_modern_versions", "state")

    def __init__(self, modern_versions: tuple[str, ...] = MODERN_PROTOCOL_VERSIONS) -> None:
        self.state = Era.OPEN
        self._modern_versions = modern_versions

    def judge(self, kind: MessageEra) -> Verdict:
        """Return what to do with a message of this kind in the present state."""
        return VERDICTS[self.state, kind]

    def refusal(self, verdict: Verdict, params: Any) -> MCPError | None:
        """Return the error that a refusing verdict answers with; ``None`` for one that serves."""
        if verdict is Verdict.REFUSE_ENVELOPE:
            return InvalidRequest("This connection was opened by initialize; requests carry no modern envelope here")
        if verdict is Verdict.REFUSE_INITIALIZE:
            requested: Any = params.get("protocolVersion") if isinstance(params, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            return UnsupportedProtocolVersion(requested, self._modern_versions)
        return None

    def succeeded(self, kind: MessageEra) -> None:
        """Note that a message of this kind was accepted (an `initialize`: that it was answered with a result)."""
        self.state = TRANSITIONS[self.state, kind]
