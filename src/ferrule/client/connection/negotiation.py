"""Negotiation of era and revision with a server, as a pure function of its responses.

No I/O, no clock: the client asks `Negotiator.next_step` what to do, does it, and hands back the outcome. The same
table serves stdio, HTTP and in-process servers; they differ in a few flags.

The order: a modern probe (``server/discover``); the legacy handshake; over HTTP, the two-endpoint transport of
2024-11-05. A server proves that it is modern by a `DiscoverResult` or by one of the three codes that only a modern
server can send with their data well formed. Everything else, whatever its code, and silence as well, means: try the
handshake (specification 2026-07-28, "stdio" and "Versioning"; servers in the field answer an unknown first message
with -32601, -32602, -32600, HTTP 400, 404, 405, 500, a closed pipe, or nothing).

The rule that a newcomer would break: never conclude from -32601 or -32602. They are what a legacy server says to an
unknown or early method, and what a modern one says to other mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from ferrule.protocol.errors import LocalError
from ferrule.protocol.handshake import is_handshake_version
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS, REVISIONS

__all__ = [
    "Answered",
    "Closed",
    "Failed",
    "Handshake",
    "HttpRefused",
    "NegotiationFailed",
    "Negotiator",
    "OpenSse",
    "Outcome",
    "Probe",
    "RpcRefused",
    "Settled",
    "Silent",
    "SseOpened",
    "Step",
    "Unreachable",
    "error_of",
    "is_modern_error",
    "mutual_versions",
]

_NOT_ABOUT_ERAS: Final = frozenset({401, 403, 407, 429, 503})
"""HTTP statuses that say something about the caller or the moment, not about what the server speaks."""


_EMPTY: Mapping[str, Any] = {}


# -- what to do next ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probe:
    """Send ``server/discover`` in this revision, and wait for a bounded time."""

    version: str


@dataclass(frozen=True, slots=True)
class Handshake:
    """Send ``initialize`` with this revision.

    Attributes:
        fresh: on a new connection (the last one ended, or the process ended after the probe).
    """

    version: str
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class OpenSse:
    """Try the transport of 2024-11-05: GET the URL and expect an ``endpoint`` event."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Done.

    Attributes:
        version: the revision that holds.
        result: the `DiscoverResult` or `InitializeResult` as JSON.
    """

    version: str
    result: Mapping[str, Any]

    @property
    def is_modern(self) -> bool:
        """Which era."""
        return REVISIONS[self.version].is_modern


@dataclass(frozen=True, slots=True)
class Failed:
    """Given up; ``error`` says why."""

    error: Exception


Step: TypeAlias = Probe | Handshake | OpenSse | Settled | Failed


# -- what came of it ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answered:
    """The server sent a result."""

    result: Any


@dataclass(frozen=True, slots=True)
class RpcRefused:
    """The server sent a JSON-RPC error; over HTTP with this status."""

    code: int
    error: Exception
    data: Any = None
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class HttpRefused:
    """The server sent an HTTP error without a JSON-RPC error in it."""

    status: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Silent:
    """No answer within the time for a probe."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection or process ended instead of answering."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No connection could be made, or the credentials were refused: no era would help."""

    error: Exception


@dataclass(frozen=True, slots=True)
class SseOpened:
    """The two-endpoint transport is open."""


Outcome: TypeAlias = Answered | RpcRefused | HttpRefused | Silent | Closed | Unreachable | SseOpened


def error_of(outcome: Outcome) -> Exception | None:
    """Return the error that an outcome carries; ``None`` for those that are not failures."""
    return None if isinstance(outcome, Answered | SseOpened) else outcome.error


def _status_of(outcome: Outcome) -> int | None:
    """Return the HTTP status under which the server refused; ``None`` where there is none."""
    if isinstance(outcome, HttpRefused):
        return outcome.status
    return outcome.http_status if isinstance(outcome, RpcRefused) else None


class NegotiationFailed(LocalError):
    """Client and server have no revision in common.

    Attributes:
        offered: the revisions that this client offered.
        supported: those that the server named; empty if it named none.
    """

    def __init__(self, why: str, offered: Sequence[str], supported: Sequence[str] = ()) -> None:
        theirs = f"; the server speaks {', '.join(supported)}" if supported else ""
        super().__init__(f"{why} (this client offered {', '.join(offered)}{theirs})")
        self.offered = tuple(offered)
        self.supported = tuple(supported)


def mutual_versions(named: Any, ours: Sequence[str]) -> list[str]:
    """Return the revisions that both support, newest first; empty if the server's value is not a list of strings."""
    if not is_list(named):
        return []
    theirs = {version for version in named if isinstance(version, str)}
    return [version for version in reversed(ours) if version in theirs]


def is_modern_error(code: int, data: Any) -> bool:
    """Whether an error proves a modern server: one of its three codes, with the data that the code demands."""
    if code == JsonRpcErrorCode.HEADER_MISMATCH:
        return True
    fields = _mapping(data)
    if code == JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        return _is_list_of_text(fields.get("supported"))
    if code == JsonRpcErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY:
        return isinstance(fields.get("requiredCapabilities"), Mapping)
    return False


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if is_mapping(value) else _EMPTY


def _is_list_of_text(value: Any) -> bool:
    return is_list(value) and all(isinstance(item, str) for item in value)


@dataclass(slots=True)
class Negotiator:
    """One negotiation.

    Attributes:
        modern: modern revisions to offer, rising; empty: legacy only.
        legacy: handshake revisions to offer, rising; empty: modern only.
        has_sse: whether the two-endpoint transport can be tried (HTTP only).
        known_legacy: start with the handshake: the server's era is remembered. If that fails, probe after all.
        tried: the steps so far, for the error and for tests.
    """

    modern: Sequence[str] = MODERN_PROTOCOL_VERSIONS
    legacy: Sequence[str] = HANDSHAKE_PROTOCOL_VERSIONS
    has_sse: bool = False
    known_legacy: bool = False
    tried: list[Step] = field(default_factory=list[Step])
    _first_error: Exception | None = None
    _probed_late: bool = False
    _was_silent: bool = False
    _looks_like_sse: bool = False

    @classmethod
    def for_mode(cls, mode: str, *, has_sse: bool = False, known_legacy: bool = False) -> Negotiator:
        """Return the negotiation for a client's ``mode``.

        Raises:
            ValueError: neither ``"auto"``, ``"legacy"`` nor a revision that this library supports.
        """
        if mode == "auto":
            return cls(has_sse=has_sse, known_legacy=known_legacy)
        if mode == "legacy":
            return cls(modern=(), has_sse=has_sse)
        revision = REVISIONS.get(mode)
        if revision is None:
            raise ValueError(f"mode is 'auto', 'legacy' or one of {', '.join(REVISIONS)}, not {mode!r}")
        if revision.is_modern:
            return cls(modern=(mode,), legacy=())
        return cls(modern=(), legacy=(mode,), has_sse=has_sse)

    @property
    def offered(self) -> tuple[str, ...]:
        """Every revision that this negotiation may end with."""
        return (*self.legacy, *self.modern)

    def start(self) -> Step:
        """Return the first step."""
        if self.modern and not (self.known_legacy and self.legacy):
            return self._do(Probe(self.modern[-1]))
        return self._do(Handshake(self.legacy[-1]))

    def next_step(self, outcome: Outcome) -> Step:
        """Return the next step after the outcome of the last one."""
        last = self.tried[-1]
        if isinstance(outcome, Unreachable):
            return self._fail(outcome.error)
        if isinstance(last, Probe):
            return self._after_probe(last, outcome)
        if isinstance(last, OpenSse):
            return self._after_sse(outcome)
        return self._after_handshake(outcome)

    # -- the table ----------------------------------------------------------------------------------------------

    def _after_probe(self, last: Probe, outcome: Outcome) -> Step:
        if isinstance(outcome, Answered):
            named = _mapping(outcome.result)
            versions = named.get("supportedVersions")
            if _is_list_of_text(versions):
                return self._from_supported(last, versions, named)
        elif isinstance(outcome, RpcRefused) and is_modern_error(outcome.code, outcome.data):
            if outcome.code == JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
                return self._from_supported(last, outcome.data["supported"], None)
            return self._fail(outcome.error)
        elif isinstance(outcome, HttpRefused | RpcRefused) and _status_of(outcome) in _NOT_ABOUT_ERAS:
            return self._fail(outcome.error)
        return self._fall_back(outcome)

    def _from_supported(self, last: Probe, supported: Any, discovered: Mapping[str, Any] | None) -> Step:
        """The server named its revisions: as a `DiscoverResult`, or while refusing one."""
        modern = mutual_versions(supported, self.modern)
        if discovered is not None and modern:
            return self._do(Settled(modern[0], discovered))
        for version in modern:
            # A server that refuses a revision that it lists itself is not asked a third time.
            if self.tried.count(Probe(version)) < 2:
                return self._do(Probe(version))
        legacy = mutual_versions(supported, self.legacy)
        if legacy and not any(isinstance(step, Handshake) for step in self.tried):
            return self._do(Handshake(legacy[0]))
        why = f"The server does not speak {last.version}"
        return self._fail(NegotiationFailed(why, self.offered, [str(version) for version in supported]))

    def _fall_back(self, outcome: Outcome) -> Step:
        """The probe proved nothing."""
        error = error_of(outcome)
        if not self.legacy:
            why = "The server did not answer server/discover as a server of this era does"
            failure = NegotiationFailed(f"{why}: {error}" if error else why, self.offered)
            failure.__cause__ = error
            return self._fail(failure)
        if any(isinstance(step, Handshake) for step in self.tried):
            return self._last_resort(error or NegotiationFailed("No era answered", self.offered))
        self._first_error = self._first_error or error
        self._was_silent = isinstance(outcome, Silent)
        return self._do(Handshake(self.legacy[-1], fresh=isinstance(outcome, Closed)))

    def _after_handshake(self, outcome: Outcome) -> Step:
        if isinstance(outcome, Answered):
            return self._initialized(outcome.result)
        error = error_of(outcome)
        data = outcome.data if isinstance(outcome, RpcRefused) else None
        if is_mapping(data) and (retry := self._other_version(data)):
            return retry
        status = _status_of(outcome)
        is_modern = isinstance(outcome, RpcRefused) and is_modern_error(outcome.code, outcome.data)
        if status in _NOT_ABOUT_ERAS:
            return self._fail(error)
        self._looks_like_sse = self.has_sse and status is not None and 400 <= status < 500 and not is_modern
        if self._may_probe_again():
            self._first_error = error
            return self._do(Probe(self.modern[-1]))
        return self._last_resort(error)

    def _last_resort(self, error: Exception | None) -> Step:
        """What else answers a handshake with 4xx: a server of 2024-11-05."""
        if self._looks_like_sse and not self._did(OpenSse):
            self._first_error = self._first_error or error
            return self._do(OpenSse())
        return self._fail(self._first_error or error)

    def _may_probe_again(self) -> bool:
        """The era was only remembered, or the probe was sent while the server was still starting."""
        if self.modern and not self._did(Probe):
            return self.known_legacy
        is_again, self._was_silent = self._was_silent, False
        return is_again

    def _other_version(self, data: Mapping[str, Any]) -> Step | None:
        """The server refused a handshake and listed its revisions, in the form of either era."""
        legacy = mutual_versions(data.get("supported"), self.legacy)
        for version in legacy:
            if not any(isinstance(step, Handshake) and step.version == version for step in self.tried):
                return self._do(Handshake(version))
        modern = mutual_versions(data.get("supported"), self.modern)
        if modern and not self._probed_late:
            self._probed_late = True
            return self._do(Probe(modern[0]))
        return None

    def _initialized(self, result: Any) -> Step:
        version = _mapping(result).get("protocolVersion")
        if version in self.legacy:
            return self._do(Settled(cast("str", version), result))
        if not self.modern and is_handshake_version(version):
            why = f"The server insists on {version}"
        else:
            why = f"The server answered initialize with the revision {version!r}"
        return self._fail(NegotiationFailed(why, self.offered, [version] if isinstance(version, str) else ()))

    def _after_sse(self, outcome: Outcome) -> Step:
        if isinstance(outcome, SseOpened):
            return self._do(Handshake(self.legacy[-1]))
        return self._fail(self._first_error)

    def _did(self, kind: type[Any]) -> bool:
        return any(isinstance(step, kind) for step in self.tried)

    def _do(self, step: Step) -> Step:
        self.tried.append(step)
        return step

    def _fail(self, error: Exception | None) -> Step:
        return self._do(Failed(error or NegotiationFailed("The negotiation failed", self.offered)))
