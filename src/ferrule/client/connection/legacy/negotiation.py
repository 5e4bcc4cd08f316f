"""The negotiation with a handshake: after a probe that proved nothing, or at once, and over HTTP the transport of 2024.

A server that answers a handshake with 4xx may be one of 2024-11-05, which has two endpoints: then the client GETs the
URL and expects an ``endpoint`` event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ferrule.client.connection.negotiation import (
    NOT_ABOUT_ERAS,
    Answered,
    Closed,
    LegacyStep,
    NegotiationFailed,
    Negotiator,
    Outcome,
    Probe,
    RpcRefused,
    Settled,
    Silent,
    Step,
    error_of,
    is_modern_error,
    mapping_of,
    mutual_versions,
    status_of,
)
from ferrule.protocol.era import is_handshake_version
from ferrule.wire.json_types import is_mapping
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

__all__ = ["SSE_VERSION", "DualEraNegotiator", "Handshake", "OpenSse", "SseOpened"]

SSE_VERSION = "2024-11-05"
"""The revision of the transport with two endpoints."""


@dataclass(frozen=True, slots=True)
class Handshake(LegacyStep):
    """Send ``initialize`` with this revision.

    Attributes:
        fresh: on a new connection (the last one ended, or the process ended after the probe).
    """

    version: str
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class OpenSse(LegacyStep):
    """Try the transport of 2024-11-05: GET the URL and expect an ``endpoint`` event."""


@dataclass(frozen=True, slots=True)
class SseOpened(Answered):
    """The two-endpoint transport is open."""

    result: Any = None


@dataclass(slots=True)
class DualEraNegotiator(Negotiator):
    """One negotiation that may end with a handshake.

    Attributes:
        legacy: handshake revisions to offer, oldest first; not empty.
        has_sse: whether the two-endpoint transport can be tried (HTTP only).
        known_legacy: start with the handshake: the server's era is remembered. If that fails, probe after all.
    """

    legacy: Sequence[str] = HANDSHAKE_PROTOCOL_VERSIONS
    has_sse: bool = False
    known_legacy: bool = False
    _first_error: Exception | None = None
    _probed_late: bool = False
    _was_silent: bool = False
    _looks_like_sse: bool = False

    @property
    def offered(self) -> tuple[str, ...]:
        """See `Negotiator`."""
        return (*self.legacy, *self.modern)

    def start(self) -> Step:
        """See `Negotiator`."""
        if self.modern and not self.known_legacy:
            return self.do(Probe(self.modern[-1]))
        return self.do(Handshake(self.legacy[-1]))

    def handshake_with(self, supported: Any) -> Step | None:
        """See `Negotiator`."""
        versions = mutual_versions(supported, self.legacy)
        if not versions or self._did(Handshake):
            return None
        return self.do(Handshake(versions[0]))

    def fall_back(self, outcome: Outcome) -> Step:
        """See `Negotiator`."""
        error = error_of(outcome)
        if self._did(Handshake):
            return self._last_resort(error or NegotiationFailed("No era answered", self.offered))
        self._first_error = self._first_error or error
        self._was_silent = isinstance(outcome, Silent)
        return self.do(Handshake(self.legacy[-1], fresh=isinstance(outcome, Closed)))

    def after_handshake(self, last: Step, outcome: Outcome) -> Step:
        """See `Negotiator`."""
        if isinstance(last, OpenSse):
            return self._after_sse(outcome)
        if isinstance(outcome, Answered):
            return self._initialized(outcome.result)
        error = error_of(outcome)
        data = outcome.data if isinstance(outcome, RpcRefused) else None
        if is_mapping(data) and (retry := self._other_version(data)):
            return retry
        status = status_of(outcome)
        proves_modern = isinstance(outcome, RpcRefused) and is_modern_error(outcome.code, outcome.data)
        if status in NOT_ABOUT_ERAS:
            return self.fail(error)
        self._looks_like_sse = self.has_sse and status is not None and 400 <= status < 500 and not proves_modern
        if self._may_probe_again():
            self._first_error = error
            return self.do(Probe(self.modern[-1]))
        return self._last_resort(error)

    def _last_resort(self, error: Exception | None) -> Step:
        """Return the step after a failed handshake: servers of the 2024-11-05 transport refuse it with a 4xx status."""
        if self._looks_like_sse and not self._did(OpenSse):
            self._first_error = self._first_error or error
            return self.do(OpenSse())
        return self.fail(self._first_error or error)

    def _may_probe_again(self) -> bool:
        """Return whether to probe: the era was only remembered, or the server was starting at the first probe."""
        if self.modern and not self._did(Probe):
            return self.known_legacy
        is_again, self._was_silent = self._was_silent, False
        return is_again

    def _other_version(self, data: Mapping[str, Any]) -> Step | None:
        """Return the step after the server refused a handshake and listed its revisions; ``None`` if none is common."""
        legacy = mutual_versions(data.get("supported"), self.legacy)
        for version in legacy:
            if not any(isinstance(step, Handshake) and step.version == version for step in self.tried):
                return self.do(Handshake(version))
        modern = mutual_versions(data.get("supported"), self.modern)
        if modern and not self._probed_late:
            self._probed_late = True
            return self.do(Probe(modern[0]))
        return None

    def _initialized(self, result: Any) -> Step:
        version = mapping_of(result).get("protocolVersion")
        if version in self.legacy:
            return self.do(Settled(cast("str", version), result))
        if not self.modern and is_handshake_version(version):
            why = f"The server insists on {version}"
        else:
            why = f"The server answered initialize with the revision {version!r}"
        return self.fail(NegotiationFailed(why, self.offered, [version] if isinstance(version, str) else ()))

    def _after_sse(self, outcome: Outcome) -> Step:
        if isinstance(outcome, SseOpened):
            return self.do(Handshake(self.legacy[-1]))
        return self.fail(self._first_error)

    def _did(self, kind: type[Any]) -> bool:
        return any(isinstance(step, kind) for step in self.tried)
