"""ferrule.app.rounds.settings: defaults that the documentation promises, and keys that processes share."""

from __future__ import annotations

import logging
import sys

import pytest

from ferrule import MCPServer
from ferrule.app.rounds.errors import StateUnknownKey
from ferrule.app.rounds.settings import RoundsSettings, StateSettings


def test_the_defaults_are_those_of_the_documentation() -> None:
    """A day and ten minutes for states, 64 KiB that travel, 32 rounds, a second to unwind."""
    state = StateSettings()
    assert (state.ttl_s, state.max_s, state.inline_bytes, state.is_single_use) == (600, 86_400, 65_536, False)
    settings = RoundsSettings()
    assert (settings.max_rounds, settings.grace_s, settings.replay_wait_s, settings.step_wait_s) == (32, 1, 1, 30)
    assert settings.used_states is None


def test_processes_that_share_a_key_open_each_others_states() -> None:
    """Workers of one command get one, so that any of them may continue a call."""
    first, second = RoundsSettings(), RoundsSettings()
    with pytest.raises(StateUnknownKey):
        second.sealer.open(first.sealer.seal(1))
    for settings in (first, second):
        settings.share_keys([b"k" * 32])
    assert second.sealer.open(first.sealer.seal(1)) == 1
    assert not first.uses_process_key


def test_a_shared_key_does_not_replace_configured_ones() -> None:
    """The operator's keys may be those of other machines, too."""
    configured = RoundsSettings(state=StateSettings(keys=["o" * 32]))
    token = configured.sealer.seal(1)
    configured.share_keys([b"k" * 32])
    assert configured.sealer.open(token) == 1
    assert RoundsSettings(state=StateSettings(keys=["o" * 32])).sealer.open(configured.sealer.seal(2)) == 2


def test_a_missing_configuration_is_logged_once_and_only_if_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """A shared key is one."""
    alone, shared = RoundsSettings(), RoundsSettings()
    shared.share_keys([b"k" * 32])
    with caplog.at_level(logging.WARNING):
        for settings in (alone, alone, shared):
            settings.warn_of_keys()
    assert len(caplog.records) == 1


def test_settings_are_given_by_name() -> None:
    """Options that are added later must not change what the position of another one means."""
    with pytest.raises(TypeError, match="positional"):
        StateSettings(["o" * 32])  # type: ignore[misc]


@pytest.mark.parametrize(("state_keys", "warnings"), [(["a key of thirty-two bytes, or of more"], 1), (None, 0)])
def test_keys_without_a_cipher_are_reported_at_the_start(
    state_keys: list[str] | None, warnings: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at the first question of a user, which may be weeks later; once, and only where keys were given."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    app = MCPServer("asking", state_keys=state_keys)
    app.check()
    app.check()
    found = [record.getMessage() for record in caplog.records if record.name == "ferrule.app.rounds"]
    assert len(found) == warnings
    assert all("pip install 'ferrule[auth]'" in text for text in found)


def test_keys_with_a_cipher_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Where the library is installed, as here."""
    pytest.importorskip("cryptography")
    MCPServer("asking", state_keys=["a key of thirty-two bytes, or of more"]).check()
    assert caplog.records == []
