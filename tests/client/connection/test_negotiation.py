"""The negotiation table: every outcome of every step, without a wire."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.connection.connector import negotiator_for
from ferrule.client.connection.legacy.negotiation import Handshake, OpenSse, SseOpened
from ferrule.client.connection.negotiation import (
    Answered,
    Closed,
    Failed,
    HttpRefused,
    NegotiationFailed,
    Outcome,
    Probe,
    RpcRefused,
    Settled,
    Silent,
    Unreachable,
    is_modern_error,
)

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERROR = RuntimeError("as the server put it")
DISCOVERED = {"supportedVersions": [MODERN], "capabilities": {}}
INITIALIZED = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


def refused(code: int, data: Any = None, status: int | None = None) -> RpcRefused:
    return RpcRefused(code, ERROR, data, status)


def test_discover_result_settles_modern() -> None:
    """The plain good case costs one round trip."""
    negotiator = negotiator_for("auto")
    assert negotiator.start() == Probe(MODERN)
    step = negotiator.next_step(Answered(DISCOVERED))
    assert isinstance(step, Settled)
    assert (step.version, step.is_modern) == (MODERN, True)


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, -32700, -32000, -32001, -32022, -1, 0, 7])
def test_no_single_code_decides_the_fallback(code: int) -> None:
    """Servers in the field refuse an unknown first message with any code; -32022 without its data is one of them."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    assert negotiator.next_step(refused(code)) == Handshake(LEGACY)


@pytest.mark.parametrize(
    "outcome",
    [
        Silent(ERROR),
        Answered({}),
        Answered(None),
        Answered({"supportedVersions": "2026-07-28"}),
        HttpRefused(400, ERROR),
        HttpRefused(404, ERROR),
        HttpRefused(405, ERROR),
        HttpRefused(406, ERROR),
        HttpRefused(415, ERROR),
        HttpRefused(500, ERROR),
        refused(-32602, {"supported": [MODERN]}, 400),
    ],
)
def test_everything_that_proves_nothing_falls_back(outcome: Outcome) -> None:
    """Silence, an empty answer, an HTTP error without a modern body: the handshake follows on the same channel."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    assert negotiator.next_step(outcome) == Handshake(LEGACY)


def test_server_that_ends_at_the_probe_gets_a_new_connection() -> None:
    """Some stdio servers exit on an unknown first message."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    assert negotiator.next_step(Closed(ERROR)) == Handshake(LEGACY, fresh=True)


@pytest.mark.parametrize("status", [401, 403, 407, 429, 503])
def test_statuses_about_the_caller_end_it(status: int) -> None:
    """A refused credential is not an old server."""
    negotiator = negotiator_for("auto", has_sse=True)
    negotiator.start()
    assert negotiator.next_step(HttpRefused(status, ERROR)) == Failed(ERROR)


def test_unreachable_ends_it_at_once() -> None:
    """No connection: the real reason is the error, not a failed handshake after it."""
    negotiator = negotiator_for("auto", has_sse=True)
    negotiator.start()
    assert negotiator.next_step(Unreachable(ERROR)) == Failed(ERROR)


def test_unsupported_version_with_legacy_versions_means_the_handshake() -> None:
    """`supported` may list legacy revisions; they need `initialize`, not an envelope."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    step = negotiator.next_step(refused(-32022, {"supported": ["2025-06-18", LEGACY, "2099-01-01"], "requested": "x"}))
    assert step == Handshake(LEGACY)


def test_unsupported_version_that_lists_ours_is_asked_once_more() -> None:
    """A recognised modern error must not fall back."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    supported = {"supported": [MODERN], "requested": MODERN}
    assert negotiator.next_step(refused(-32022, supported)) == Probe(MODERN)
    assert isinstance(negotiator.next_step(refused(-32022, supported)), Failed)


def test_no_mutual_version_names_both_sides() -> None:
    """The operator must see the versions of both sides."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    step = negotiator.next_step(refused(-32022, {"supported": ["2099-01-01"]}))
    assert isinstance(step, Failed)
    assert isinstance(step.error, NegotiationFailed)
    assert step.error.supported == ("2099-01-01",)
    assert MODERN in str(step.error)


@pytest.mark.parametrize("code", [-32020, -32021])
def test_other_modern_errors_do_not_fall_back(code: int) -> None:
    """-32020 and -32021 prove a modern server; a handshake would only hide the reason."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    assert negotiator.next_step(refused(code, {"requiredCapabilities": {}}, 400)) == Failed(ERROR)


def test_handshake_refused_over_http_tries_two_endpoints() -> None:
    """404 to `initialize` is how a server of 2024-11-05 looks."""
    negotiator = negotiator_for("auto", has_sse=True)
    negotiator.start()
    assert negotiator.next_step(HttpRefused(405, ERROR)) == Handshake(LEGACY)
    assert negotiator.next_step(HttpRefused(405, ERROR)) == OpenSse()
    assert negotiator.next_step(SseOpened()) == Handshake(LEGACY)
    assert isinstance(negotiator.next_step(Answered(INITIALIZED)), Settled)


def test_failed_two_endpoints_report_the_handshakes_error() -> None:
    """The error of the last attempt would not help."""
    negotiator = negotiator_for("legacy", has_sse=True)
    negotiator.start()
    assert negotiator.next_step(HttpRefused(404, ERROR)) == OpenSse()
    assert negotiator.next_step(HttpRefused(404, RuntimeError("later"))) == Failed(ERROR)


def test_modern_only_server_met_by_a_legacy_client() -> None:
    """-32022 to `initialize` is not a server of 2024-11-05."""
    negotiator = negotiator_for("legacy", has_sse=True)
    assert negotiator.start() == Handshake(LEGACY)
    assert negotiator.next_step(refused(-32022, {"supported": [MODERN]}, 400)) == Failed(ERROR)


def test_slow_modern_server_is_probed_again_after_it_refused_the_handshake() -> None:
    """The probe timed out, the server was only slow to start."""
    negotiator = negotiator_for("auto")
    negotiator.start()
    assert negotiator.next_step(Silent(ERROR)) == Handshake(LEGACY)
    assert negotiator.next_step(refused(-32022, {"supported": [MODERN]})) == Probe(MODERN)
    assert isinstance(negotiator.next_step(Answered(DISCOVERED)), Settled)


def test_handshake_retries_a_listed_version_once() -> None:
    """A strict legacy server refuses our newest revision and lists what it has."""
    negotiator = negotiator_for("legacy")
    negotiator.start()
    data = {"supported": ["2024-11-05"], "requested": LEGACY}
    assert negotiator.next_step(refused(-32602, data)) == Handshake("2024-11-05")
    assert negotiator.next_step(refused(-32602, data)) == Failed(ERROR)


def test_unknown_version_in_the_handshake_answer_fails() -> None:
    """The client disconnects from what it does not speak."""
    negotiator = negotiator_for("legacy")
    negotiator.start()
    step = negotiator.next_step(Answered({**INITIALIZED, "protocolVersion": "1999-01-01"}))
    assert isinstance(step, Failed)
    assert "1999-01-01" in str(step.error)


def test_remembered_legacy_starts_with_the_handshake_and_probes_when_it_fails() -> None:
    """A cached era is an assumption: it is tested again when it fails."""
    negotiator = negotiator_for("auto", known_legacy=True)
    assert negotiator.start() == Handshake(LEGACY)
    assert negotiator.next_step(refused(-32600)) == Probe(MODERN)


def test_remembered_legacy_that_fails_is_probed_before_two_endpoints() -> None:
    """An upgraded server answers the old handshake with 404, as one of 2024-11-05 does; the probe decides."""
    negotiator = negotiator_for("auto", known_legacy=True, has_sse=True)
    negotiator.start()
    assert negotiator.next_step(HttpRefused(404, ERROR)) == Probe(MODERN)
    assert negotiator.next_step(HttpRefused(404, ERROR)) == OpenSse()


def test_pinned_modern_never_falls_back_and_says_why() -> None:
    """A modern-only client fails with an actionable message."""
    negotiator = negotiator_for(MODERN)
    assert negotiator.start() == Probe(MODERN)
    step = negotiator.next_step(refused(-32601))
    assert isinstance(step, Failed)
    assert "server/discover" in str(step.error)


def test_pinned_legacy_revision_asks_for_exactly_that() -> None:
    """A server that insists on another revision is refused."""
    negotiator = negotiator_for("2025-03-26")
    assert negotiator.start() == Handshake("2025-03-26")
    assert isinstance(negotiator.next_step(Answered(INITIALIZED)), Failed)


def test_unknown_mode_is_the_callers_mistake() -> None:
    """A typing error must not quietly mean auto."""
    with pytest.raises(ValueError, match="mode is"):
        negotiator_for("modern-ish")


@pytest.mark.parametrize(
    ("code", "data", "proves"),
    [
        (-32020, None, True),
        (-32021, {"requiredCapabilities": {"sampling": {}}}, True),
        (-32021, None, False),
        (-32022, {"supported": []}, True),
        (-32022, {"supported": [1]}, False),
        (-32022, {"supported": "x"}, False),
        (-32601, {"supported": [MODERN]}, False),
    ],
)
def test_what_proves_a_modern_server(code: int, data: Any, proves: bool) -> None:
    """Three codes, the last two with their data."""
    assert is_modern_error(code, data) is proves


def test_no_sequence_of_outcomes_loops() -> None:
    """Whatever a server answers, the negotiation ends within a few steps."""
    outcomes: list[Outcome] = [
        Answered({}),
        Answered(DISCOVERED | {"supportedVersions": ["2099-01-01"]}),
        Answered({"protocolVersion": "x"}),
        refused(-32601),
        refused(-32022, {"supported": [MODERN, LEGACY, "2024-11-05"]}, 400),
        refused(-32602, {"supported": [MODERN, "2024-11-05"]}, 400),
        HttpRefused(400, ERROR),
        Silent(ERROR),
        Closed(ERROR),
        SseOpened(),
    ]

    def walk(path: list[Outcome]) -> None:
        for known in (False, True):
            negotiator = negotiator_for("auto", has_sse=True, known_legacy=known)
            step = negotiator.start()
            for outcome in path:
                if isinstance(step, Settled | Failed):
                    break
                step = negotiator.next_step(outcome)
            assert len(path) < 8 or isinstance(step, Settled | Failed)

    def extend(path: list[Outcome], depth: int) -> None:
        if depth == 0:
            walk(path + [path[-1]] * 5)
            return
        for outcome in outcomes:
            extend([*path, outcome], depth - 1)

    extend([], 3)
