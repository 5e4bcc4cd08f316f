"""What a user sees, what it costs, and that it is what the user may call."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import include, path
from rest_framework import permissions, routers, viewsets
from rest_framework.response import Response

from ferrule.django.exposing import view_permissions
from ferrule.django.permissions import has_perm, in_group, is_staff, is_superuser, user_passes
from ferrule.django.testing import MCPClient
from tests.django.exposing.test_rest_framework import BookSerializer
from tests.django.serving import served
from tests.django.shop.models import Book

both = pytest.mark.parametrize("host", ["wsgi", "asgi"])

asked: Counter[str] = Counter()


class Counted(permissions.BasePermission):
    """Allows staff to change, and everybody to read."""

    def has_permission(self, request: Any, view: Any) -> bool:
        asked[view.action] += 1
        return request.method == "GET" or bool(request.user and request.user.is_staff)


class Books(viewsets.ModelViewSet[Book]):
    """Books."""

    queryset = Book.objects.order_by("id")
    serializer_class = BookSerializer
    permission_classes = (Counted,)


def patterns(viewset: Any = Books) -> list[Any]:
    router = routers.SimpleRouter()
    router.register("books", viewset, basename="book")
    return [path("api/", include(router.urls))]


@pytest.fixture
def staff(alice: Any) -> Any:
    alice.is_staff = True
    alice.save()
    return alice


@pytest.fixture(autouse=True)
def counts() -> None:
    asked.clear()


@both
def test_a_user_calls_what_the_user_sees_and_nothing_else(host: str, alice: Any) -> None:
    with served(host, patterns) as site:
        site.mcp.expose(Books)
        assert set(site.tools(alice)) == {"book_list", "book_retrieve"}
        for name, arguments in (("book_create", {"title": "x", "shelf": 1}), ("book_destroy", {"id": 1})):
            refused = site.send("tools/call", {"name": name, "arguments": arguments}, alice).message
            unknown = site.send("tools/call", {"name": f"{name}x", "arguments": arguments}, alice).message
            assert refused["error"]["code"] == unknown["error"]["code"]
            assert refused["error"]["message"].startswith(f"Unknown tool: {name}")
        alice.is_staff = True
        alice.save()
        assert "book_create" in site.tools(alice)
        assert "shelf" in site.problem("book_create", {"title": "x", "shelf": 0}, alice)


@both
def test_a_call_asks_the_permissions_of_its_tool_only(host: str, staff: Any) -> None:
    with served(host, patterns) as site:
        site.mcp.expose(Books)
        site.tools(staff)
        assert asked == dict.fromkeys(("list", "create", "retrieve", "update", "partial_update", "destroy"), 1)
        asked.clear()
        site.data("book_list", {}, staff)
        assert asked == {"list": 2}  # before the call, and in the view


def test_a_list_and_a_call_make_no_query_more_than_they_need(staff: Any) -> None:
    with served("wsgi", patterns) as site:
        site.mcp.expose(Books)
        site.tools(staff)
        with CaptureQueriesContext(connection) as queries:
            site.tools(staff)
        assert len(queries) == 1, queries.captured_queries  # the token
        with CaptureQueriesContext(connection) as queries:
            site.data("book_list", {}, staff)
        assert len(queries) == 2, queries.captured_queries  # the token, and the count of books, of which there are none


@pytest.mark.parametrize(
    ("classes", "seen"),
    [
        ((permissions.IsAuthenticated,), {"book_list", "book_create"}),
        ((permissions.AllowAny,), {"book_list", "book_create"}),
        ((permissions.IsAdminUser,), set()),
        ((permissions.IsAuthenticatedOrReadOnly, permissions.IsAdminUser), set()),
        ((), {"book_list", "book_create"}),
    ],
)
def test_permissions_of_the_user_alone_need_no_request(
    classes: Any, seen: set[str], alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(view_permissions, "_view_of", lambda *given: made.append(given))
    kind = type("Books", (Books,), {"permission_classes": classes})
    with served("wsgi", lambda: patterns(kind)) as site:
        site.mcp.expose(kind, actions=["list", "create"])
        assert set(site.tools(alice)) == seen
    assert made == []


def test_other_permissions_are_asked_as_the_view_chooses_them(alice: Any) -> None:
    """By ``get_permissions()``, and those that are combined or of a project's own."""
    admin = permissions.IsAdminUser

    class Chosen(Books):
        permission_classes = (permissions.IsAuthenticated,)

        def get_permissions(self) -> Any:
            return [admin()] if self.action == "create" else super().get_permissions()

    both_or = type("Books", (Books,), {"permission_classes": (permissions.AllowAny | admin,)})
    never = type("Books", (Books,), {"permission_classes": (permissions.AllowAny, ~permissions.AllowAny)})
    for kind, seen in ((Chosen, {"book_list"}), (both_or, {"book_list", "book_create"}), (never, set[str]())):
        with served("wsgi", lambda kind=kind: patterns(kind)) as site:
            site.mcp.expose(kind, actions=["list", "create"])
            assert set(site.tools(alice)) == seen


def test_a_list_opens_no_transaction_where_requests_have_one(staff: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    with served("wsgi", patterns) as site:
        site.mcp.expose(Books)
        site.tools(staff)
        with CaptureQueriesContext(connection) as queries:
            site.tools(staff)
        assert len(queries) == 1, queries.captured_queries  # the token


def test_permissions_of_models_are_read_once_for_a_list(alice: Any) -> None:
    class Guarded(Books):
        permission_classes = (permissions.DjangoModelPermissions,)

    with served("wsgi", lambda: patterns(Guarded)) as site:
        site.mcp.expose(Guarded)
        assert set(site.tools(alice)) == {"book_list", "book_retrieve"}
        alice.user_permissions.add(Permission.objects.get(codename="add_book"))
        with CaptureQueriesContext(connection) as queries:
            assert set(site.tools(alice)) == {"book_list", "book_retrieve", "book_create"}
        assert len(queries) == 3, queries.captured_queries  # the token, the user's permissions, those of the groups


@both
def test_a_permission_that_needs_the_values_of_a_request_does_not_hide_a_tool(host: str, alice: Any) -> None:
    class NeedsPath(permissions.BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            return bool(view.kwargs["pk"] != "0")

    class NeedsBody(permissions.BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            return bool(request.data.get("title") == "mine")

    class NeedsQuery(permissions.BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            return "key" in request.query_params

    class Fails(permissions.BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            raise RuntimeError("of no use")

    class Refuses(permissions.BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            return False

    kinds = {
        "retrieve": NeedsPath, "create": NeedsBody, "list": NeedsQuery, "update": Fails, "destroy": Refuses,
        "partial_update": Fails,
    }  # fmt: skip

    class Various(Books):
        def get_permissions(self) -> Any:
            return [kinds[self.action]()]

    with served(host, lambda: patterns(Various)) as site:
        site.mcp.expose(Various)
        assert set(site.tools(alice)) == {"book_retrieve", "book_create", "book_list"}
        assert "403" in site.problem("book_create", {"title": "x", "shelf": 1}, alice)
        assert "404" in site.problem("book_retrieve", {"id": 1}, alice)


class Tenant:
    """A middleware: which tenant a request is for, from its host or a header."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        """Answer a request."""
        request.tenant = request.headers.get("x-tenant", "none")
        return self.get_response(request)


class _OfRequest(permissions.BasePermission):
    """Looks at what a request has before its values are known."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(
            {
                "list": request.tenant == "a",
                "retrieve": request.headers.get("x-tenant") == "a",
                "create": request.get_host().startswith("testserver"),
                "destroy": request.META["REMOTE_ADDR"] == "10.1.1.1",
            }[view.action]
        )


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_permissions_see_what_middleware_and_headers_say(alice: Any, tenant: str) -> None:
    """As the view does in a call; otherwise the tool is hidden from all."""
    middleware = [*settings.MIDDLEWARE, f"{Tenant.__module__}.{Tenant.__qualname__}"]

    class Of(Books):
        permission_classes = (_OfRequest,)

    with override_settings(MIDDLEWARE=middleware), served("wsgi", lambda: patterns(Of)) as site:
        actions = ["list", "retrieve", "create", "destroy"]
        site.mcp.expose(Of, actions=actions, forward_headers=("x-tenant",))
        answer = site.send("tools/list", {}, alice, **{"x-tenant": tenant}).message
        shown = {tool["name"] for tool in answer["result"]["tools"]}
        assert shown == {"book_create", *(("book_list", "book_retrieve") if tenant == "a" else ())}


def test_a_permission_that_needs_middleware_hides_no_tool_where_there_is_no_request(alice: Any) -> None:
    """Over stdio middleware runs in the call only."""

    class Of(Books):
        permission_classes = (_OfRequest,)

    with served("wsgi", lambda: patterns(Of)) as site:
        site.mcp.expose(Of, actions=["list"])
        assert MCPClient(alice, server=site.mcp).tool_names() == {"book_list"}


@both
def test_the_search_shows_and_calls_what_the_user_sees(host: str, alice: Any) -> None:
    with served(host, patterns, tool_search=True) as site:
        site.mcp.expose(Books)
        assert set(site.tools(alice)) == {"search_tools", "describe_tool", "call_tool"}
        found = site.data("search_tools", {"query": ""}, alice)
        assert {tool["name"] for tool in found["tools"]} == {"book_list", "book_retrieve"}
        asked.clear()
        assert "Unknown tool" in site.problem("call_tool", {"name": "book_create", "arguments": {}}, alice)
        assert "Unknown tool" in site.problem("describe_tool", {"name": "book_create"}, alice)
        assert asked == {"create": 2}
        assert site.data("call_tool", {"name": "book_list"}, alice)["results"] == []


@both
def test_lists_are_private(host: str, alice: Any) -> None:
    with served(host, patterns) as site:
        site.mcp.expose(Books)
        result = site.send("tools/list", {}, alice).message["result"]
        assert result["cacheScope"] == "private"


@both
def test_functions_are_shown_to_users_with_a_permission(host: str, alice: Any) -> None:
    with served(host) as site:
        for name, allow in {
            "seen": has_perm("shop.view_book"), "staff": is_staff, "root": is_superuser, "readers": in_group("readers"),
            "own": user_passes(lambda user: user.username == "alice"),
        }.items():  # fmt: skip

            def tool() -> str:
                return "done"

            site.mcp.add_tool(tool, name=name, allow=allow)

        @site.mcp.prompt(allow=is_staff)
        def advice() -> str:
            """Advise."""
            return "x"

        @site.mcp.resource("shop://{name}", allow=is_staff)
        def page(name: str) -> str:
            return name

        assert site.tools() == {}
        assert set(site.tools(alice)) == {"own"}
        assert site.send("prompts/list", {}, alice).message["result"]["prompts"] == []
        assert "error" in site.send("prompts/get", {"name": "advice"}, alice).message
        assert "error" in site.send("resources/read", {"uri": "shop://a"}, alice).message
        alice.user_permissions.add(Permission.objects.get(codename="view_book"))
        alice.groups.add(Group.objects.get_or_create(name="readers")[0])
        User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=False)
        assert set(site.tools(alice)) == {"own", "seen", "readers", "staff"}
        assert site.call("seen", {}, alice)["content"][0]["text"] == "done"
        assert len(site.send("prompts/list", {}, alice).message["result"]["prompts"]) == 1
        assert "result" in site.send("prompts/get", {"name": "advice"}, alice).message
        assert "result" in site.send("resources/read", {"uri": "shop://a"}, alice).message


def test_a_permission_needs_the_label_of_its_application() -> None:
    for given in ((), ("view_book",)):
        with pytest.raises(ValueError, match="has_perm"):
            has_perm(*given)
    with pytest.raises(ValueError, match="groups"):
        in_group()


@both
def test_exposed_resources_are_shown_as_tools_are(host: str, alice: Any) -> None:
    class Closed(Books):
        permission_classes = (permissions.IsAdminUser,)

    with served(host, lambda: patterns(Closed)) as site:
        site.mcp.expose(Closed, actions=["list", "retrieve"], resources="*")
        assert site.send("resources/templates/list", {}, alice).message["result"]["resourceTemplates"] == []
        User.objects.filter(pk=alice.pk).update(is_staff=True)
        found = site.send("resources/templates/list", {}, alice).message["result"]["resourceTemplates"]
        assert len(found) == 2


def test_a_program_sees_what_its_user_sees_now(alice: Any) -> None:
    """Permissions may change while a program runs."""
    import asyncio

    from ferrule import Client

    with served("wsgi", patterns) as site:
        site.mcp.expose(Books)

        async def names(client: Client) -> set[str]:
            return {tool.name for tool in await client.list_tools()}

        async def talk() -> tuple[set[str], set[str]]:
            async with Client(site.mcp) as client:
                before = await names(client)
                alice.is_staff = True
                return before, await names(client)

        with site.mcp.as_user(alice):
            before, after = asyncio.run(talk())
    assert "book_create" not in before
    assert "book_create" in after


def test_middleware_of_the_project_sees_the_tool_that_the_search_calls(alice: Any) -> None:
    seen: list[str] = []

    async def record(ctx: Any, call_next: Any) -> Any:
        seen.append(f"{ctx.method} {(ctx.params or {}).get('name')}")
        return await call_next(ctx)

    from ferrule.django import DjangoServer
    from ferrule.django.conf import DjangoSettings

    server = DjangoServer("x", settings=DjangoSettings(tool_search=True, store="memory:"), middleware=[record])
    with served("wsgi", patterns, server=server) as site:
        site.mcp.expose(Books)
        site.data("call_tool", {"name": "book_list"}, alice)
    assert seen == ["tools/call book_list"]


class _Hidden(permissions.BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return False


@both
def test_a_misspelled_name_is_not_answered_with_a_hidden_one(host: str, alice: Any) -> None:
    class Secret(Books):
        permission_classes = (_Hidden,)

        def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            """List."""
            return Response([])

    with served(host, lambda: patterns(Secret)) as site:
        site.mcp.expose(Secret)
        error = site.send("tools/call", {"name": "book_lst", "arguments": {}}, alice).message["error"]
        assert "book_list" not in error["message"]


@both
def test_what_cannot_be_exposed_does_not_take_the_rest_with_it(host: str, alice: Any) -> None:
    with served(host, patterns) as site:
        site.mcp.expose(Books, prefix="/nowhere/")
        site.mcp.expose(Books, rename={"book_lits": "x"})
        site.mcp.expose(Books)
        assert "book_list" in site.tools(alice)
        first, second = site.mcp.exposures.failures
        assert "prefix='/nowhere/'; it has /api/books/" in str(first)
        assert "did you mean 'book_list'" in str(second)
