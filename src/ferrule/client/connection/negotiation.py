"""Negotiation of era and revision with a server, as a pure function of its responses.

No I/O, no clock: `Negotiator.next_step` returns the next step, the client performs it and passes the outcome to the
next call. The rules are the same for stdio, HTTP and in-process servers, apart from a few flags.

The order: a modern probe (``server/discover``); the legacy handshake; over HTTP, the two-endpoint transport of
2024-11-05. A server proves that it is modern by a `DiscoverResult` or by one of the three codes that only a modern
server can send with their data well formed. Everything else, whatever its code, and silence as well, means: try the
handshake (specification 2026-07-28, "stdio" and "Versioning"; servers in the field answer an unknown first message
with -32601, -32602, -32600, HTTP 400, 404, 405, 500, a closed pipe, or nothing).

The codes -32601 and -32602 prove no era: a legacy server sends them for an unknown or early method, and a modern one
for other errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ferrule.protocol.errors import LocalError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS, REVISIONS

__all__ = [
    "NOT_ABOUT_ERAS",
    "Answered",
    "Closed",
    "Failed",
    "HttpRefused",
    "LegacyStep",
    "NegotiationFailed",
    "Negotiator",
    "Outcome",
    "Probe",
    "RpcRefused",
    "Settled",
    "Silent",
    "Step",
    "Unreachable",
    "error_of",
    "is_modern_error",
    "mapping_of",
    "mutual_versions",
    "offered_versions",
    "status_of",
]

NOT_ABOUT_ERAS: Final = frozenset({401, 403, 407, 429, 503})
"""HTTP statuses that depend on the caller or on the server's load, not on the era of the server."""


_EMPTY: Mapping[str, Any] = {}


# -- what to do next ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probe:
    """Send ``server/discover`` in this revision, and wait for a bounded time."""

    version: str


class LegacyStep:
    """A step of the handshake era; see `ferrule.client.connection.legacy.negotiation`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The negotiation has succeeded.

    Attributes:
        version: the negotiated revision.
        result: the `DiscoverResult` or `InitializeResult` as JSON.
    """

    version: str
    result: Mapping[str, Any]

    @property
    def is_modern(self) -> bool:
        """Whether the negotiated revision belongs to the modern era."""
        return REVISIONS[self.version].is_modern


@dataclass(frozen=True, slots=True)
class Failed:
    """The negotiation has failed with ``error``."""

    error: Exception


Step: TypeAlias = Probe | LegacyStep | Settled | Failed


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
    """The server sent no response within the time limit of a probe."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection or process ended instead of answering."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No connection could be made, or the credentials were refused: another era would fail too."""

    error: Exception


Outcome: TypeAlias = Answered | RpcRefused | HttpRefused | Silent | Closed | Unreachable


def error_of(outcome: Outcome) -> Exception | None:
    """Return the error that an outcome carries; ``None`` for those that are not failures."""
    return None if isinstance(outcome, Answered) else outcome.error


def status_of(outcome: Outcome) -> int | None:
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
    """Return whether an error proves a modern server: one of its three codes, with the data that the code requires."""
    if code == JsonRpcErrorCode.HEADER_MISMATCH:
        return True
    fields = mapping_of(data)
    if code == JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        return _is_list_of_text(fields.get("supported"))
    if code == JsonRpcErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY:
        return isinstance(fields.get("requiredCapabilities"), Mapping)
    return False


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return value if is_mapping(value) else _EMPTY


def _is_list_of_text(value: Any) -> bool:
    return is_list(value) and all(isinstance(item, str) for item in value)


def offered_versions(mode: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the modern and the handshake revisions that a client's ``mode`` offers, both oldest first.

    Raises:
        ValueError: neither ``"auto"``, ``"legacy"`` nor a revision that this library supports.
    """
    if mode == "auto":
        return tuple(MODERN_PROTOCOL_VERSIONS), tuple(HANDSHAKE_PROTOCOL_VERSIONS)
    if mode == "legacy":
        return (), tuple(HANDSHAKE_PROTOCOL_VERSIONS)
    revision = REVISIONS.get(mode)
    if revision is None:
        raise ValueError(f"mode is 'auto', 'legacy' or one of {', '.join(REVISIONS)}, not {mode!r}")
    return ((mode,), ()) if revision.is_modern else ((), (mode,))


@dataclass(slots=True)
class Negotiator:
    """One negotiation with revisions of the modern era only.

    `ferrule.client.connection.legacy.negotiation.DualEraNegotiator` adds the handshake.

    Attributes:
        modern: modern revisions to offer, oldest first.
        tried: the steps so far, for the error and for tests.
    """

    modern: Sequence[str] = MODERN_PROTOCOL_VERSIONS
    tried: list[Step] = field(default_factory=list[Step])

    @property
    def offered(self) -> tuple[str, ...]:
        """Every revision that this negotiation may end with."""
        return tuple(self.modern)

    def start(self) -> Step:
        """Return the first step."""
        return self.do(Probe(self.modern[-1]))

    def next_step(self, outcome: Outcome) -> Step:
        """Return the next step after the outcome of the last one."""
        last = self.tried[-1]
        if isinstance(outcome, Unreachable):
            return self.fail(outcome.error)
        if isinstance(last, Probe):
            return self.after_probe(last, outcome)
        return self.after_handshake(last, outcome)

    # -- the table of the modern era ----------------------------------------------------------------------------------

    def after_probe(self, last: Probe, outcome: Outcome) -> Step:
        """Return the step after a probe."""
        if isinstance(outcome, Answered):
            named = mapping_of(outcome.result)
            versions = named.get("supportedVersions")
            if _is_list_of_text(versions):
                return self._from_supported(last, versions, named)
        elif isinstance(outcome, RpcRefused) and is_modern_error(outcome.code, outcome.data):
            if outcome.code == JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
                return self._from_supported(last, outcome.data["supported"], None)
            return self.fail(outcome.error)
        elif isinstance(outcome, HttpRefused | RpcRefused) and status_of(outcome) in NOT_ABOUT_ERAS:
            return self.fail(outcome.error)
        return self.fall_back(outcome)

    def _from_supported(self, last: Probe, supported: Any, discovered: Mapping[str, Any] | None) -> Step:
        """Return the step after the server listed its revisions, in a `DiscoverResult` or in an error."""
        modern = mutual_versions(supported, self.modern)
        if discovered is not None and modern:
            return self.do(Settled(modern[0], discovered))
        for version in modern:
            # Some servers refuse a revision that they list themselves; they are not probed a third time.
            if self.tried.count(Probe(version)) < 2:
                return self.do(Probe(version))
        handshake = self.handshake_with(supported)
        if handshake is not None:
            return handshake
        why = f"The server does not speak {last.version}"
        return self.fail(NegotiationFailed(why, self.offered, [str(version) for version in supported]))

    def give_up(self, outcome: Outcome) -> Step:
        """Return the failure after a probe that proved nothing."""
        error = error_of(outcome)
        why = "The server did not answer server/discover as a server of this era does"
        failure = NegotiationFailed(f"{why}: {error}" if error else why, self.offered)
        failure.__cause__ = error
        return self.fail(failure)

    # -- what the handshake era adds ----------------------------------------------------------------------------------

    def handshake_with(self, supported: Any) -> Step | None:
        """Return a handshake with one of the revisions that the server named; ``None``: there is none to offer."""
        return None

    def fall_back(self, outcome: Outcome) -> Step:
        """Return the step after a probe that proved nothing."""
        return self.give_up(outcome)

    def after_handshake(self, last: Step, outcome: Outcome) -> Step:
        """Return the step after one of the handshake era, which this class never takes."""
        raise NotImplementedError

    # -- steps --------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> Step:
        """Note a step and return it."""
        self.tried.append(step)
        return step

    def fail(self, error: Exception | None) -> Step:
        """Return the end of the negotiation with an error."""
        return self.do(Failed(error or NegotiationFailed("The negotiation failed", self.offered)))
