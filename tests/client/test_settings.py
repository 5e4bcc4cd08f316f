"""The frozen values that the parts of a client carry."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any, cast

import pytest

from ferrule import Client, MCPServer
from ferrule.client.config import read_target
from ferrule.client.options import ClientOptions
from ferrule.client.parts import ClientParts
from ferrule.client.settings import (
    DEFAULT_TIMEOUT_S,
    CacheSettings,
    ClientSettings,
    Handlers,
    HttpSettings,
    Timeouts,
    settings_of,
)

SETTINGS = [Timeouts, HttpSettings, Handlers, CacheSettings]
URL = "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_are_frozen_and_have_keywords_only(kind: type[Any]) -> None:
    """They are shared by the parts of a client: none may change what another one reads."""
    assert is_dataclass(kind)
    assert all(field.kw_only for field in fields(kind))
    with pytest.raises(FrozenInstanceError):
        setattr(kind(), fields(kind)[0].name, None)


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_default_of_a_setting_is_that_of_the_option(kind: type[Any]) -> None:
    """The public constructor and the values name defaults; they must not come to differ."""
    options = inspect.signature(Client.__init__).parameters
    names = {"log": "log_handler", "progress": "progress_handler", "message": "message_handler"}
    names |= {"elicitation": "elicitation_handler", "sampling": "sampling_handler", "partition": "cache_partition"}
    for field in fields(kind):
        if field.name not in ("timeout_s", "headers"):  # their default depends on the target, and is a new mapping
            assert options[names.get(field.name, field.name)].default == field.default, field.name


def test_every_option_is_in_the_settings() -> None:
    """A gateway takes the options by name, as `Client` does."""
    defaults = settings_of({}, read_target(URL))
    assert (defaults, defaults.timeouts.timeout_s) == (ClientSettings(), DEFAULT_TIMEOUT_S)
    assert settings_of({}, read_target(MCPServer("local"))).timeouts.timeout_s is None
    parts = (defaults, defaults.timeouts, defaults.http, defaults.handlers, defaults.cache)
    held = {field.name for part in parts for field in fields(part)} - {"timeouts", "handlers"}
    taken = set(ClientOptions.__annotations__) - {"raise_on_error", "validate_output", "pins"}
    assert len(held) == len(taken)
    for name in taken:
        marked: Any = [object()] if name == "middleware" else object()  # a list stays the given one
        found = settings_of(cast("Any", {name: marked}), read_target(URL))
        values = [getattr(part, field.name) for part in _parts_of(found) for field in fields(cast("Any", part))]
        assert values.count(marked) == 1, name


def _parts_of(settings: ClientSettings) -> tuple[object, ...]:
    return settings, settings.timeouts, settings.http, settings.handlers, settings.cache


def test_the_parts_take_at_most_twelve_parameters() -> None:
    """Options go to it as values."""
    assert len(inspect.signature(ClientParts.__init__).parameters) - 1 <= 12


def test_the_old_name_of_the_tool_metadata_warns() -> None:
    """Programs for 0.1 that looked at it work for one more release."""
    client = Client(URL)
    with pytest.warns(DeprecationWarning, match=r"Client\.tool_metadata"):
        assert client.toolbook is client.tool_metadata


def test_a_call_into_this_process_has_no_bound_unless_one_is_given() -> None:
    """It is a function call; a program that needs a bound sets one."""
    app = MCPServer("local")
    bounds = [cast("Any", client).timeouts.timeout_s for client in (Client(URL), Client(app), Client(app, timeout_s=3))]
    assert bounds == [DEFAULT_TIMEOUT_S, None, 3]
    assert Client(URL, timeout_s=None).timeout_s is None
    assert Client(URL, max_total_s=7).max_total_s == 7
