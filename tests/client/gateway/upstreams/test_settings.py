"""The settings of one server behind a gateway."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.config_settings import ServerSettings
from ferrule.client.gateway.upstreams.settings import UpstreamSettings, settings_from


@pytest.mark.parametrize(
    "wrong", [{"timeout_s": 0}, {"reach_s": -1}, {"list_s": 0}, {"idle_s": 0}, {"max_processes": 0}]
)
def test_a_limit_that_allows_nothing_is_refused(wrong: dict[str, Any]) -> None:
    """At once, with the name of the option."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        UpstreamSettings(**wrong)


def test_what_a_configuration_says_becomes_settings() -> None:
    """Time limits, limits of calls and the choice of tools."""
    said = ServerSettings(timeout_s=3.0, connect_timeout_s=4.0, max_concurrent=2, exclude=("x",))
    assert settings_from(said) == UpstreamSettings(timeout_s=3.0, connect_timeout_s=4.0, max_concurrent=2, tools=said)
    assert settings_from(ServerSettings()) == UpstreamSettings()
