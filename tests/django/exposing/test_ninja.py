"""APIs of Django Ninja as tools, under WSGI and under ASGI."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.urls import path
from ninja import NinjaAPI, Router, Schema
from ninja.errors import HttpError
from ninja.security import APIKeyHeader, APIKeyQuery, HttpBearer, SessionAuth
from ninja.security.session import SessionAuthIsStaff

from ferrule.django.access.principals import DjangoPrincipal
from ferrule.django.exposing.ninja_authentication import accepts_sender, operations_of
from ferrule.django.exposing.targets import Sender
from ferrule.django.testing import MCPClient
from tests.django.serving import served

pytestmark = pytest.mark.parametrize("host", ["wsgi", "asgi"])


class Item(Schema):
    name: str
    price: float = 1.0


class Key(HttpBearer):
    def authenticate(self, request: Any, token: str) -> Any:
        return token if token == "secret" else None


@pytest.fixture
def api() -> NinjaAPI:
    made = NinjaAPI(title="Items", urls_namespace="items")

    @made.get("/items/{int:item_id}")
    def read_item(request: Any, item_id: int, full: bool = False) -> Any:
        """Read an item."""
        return {"id": item_id, "full": full, "path": request.path}

    @made.get("/items/latest")
    def latest(request: Any) -> Any:
        return {"latest": True}

    @made.post("/items", response=Item)
    async def create_item(request: Any, item: Item) -> Any:
        """Create an item."""
        return item

    router = Router(auth=Key())

    @router.get("/secret")
    def secret(request: Any) -> Any:
        return {"token": request.auth}

    made.add_router("/inner", router)
    return made


def test_operations_are_tools_named_as_their_functions(host: str, api: NinjaAPI) -> None:
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        tools = site.tools()
        assert set(tools) == {"read_item", "latest", "create_item"}
        assert tools["read_item"]["description"] == "Read an item."
        found = site.data("read_item", {"item_id": 3, "full": True})
        assert found == {"id": 3, "full": True, "path": "/api/items/3"}
        assert site.data("create_item", {"name": "a"}) == {"name": "a", "price": 1.0}
        assert "price" in site.problem("create_item", {"name": "a", "price": "x"})
    assert "get_openapi_operation_id" not in vars(api)


def test_an_argument_that_takes_slashes_is_given_them(host: str, api: NinjaAPI) -> None:
    @api.get("/files/{path:rest}")
    def read_file(request: Any, rest: str) -> Any:
        return {"rest": rest}

    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        assert site.data("read_file", {"rest": "a/b c%2F"}) == {"rest": "a/b c%2F"}
        assert "of the path" in site.problem("read_file", {"rest": "../items/latest"})


def test_an_api_in_no_urlconf_gets_an_address(host: str, api: NinjaAPI) -> None:
    with served(host) as site:
        site.mcp.expose(api, include="read_item")
        assert set(site.tools()) == {"read_item"}
        assert site.data("read_item", {"item_id": 3})["path"] == "/ferrule/items/3"


def test_an_api_below_an_argument_takes_it(host: str, api: NinjaAPI) -> None:
    with served(host, lambda: [path("<slug:tenant>/api/", api.urls)]) as site:
        site.mcp.expose(api, include="latest", exclude=())
        assert set(site.tools()["latest"]["inputSchema"]["properties"]) == {"tenant"}


def test_credentials_of_the_caller_reach_the_api(host: str, api: NinjaAPI) -> None:
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api, prefix="/api/inner/")
        found = site.send("tools/call", {"name": "secret", "arguments": {}}, authorization="Bearer secret")
        assert found.message["result"]["structuredContent"] == {"token": "secret"}


# -- who sees what -----------------------------------------------------------------------------------------------------


def names(site: Any, user: Any = None, **headers: str) -> set[str]:
    return {tool["name"] for tool in site.send("tools/list", {}, user, **headers).message["result"]["tools"]}


def test_a_sender_whom_auth_refuses_neither_sees_nor_calls_an_operation(host: str, api: NinjaAPI) -> None:
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        for headers in ({}, {"authorization": "Bearer wrong"}):
            assert "secret" not in names(site, **headers)
            refused = site.send("tools/call", {"name": "secret", "arguments": {}}, **headers).message
            assert refused["error"]["message"].startswith("Unknown tool: secret")
        assert names(site, authorization="Bearer secret") == {"read_item", "latest", "create_item", "secret"}


class _Counting(HttpBearer):
    asked: ClassVar[Counter[str]] = Counter()

    def authenticate(self, request: Any, token: str) -> Any:
        _Counting.asked["token"] += 1
        return token == "secret"


def test_an_auth_that_looks_at_the_sender_only_is_asked_once_for_a_list(host: str) -> None:
    """It may query the database, and an API may have many operations."""
    api = NinjaAPI(urls_namespace="counted", auth=_Counting())
    for name in ("one", "two", "three"):
        api.get(f"/{name}/{{number}}", operation_id=name)(lambda request, number: number)
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        for token, seen in (("secret", {"one", "two", "three"}), ("wrong", set[str]())):
            names(site)
            _Counting.asked.clear()
            assert names(site, authorization=f"Bearer {token}") == seen
            assert _Counting.asked == {"token": 1}


def test_an_auth_decides_by_method_path_user_and_forwarded_headers_and_may_be_async(host: str, alice: Any) -> None:
    async def later(request: Any) -> Any:
        return request.headers.get("authorization") == "Bearer secret"

    class Header(APIKeyHeader):
        param_name = "X-Key"

        def authenticate(self, request: Any, key: Any) -> Any:
            return key == "k"

    class Fails(HttpBearer):
        def authenticate(self, request: Any, token: str) -> Any:
            raise RuntimeError("of no use")

    class Refuses(HttpBearer):
        def authenticate(self, request: Any, token: str) -> Any:
            raise HttpError(403, "not you")

    kinds: dict[str, Any] = {
        "by_method": lambda request: request.method == "GET",
        "by_path": lambda request: request.path == "/api/by_path",
        "by_other_path": lambda request: request.path == "/api/by_path",
        "by_host": lambda request: request.get_host() == "testserver",
        "later": later, "header": Header(), "fails": Fails(), "refuses": Refuses(), "several": [Header(), later],
        "fails_first": [Fails(), later], "session": SessionAuth(), "staff": SessionAuthIsStaff(), "open": None,
    }  # fmt: skip
    api = NinjaAPI(urls_namespace="various")
    for name, kind in kinds.items():
        api.get(f"/{name}", operation_id=name, auth=kind)(lambda request: 1)
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        always = {"by_method", "by_path", "by_host", "open"}
        assert names(site) == always
        seen = names(site, authorization="Bearer secret", **{"X-Key": "k"})
        assert seen == {*always, "later", "several"}
        for name in seen:
            called = site.send("tools/call", {"name": name, "arguments": {}}, authorization="Bearer secret").message
            assert not called["result"].get("isError"), called
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api, forward_headers=("x-key",))
        assert names(site, **{"X-Key": "k"}) == {*always, "header", "several"}


def test_an_auth_that_needs_the_values_of_a_call_does_not_hide_an_operation(host: str) -> None:
    class Query(APIKeyQuery):
        def authenticate(self, request: Any, key: Any) -> Any:
            return key == "k"

    api = NinjaAPI(urls_namespace="values")
    refused: dict[str, Any] = {
        "query": Query(),
        "body": lambda request: b"mine" in request.body,
        "argument": lambda request: request.resolver_match.kwargs["number"] == 1,
        "path": lambda request: request.path.endswith("/1"),
    }
    for name, kind in refused.items():

        def number_of(request: Any, number: int) -> int:
            return number

        api.post(f"/{name}/{{int:number}}", operation_id=name, auth=kind)(number_of)
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        assert names(site) == set(refused)
        assert "401" in str(site.send("tools/call", {"name": "path", "arguments": {"number": 2}}).message)
        assert site.call("path", {"number": 1})["content"][0]["text"] == "1"


def test_the_user_of_a_program_decides(host: str, alice: Any) -> None:
    api = NinjaAPI(urls_namespace="forced")
    api.get("/mine", operation_id="mine", auth=SessionAuth())(lambda request: request.user.username)
    api.get("/staff", operation_id="staff", auth=SessionAuthIsStaff())(lambda request: 1)
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        client = MCPClient(alice, server=site.mcp)
        assert client.tool_names() == {"mine"}
        assert client.call("mine") == "alice"
        alice.is_staff = True
        assert client.tool_names() == {"mine", "staff"}
        assert client.as_user(None).tool_names() == set()


def test_a_cookie_that_is_no_credential_is_not_asked_for(host: str, alice: Any) -> None:
    """A call would not have it; whom the project's middleware finds without it is not known, and hides nothing."""
    seen: list[Any] = []

    def by_user(request: Any) -> bool:
        seen.append((request.COOKIES, request.user.is_authenticated))
        return False

    api = NinjaAPI(urls_namespace="cookies", auth=by_user)
    api.get("/mine", operation_id="mine")(lambda request: 1)
    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        assert names(site, cookie="sessionid=x") == {"mine"}
        assert names(site) == set()
    assert seen == [({}, False)] * 2


def test_versions_that_do_not_bind_routers_are_asked_too(host: str) -> None:
    """As of 1.3, where operations have no ``csrf_exempt`` either."""
    closed = SimpleNamespace(auth_callbacks=[lambda request: None], methods=["GET"])
    opened = SimpleNamespace(auth_callbacks=[lambda request: request.user], methods=["GET"])
    router = SimpleNamespace(path_operations={"/x": SimpleNamespace(operations=[closed, opened])})
    operations = dict(enumerate(operations_of(SimpleNamespace(_routers=[("/below", router)]))))
    assert [path for path, _ in operations.values()] == ["/below//x"] * 2
    sender = Sender(DjangoPrincipal(None), None, ())
    seen = [accepts_sender(operation, "GET", "/below/x", sender) for _, operation in operations.values()]
    assert seen == [False, True]


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{"actions": ["list"]}, {"actions": []}, {"version": "2"}, {"describe_as": lambda: None}]
)
def test_options_of_another_framework_are_refused(host: str, api: NinjaAPI, given: dict[str, Any]) -> None:
    with served(host) as site, pytest.raises(TypeError, match=f"{next(iter(given))}= .*an API of Django Ninja"):
        site.mcp.expose(api, **given)
