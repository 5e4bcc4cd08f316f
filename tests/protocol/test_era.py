"""The era lock: every state with every kind of message."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ferrule.protocol.era import TRANSITIONS, VERDICTS, Era, EraLock, MessageEra, Verdict, message_era
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS

ENVELOPE = {"_meta": {PROTOCOL_VERSION_KEY: "2026-07-28", CLIENT_CAPABILITIES_KEY: {}}}

EXPECTED = {
    ("open", "initialize"): ("serve_legacy", "legacy"),
    ("open", "envelope"): ("serve_modern", "modern"),
    ("open", "plain"): ("serve_legacy", "open"),
    ("legacy", "initialize"): ("serve_legacy", "legacy"),
    ("legacy", "envelope"): ("refuse_envelope", "legacy"),
    ("legacy", "plain"): ("serve_legacy", "legacy"),
    ("modern", "initialize"): ("refuse_initialize", "modern"),
    ("modern", "envelope"): ("serve_modern", "modern"),
    ("modern", "plain"): ("serve_modern", "modern"),
}
"""(state, message) → (what is done, where its success leads); written out a second time, from the contract."""


def test_the_tables_are_whole_and_closed() -> None:
    """Every pair has an entry, and the tables are read-only."""
    pairs = set(itertools.product(Era, MessageEra))
    assert set(VERDICTS) == set(TRANSITIONS) == pairs
    assert len(EXPECTED) == len(pairs)
    with pytest.raises(TypeError):
        VERDICTS[Era.OPEN, MessageEra.PLAIN] = Verdict.SERVE_MODERN  # type: ignore[index]
    with pytest.raises(TypeError):
        TRANSITIONS[Era.OPEN, MessageEra.PLAIN] = Era.LEGACY  # type: ignore[index]


@pytest.mark.parametrize(("pair", "expected"), EXPECTED.items())
def test_each_transition(pair: tuple[str, str], expected: tuple[str, str]) -> None:
    """A lock is never left, and only a success locks."""
    state, kind = Era(pair[0]), MessageEra(pair[1])
    lock = EraLock()
    lock.state = state
    verdict = lock.judge(kind)
    assert verdict.value == expected[0]
    assert lock.state is state, "judging alone must not lock"
    if lock.refusal(verdict, {}) is None:
        lock.succeeded(kind)
    assert lock.state.value == expected[1]


def test_every_walk_of_four_messages_ends_where_its_first_success_put_it() -> None:
    """All 81 walks: the first message that is not neutral decides for good."""
    for walk in itertools.product(MessageEra, repeat=4):
        lock = EraLock()
        for kind in walk:
            if lock.refusal(lock.judge(kind), {}) is None:
                lock.succeeded(kind)
        first = next((kind for kind in walk if kind is not MessageEra.PLAIN), None)
        locked = {None: Era.OPEN, MessageEra.INITIALIZE: Era.LEGACY, MessageEra.ENVELOPE: Era.MODERN}
        assert lock.state is locked[first]


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("initialize", None, MessageEra.INITIALIZE),
        ("initialize", ENVELOPE, MessageEra.INITIALIZE),
        ("server/discover", None, MessageEra.ENVELOPE),
        ("server/discover", ENVELOPE, MessageEra.ENVELOPE),
        ("tools/list", ENVELOPE, MessageEra.ENVELOPE),
        ("tools/list", {"_meta": {CLIENT_INFO_KEY: {}}}, MessageEra.ENVELOPE),
        ("ping", ENVELOPE, MessageEra.ENVELOPE),
        ("ping", None, MessageEra.PLAIN),
        ("tools/list", {}, MessageEra.PLAIN),
        ("tools/list", {"_meta": {"progressToken": 1}}, MessageEra.PLAIN),
        ("no/such", [], MessageEra.PLAIN),
        ("notifications/cancelled", {"requestId": 1}, MessageEra.PLAIN),
    ],
)
def test_what_a_message_shows_of_its_era(method: str, params: Any, kind: MessageEra) -> None:
    """By itself, before any rule is applied."""
    assert message_era(method, params) is kind


@pytest.mark.parametrize("verdict", [Verdict.SERVE_LEGACY, Verdict.SERVE_MODERN])
def test_a_serving_verdict_refuses_nothing(verdict: Verdict) -> None:
    """Then the runner decides."""
    assert EraLock().refusal(verdict, {}) is None


def test_a_late_envelope_is_an_invalid_request() -> None:
    """-32600: the connection was opened the other way."""
    refusal = EraLock().refusal(Verdict.REFUSE_ENVELOPE, ENVELOPE)
    assert refusal is not None
    assert refusal.code == -32600


@pytest.mark.parametrize("params", [None, [], {}, {"protocolVersion": None}, {"protocolVersion": "2025-11-25"}, "x"])
def test_the_error_of_a_late_initialize_lists_the_modern_versions(params: Any) -> None:
    """-32022 with what is supported and what was asked, whatever stands in params."""
    refusal = EraLock().refusal(Verdict.REFUSE_INITIALIZE, params)
    assert refusal is not None
    assert refusal.code == -32022
    asked = params.get("protocolVersion") if isinstance(params, dict) else None
    assert refusal.data == {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": asked}
    own = EraLock(("2030-01-01",)).refusal(Verdict.REFUSE_INITIALIZE, params)
    assert own is not None
    assert own.data["supported"] == ["2030-01-01"]
