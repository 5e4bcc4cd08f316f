"""The requirements of several workers, checked before the first one starts."""

from __future__ import annotations

import logging

import pytest

import ferrule.app.serving.workers as scaling
from ferrule import MCPServer


@pytest.mark.parametrize("is_there", [True, False])
def test_workers_without_a_cipher_log_a_warning_at_the_start(
    is_there: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One process keeps the state between rounds itself, so the missing library would be news in production only."""
    monkeypatch.setattr(scaling, "find_spec", lambda name: object() if is_there else None)
    with caplog.at_level(logging.WARNING):
        scaling.make_payload(MCPServer("press"), "127.0.0.1", 8000, {})
    assert ("pip install 'ferrule[auth]'" in caplog.text) is not is_there
