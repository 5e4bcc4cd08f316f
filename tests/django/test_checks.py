"""System checks of ``manage.py check``."""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakSet

import pytest
from django.test import override_settings

from tests.django.projects import Project


@pytest.fixture(autouse=True)
def own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks look at all servers of the process; those of other tests are left out."""
    monkeypatch.setattr("ferrule.django.server._servers", WeakSet())


@pytest.fixture
def server(database: None) -> Any:
    """A server of a test, whose name no other has."""
    from ferrule.django import DjangoServer

    return DjangoServer("under-test")


@pytest.fixture
def open_server(database: None) -> Any:
    from ferrule.django import DjangoServer

    return DjangoServer("under-test", settings={"REQUIRE_LOGIN": False})


@pytest.fixture
def views(database: None) -> Any:
    """Views with a mistake each."""
    from rest_framework import permissions

    from tests.django.shop.views import InvoiceViewSet

    class OpenViewSet(InvoiceViewSet):
        """Invoices of everybody."""

        permission_classes = (permissions.AllowAny,)

    class LongViewSet(InvoiceViewSet):
        """All invoices at once."""

        pagination_class = None

    class Found:
        open = OpenViewSet
        long = LongViewSet
        right = InvoiceViewSet

    return Found


def messages(check: Any, *ids: str) -> list[tuple[str, str, str]]:
    """Return id, text and hint of what a check says of the server under test and of the views of these tests."""
    found = [(each.id, each.msg, each.hint) for each in check(app_configs=None)]
    return [each for each in found if each[0] in ids]


def test_a_view_without_a_permission_is_named(server: Any, views: Any) -> None:
    from ferrule.django.checks import check_exposed

    server.expose(views.open)
    server.expose(views.right)
    assert messages(check_exposed, "ferrule.W004") == [
        (
            "ferrule.W004",
            "OpenViewSet is exposed without a permission: every sender may call what it changes.",
            "Set permission_classes on the view, or DEFAULT_PERMISSION_CLASSES. "
            "See docs/reference/django-checks.md#w004",
        )
    ]


def test_a_view_that_everybody_may_read_is_right(server: Any, views: Any) -> None:
    from ferrule.django.checks import check_exposed

    server.expose(views.open, actions=["list", "retrieve"])
    assert messages(check_exposed, "ferrule.W004") == []


def test_a_list_without_pagination_is_named(server: Any, views: Any) -> None:
    from ferrule.django.checks import check_exposed

    server.expose(views.long)
    server.expose(views.right)
    text = "The list of LongViewSet is exposed without pagination: one call returns all rows."
    assert [each[1] for each in messages(check_exposed, "ferrule.W006")] == [text]


def test_a_tool_without_a_description_is_named(server: Any) -> None:
    from ferrule.django.checks import check_exposed

    @server.tool
    def mute() -> int:
        return 1

    @server.tool
    def described() -> int:
        """Return one."""
        return 1

    text = "Tools of the server 'under-test' have no description: mute."
    assert [each[1] for each in messages(check_exposed, "ferrule.W007")] == [text]


def test_what_has_no_endpoint_is_an_error_and_nothing_is_registered(server: Any, views: Any) -> None:
    from ferrule.django.checks import check_exposed

    server.expose(views.right, rename={"invoice_lst": "invoices"})
    found = messages(check_exposed, "ferrule.E003")
    assert len(found) == 1
    assert found[0][1].startswith("A part of what the server 'under-test' exposes cannot be offered: NothingMatches: ")
    assert "did you mean 'invoice_list'?" in found[0][1]
    assert list(server.tools.index) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"describe": {"invoice_lst": "Invoices."}}, "describe names 'invoice_lst'.*did you mean 'invoice_list'"),
        ({"parameters": {"pge": 1}}, "parameters names 'pge', which is a parameter of none.*did you mean 'page'"),
        ({"add_parameters": {"invoice_lst": {"year": {}}}}, "add_parameters names 'invoice_lst'"),
        ({"hints": {"invoice_lst": {}}}, "the pattern 'invoice_lst' matches none"),
        ({"resources": "invoice_create"}, "only operations with GET can be resources"),
        ({"version": "2"}, "version='2' has no effect"),
    ],
)
def test_an_option_that_names_nothing_is_an_error(server: Any, views: Any, options: Any, said: str) -> None:
    """Of the checks, and, without them, of the log and of `failures` at the first list."""
    from ferrule.django.checks import check_exposed

    server.expose(views.right, **options)
    for found in (messages(check_exposed, "ferrule.E003"), messages(check_exposed, "ferrule.E003")):
        assert len(found) == 1
        assert re.search(said, found[0][1]), found
    server.exposures.read()
    (failure,) = server.exposures.failures
    assert re.search(said, str(failure))
    assert list(server.tools.index) == []
    assert messages(check_exposed, "ferrule.E003") == found


def test_extend_schema_without_effect_is_named(server: Any, views: Any) -> None:
    """Its texts are lost, and what it excludes is exposed."""
    from django.conf import settings
    from drf_spectacular.utils import extend_schema, extend_schema_view

    from ferrule.django.checks import check_exposed

    framework = {**settings.REST_FRAMEWORK}
    for given in (framework.pop("DEFAULT_SCHEMA_CLASS"), "rest_framework.schemas.openapi.AutoSchema", None):
        framework.update({} if given is None else {"DEFAULT_SCHEMA_CLASS": given})
        if given is None:
            del framework["DEFAULT_SCHEMA_CLASS"]
        with override_settings(REST_FRAMEWORK=framework):

            @extend_schema_view(list=extend_schema(description="Invoices."), destroy=extend_schema(exclude=True))
            class Said(views.right):  # type: ignore[misc]
                """Says more than can be found."""

            server.expose(Said)
            server.expose(views.right)
            found = messages(check_exposed, "ferrule.W014")
            server.exposures.waiting.clear()
        expected = (
            "ferrule.W014",
            "@extend_schema has no effect on Said.destroy, Said.list: the schema class is not that of drf-spectacular.",
            "Set REST_FRAMEWORK['DEFAULT_SCHEMA_CLASS'] = 'drf_spectacular.openapi.AutoSchema'. "
            "See docs/reference/django-checks.md#w014",
        )
        assert found == ([] if given is not None and "spectacular" in given else [expected])


def test_functions_that_everybody_may_call_are_named(open_server: Any, server: Any) -> None:
    from ferrule.django.checks import check_functions

    for each in (open_server, server):

        @each.tool
        def count() -> int:
            """Count."""
            return 1

        @each.tool(scopes=["shop"])
        def guarded() -> int:
            """Count."""
            return 1

    text = "Everybody may call functions of the server 'under-test', which needs no login: count."
    assert [each[1] for each in messages(check_functions, "ferrule.W005")] == [text]


def test_a_server_without_a_way_to_log_in_is_named() -> None:
    from ferrule.django import DjangoServer
    from ferrule.django.checks import check_login

    made = DjangoServer("closed", settings={"AUTHENTICATION": []})
    text = "The server 'closed' requires a login, has no authentication class, and refuses each request."
    assert [each[1] for each in messages(check_login, "ferrule.W008")] == [text]
    assert made.settings.authentication == ()


def test_a_server_that_no_url_leads_to_is_named(server: Any) -> None:
    from ferrule.django.checks import check_endpoint

    @server.tool
    def count() -> int:
        """Count."""
        return 1

    text = "No URL leads to the server 'under-test'."
    assert [each[1] for each in messages(check_endpoint, "ferrule.W009")] == [text]


def test_metadata_that_are_not_at_the_root_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from django.urls import get_resolver

    from ferrule.django import checks

    def server(name: str, servers: list[str] | None, pattern: Any) -> Any:
        settings = SimpleNamespace(authorization_servers=servers)
        return SimpleNamespace(name=name, settings=settings, metadata=SimpleNamespace(at_root=[pattern]))

    outer: Any = get_resolver().url_patterns[-1]
    pattern = outer.url_patterns[0]
    issuer = ["https://issuer.example"]
    known = [server("none", None, object()), server("routed", issuer, pattern), server("apart", issuer, object())]
    monkeypatch.setattr(checks, "servers", lambda: known)
    text = "AUTHORIZATION_SERVERS of the server 'apart' is set, and no metadata at the root of the site."
    assert [each[1] for each in messages(checks.check_metadata, "ferrule.W010")] == [text]


def test_settings_of_development_are_named_for_deployment(open_server: Any) -> None:
    from ferrule.django.checks import check_deployment

    with override_settings(DEBUG=True, ALLOWED_HOSTS=["*"]):
        found = messages(check_deployment, "ferrule.W011", "ferrule.W012", "ferrule.W013")
    assert [each[0] for each in found] == ["ferrule.W011", "ferrule.W012", "ferrule.W013"]
    assert found[1][1] == "REQUIRE_LOGIN is False: everybody may list and call tools of under-test."
    with override_settings(DEBUG=False):
        assert messages(check_deployment, "ferrule.W011", "ferrule.W013") == []


def test_a_check_does_not_query(server: Any, views: Any) -> None:
    """The database may not be there: ``manage.py check`` runs before it is made."""
    from django.db import connection

    from ferrule.django.checks import check_exposed
    from tests.django.shop.models import Invoice

    class Querying(views.right):  # type: ignore[misc]
        """Looks at the database when it is described."""

        def get_serializer_class(self) -> Any:
            Invoice.objects.exists()
            return super().get_serializer_class()

    server.expose(Querying)
    queries: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        queries.append(sql)  # it was not refused
        return result

    with connection.execute_wrapper(note):
        check_exposed(app_configs=None)
    assert queries == []


def test_the_command_names_everything_and_can_be_silenced(project: Project) -> None:
    assert project.manage("check").stdout == "System check identified no issues (0 silenced).\n"
    project.write("broken/__init__.py", "")
    project.write("broken/mcp.py", "import nothing_of_this_name")
    project.append("site1/settings.py", 'INSTALLED_APPS.append("broken")\nMCP = {"NAMES": 1, "PAGE_SIZE": 0}')
    project.append("notes/mcp.py", "@mcp.tool\ndef mute() -> int:\n    return 1\n")
    done = project.manage("check")
    assert done.returncode == 1
    assert "(ferrule.E001) The setting MCP has no key 'NAMES'." in done.stderr
    assert "HINT: Did you mean 'NAME'? See docs/reference/django-checks.md#e001" in done.stderr
    assert "(ferrule.E001) MCP['PAGE_SIZE'] is wrong: Expected `int` >= 1." in done.stderr
    assert "(ferrule.E002) broken.mcp could not be imported: ModuleNotFoundError: No module named" in done.stderr
    assert "(ferrule.W007) Tools of the server 'django' have no description: mute." in done.stderr
    project.append("site1/settings.py", 'MCP = {}\nSILENCED_SYSTEM_CHECKS = ["ferrule.E002", "ferrule.W007"]')
    done = project.manage("check")
    assert done.returncode == 0, done.stderr
    assert "no issues (2 silenced)" in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        'INSTALLED_APPS = ["ferrule.django"]\nMIDDLEWARE = []\nTEMPLATES = []\ndel ROOT_URLCONF',
        'DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nowhere/at/all.db"}}',
        'ROOT_URLCONF = "site1.settings"',
    ],
    ids=["bare", "no database", "no URLs"],
)
def test_a_project_that_is_half_configured_is_checked(project: Project, change: str) -> None:
    project.append("site1/settings.py", change)
    done = project.manage("check")
    last = (done.stderr.strip().splitlines() or [""])[-1]
    assert "ferrule" not in last, done.stderr
    assert done.returncode == 0 or "System check identified" in done.stderr or "site1.settings" in last, done.stderr


def test_the_checks_of_a_deployment_are_asked_for(project: Project) -> None:
    project.append("site1/settings.py", 'MCP = {"REQUIRE_LOGIN": False}\nALLOWED_HOSTS = ["*"]')
    assert "ferrule.W012" not in project.manage("check").stderr
    done = project.manage("check", "--deploy")
    for name in ("ferrule.W011", "ferrule.W012", "ferrule.W013"):
        assert name in done.stderr
