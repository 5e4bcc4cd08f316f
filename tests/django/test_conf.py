"""The setting ``MCP``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
from django.test import override_settings
from django.utils.translation import gettext_lazy

from ferrule.django.conf import DjangoSettings, SettingError, django_settings, settings_from, settings_problems
from tests.conftest import ROOT
from tests.django.projects import Project
from tests.django.test_server import post


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"NAMES": "x"}, "The setting MCP has no key 'NAMES'. Did you mean 'NAME'?"),
        ({"require_login": False}, "The setting MCP has no key 'require_login'. Did you mean 'REQUIRE_LOGIN'?"),
        ({"PAGE_SIZE": "ten"}, "MCP['PAGE_SIZE'] is wrong: Expected `int | None`, got `str`."),
        ({"PAGE_SIZE": 0}, "MCP['PAGE_SIZE'] is wrong: Expected `int` >= 1."),
        ({"TEXT": "xml"}, "MCP['TEXT'] is wrong: Invalid enum value 'xml'."),
        (
            {"AUTHENTICATION": "a.b"},
            "MCP['AUTHENTICATION'] is wrong: Expected `list | None`, got `str`. Write ['a.b'].",
        ),
        (["NAME"], "The setting MCP is a list, not a dict."),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(given: Any, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        settings_from(given)
    assert str(caught.value) == text


def test_every_wrong_key_is_named() -> None:
    assert [problem.text for problem in settings_problems({"NAMES": 1, "TEXT": 2})] == [
        "The setting MCP has no key 'NAMES'.",
        "MCP['TEXT'] is wrong: Expected `str`, got `int`.",
    ]


def test_texts_that_wait_for_their_translation_are_texts() -> None:
    assert settings_from({"INSTRUCTIONS": gettext_lazy("A shop.")}).instructions == "A shop."


def test_a_project_without_the_setting_has_the_defaults() -> None:
    with override_settings():
        from django.conf import settings

        del settings.MCP
        assert django_settings() == DjangoSettings()


def test_the_reference_has_every_key() -> None:
    page = (ROOT / "docs/reference/django-settings.md").read_text(encoding="utf-8")
    assert [key for key in DjangoSettings.__struct_encode_fields__ if f"| `{key}` |" not in page] == []


def test_keys_that_are_read_with_each_request_follow_override_settings(alice: Any) -> None:
    assert post("tools/list", {}).status_code == 401
    with override_settings(MCP={"NAME": "shop", "INSTRUCTIONS": "A shop.", "REQUIRE_LOGIN": False}):
        assert post("tools/list", {}).status_code == 200
    assert post("tools/list", {}).status_code == 401


def test_keys_without_effect_in_override_settings_are_named() -> None:
    """A test that believes to have changed the name would test nothing."""
    post("tools/list", {})
    change = override_settings(MCP={"NAME": "other", "PAGE_SIZE": 3, "INSTRUCTIONS": "A shop."})
    with pytest.warns(RuntimeWarning, match="The server has been made: NAME, PAGE_SIZE in override_settings"):
        change.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        change.disable()


def test_a_further_server_has_settings_of_its_own() -> None:
    from django.urls import include

    from ferrule.django import DjangoServer, mcp

    other = DjangoServer("admin", settings={"REQUIRE_LOGIN": False})
    assert other.settings.require_login is False
    assert other.settings.instructions == "A shop."
    assert mcp.settings.require_login is True
    spaces = [include(server.urls[:2], namespace=server.urls[2])[2] for server in (mcp, other)]
    assert spaces == ["ferrule", "ferrule-admin"]
    with pytest.raises(SettingError, match="no key 'LOGIN'"):
        DjangoServer("x", settings={"LOGIN": 1})


def test_the_server_before_django_has_settings_names_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from ferrule.django import mcp"],
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "ImproperlyConfigured: Requested setting" in last
    assert "settings are not configured. You must either define the environment variable" in last


def test_a_wrong_setting_lets_the_project_start_and_refuses_every_request(project: Project) -> None:
    """Serving with defaults in place of what was meant could open the server to everybody."""
    project.append("site1/settings.py", 'MCP = {"REQUIRE_LOGIN": False, "NAMES": "x"}')
    script = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "site1.settings"
django.setup()
from django.test import Client
made = Client(raise_request_exception=False, headers={"host": "localhost"})
print(made.get("/api/").status_code, made.post("/mcp/", "{}", content_type="application/json").status_code)
from ferrule.django import mcp
try:
    mcp.check()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = project.run("-c", script)
    assert done.stdout.splitlines() == [
        "401 503",
        "SettingError The setting MCP has no key 'NAMES'. Did you mean 'NAME'?",
    ], done.stderr
    assert "The setting MCP has no key 'NAMES'" in done.stderr


ROWS = [{"id": number, "title": "t"} for number in range(3)]


@pytest.fixture
def text_of(alice: Any) -> Any:
    import asyncio

    from ferrule import Client

    def call(server: Any, tool: str) -> tuple[str, Any]:
        async def talk() -> Any:
            async with Client(server) as client:
                return await client.call_tool(tool)

        with server.as_user(alice):
            result = asyncio.run(talk())
        return result.text, result.structured_content

    return call


@pytest.fixture
def invoices() -> Any:
    from tests.django.shop.views import InvoiceViewSet

    return InvoiceViewSet


def test_the_setting_is_the_default_of_functions_and_views(text_of: Any, invoices: Any) -> None:
    server = _server("x", settings={"TEXT": "toon"})
    server.expose(invoices, actions=["list"])
    server.add_tool(rows)
    assert text_of(server, "rows") == ("[3]{id,title}:\n  0,t\n  1,t\n  2,t", ROWS)
    text, content = text_of(server, "invoice_list")
    assert text.startswith("count: 0\n")
    assert content["results"] == []


def test_one_exposure_and_one_function_may_differ_from_the_setting(text_of: Any, invoices: Any) -> None:
    server = _server("x", settings={"TEXT": "toon"})
    server.expose(invoices, actions=["list"], text="json")
    server.add_tool(rows, text="json")
    assert json.loads(text_of(server, "rows")[0]) == ROWS
    assert json.loads(text_of(server, "invoice_list")[0])["count"] == 0


def test_an_exposure_may_be_toon_on_a_server_of_json(text_of: Any, invoices: Any) -> None:
    server = _server("x")
    server.expose(invoices, actions=["list"], text="toon")
    server.add_tool(rows)
    assert text_of(server, "invoice_list")[0].startswith("count: 0\n")
    assert json.loads(text_of(server, "rows")[0]) == ROWS


def test_an_option_of_the_server_is_before_the_setting(text_of: Any) -> None:
    server = _server("x", settings={"TEXT": "toon"}, text="json")
    server.add_tool(rows)
    assert json.loads(text_of(server, "rows")[0]) == ROWS


def test_an_unknown_way_of_writing_is_refused() -> None:
    given: Any = "xml"
    with pytest.raises(ValueError, match="'json', 'toon', 'auto' or a function"):
        _server("x").add_tool(rows, text=given)


def rows() -> list[dict[str, Any]]:
    """Return rows."""
    return ROWS


def _server(name: str, **options: Any) -> Any:
    from ferrule.django import DjangoServer

    return DjangoServer(name, **options)
