"""The legacy handshake as one pure negotiation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.protocol.errors import InvalidParams
from ferrule.protocol.legacy.handshake import negotiate_initialize, negotiate_version, read_initialize_params
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

GOOD: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"sampling": {}, "x-own": {"deep": [1]}},
    "clientInfo": {"name": "c", "version": "1"},
}


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_a_supported_revision_is_confirmed(version: str) -> None:
    """The requested revision if we speak it."""
    assert negotiate_version(version) == version


@pytest.mark.parametrize("version", ["", "2030-01-01", "2024-10-07", "latest", *MODERN_PROTOCOL_VERSIONS])
def test_any_other_gets_the_latest_handshake_revision(version: str) -> None:
    """Also a modern one: it has no handshake."""
    assert negotiate_version(version) == LATEST_HANDSHAKE_VERSION


@given(st.text(), st.lists(st.sampled_from(HANDSHAKE_PROTOCOL_VERSIONS), min_size=1, unique=True))
def test_the_result_is_always_a_supported_revision(version: str, supported: list[str]) -> None:
    """A server must never answer what it does not speak."""
    answer = negotiate_version(version, supported)
    assert answer in supported
    assert answer == version or version not in supported


def test_result_and_state_come_from_one_value() -> None:
    """The params, with unknown keys, and the revision belong together."""
    negotiation = negotiate_initialize(read_initialize_params(GOOD))
    assert negotiation.protocol_version == "2025-06-18"
    assert negotiation.client.client_info.name == "c"
    assert negotiation.client.capabilities == GOOD["capabilities"]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {**GOOD, "protocolVersion": 1},
        {**GOOD, "protocolVersion": None},
        {**GOOD, "capabilities": None},
        {**GOOD, "capabilities": []},
        {**GOOD, "capabilities": {"sampling": True}},
        {**GOOD, "clientInfo": {}},
        {**GOOD, "clientInfo": "c"},
        {key: value for key, value in GOOD.items() if key != "clientInfo"},
    ],
)
def test_malformed_params_are_the_clients_fault(params: Any) -> None:
    """-32602 with the path."""
    with pytest.raises(InvalidParams) as caught:
        read_initialize_params(params)
    assert caught.value.code == -32602


def test_unknown_members_are_no_fault() -> None:
    """A newer client says more."""
    assert read_initialize_params({**GOOD, "future": 1}).protocol_version == "2025-06-18"
