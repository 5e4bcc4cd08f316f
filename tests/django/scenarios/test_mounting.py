"""A Django server mounted in another one, and another one in it: the login and the guards hold at each depth."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from django.urls import path
from rest_framework.authentication import TokenAuthentication
from rest_framework.permissions import IsAdminUser
from rest_framework.response import Response
from rest_framework.views import APIView

from ferrule import Context, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.django import DjangoServer
from ferrule.django.permissions import is_staff
from ferrule.django.testing import MCPClient
from ferrule.protocol.errors import RemoteError
from tests.django.serving import Site, served
from tests.transports.asgi.support import modern, modern_call


class Secret(APIView):
    """For staff."""

    authentication_classes = (TokenAuthentication,)
    permission_classes = (IsAdminUser,)

    def get(self, request: Any) -> Response:
        """Return who asks."""
        return Response({"user": request.user.get_username()})


def filled(server: MCPServer[Any]) -> MCPServer[Any]:
    """Return a server with a tool for each kind of guard."""

    @server.tool
    def who(ctx: Context) -> str:
        """Return who calls."""
        return str(getattr(ctx.principal, "user", ctx.principal))

    server.add_tool(lambda: "for staff", name="for_staff", allow=is_staff)
    server.add_tool(lambda: "written", name="write_it", scopes="write")
    server.add_resource("data://secret", lambda: "for staff", allow=is_staff)
    return server


def django_server(name: str, **settings: Any) -> DjangoServer:
    return DjangoServer(name, settings={"STORE": "memory:", **settings})


@pytest.fixture(params=["plain", "django"])
def guest(request: Any) -> MCPServer[Any]:
    """What is mounted."""
    if request.param == "plain":
        return filled(MCPServer("guest"))
    made = django_server("guest")
    made.expose(Secret)
    return filled(made)


@pytest.fixture(params=["wsgi", "asgi"])
def site(request: Any, guest: Any) -> Generator[Site]:
    """A Django server with the guest behind a middle one."""
    host, middle = django_server("host"), django_server("middle")
    middle.mount(guest, prefix="in")
    host.mount(middle, prefix="out")
    with served(request.param, lambda: [path("secret/", Secret.as_view())], server=host) as found:
        yield found


def test_calls_of_a_mounted_server_need_the_login(site: Site) -> None:
    for method, params in (
        ("tools/list", {}),
        ("tools/call", {"name": "out_in_who", "arguments": {}}),
        ("resources/read", {"uri": "data://out/in/secret"}),
    ):
        answer = site.send(method, params)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Token"), method


def test_guards_of_a_mounted_server_ask_the_user(site: Site, guest: Any, alice: Any) -> None:
    """Its own visibility does not run for lists of the outer one, which must ask for it."""
    is_django = isinstance(guest, DjangoServer)
    assert set(site.tools(alice)) == {"out_in_who", "out_in_write_it"}
    assert site.call("out_in_who", {}, alice)["content"][0]["text"] == "alice"
    hidden = ["out_in_for_staff", *(["out_in_secret_get"] if is_django else [])]
    for name in hidden:
        assert (
            "Unknown tool"
            in site.send("tools/call", {"name": name, "arguments": {}}, alice).message["error"]["message"]
        )
    assert "error" in site.send("resources/read", {"uri": "data://out/in/secret"}, alice).message
    assert site.send("resources/list", {}, alice).message["result"]["resources"] == []
    assert site.send("tools/call", {"name": "out_in_write_it", "arguments": {}}, alice).status_code == 403
    type(alice).objects.filter(pk=alice.pk).update(is_staff=True)
    assert set(site.tools(alice)) == {"out_in_who", "out_in_write_it", *hidden}
    assert site.call("out_in_for_staff", {}, alice)["content"][0]["text"] == "for staff"
    if is_django:
        assert site.data("out_in_secret_get", {}, alice) == {"user": "alice"}
    (resource,) = site.send("resources/list", {}, alice).message["result"]["resources"]
    assert resource["uri"] == "data://out/in/secret"


def test_guards_of_a_mounted_server_ask_the_user_of_a_program(site: Site, alice: Any) -> None:
    client = MCPClient(alice, server=site.mcp)
    assert client.tool_names() == {"out_in_who", "out_in_write_it"}
    assert client.call("out_in_who") == "alice"
    with pytest.raises(RemoteError, match="Unknown tool"):
        client.call("out_in_for_staff")
    type(alice).objects.filter(pk=alice.pk).update(is_staff=True)
    alice.refresh_from_db()
    assert client.as_user(alice).call("out_in_for_staff") == "for staff"


def test_a_legacy_client_is_guarded_alike(site: Site, alice: Any) -> None:
    headers = {"authorization": f"Token {alice.token}"}
    client = MCPClient(server=site.mcp, http=True, headers=headers, mode="2025-11-25")
    assert client.tool_names() == {"out_in_who", "out_in_write_it"}
    assert client.call("out_in_who") == "alice"
    with pytest.raises(RemoteError, match="Unknown tool"):
        client.call("out_in_for_staff")


# -- in a server that is not Django's ----------------------------------------------------------------------------------


def test_a_plain_server_without_a_login_does_not_mount_a_django_server() -> None:
    """Anyone who reaches it could call everything; the error says what to do."""
    host, guest = MCPServer[Any]("host"), filled(django_server("guest", REQUIRE_LOGIN=False))
    with pytest.raises(RegistrationError, match=r"'guest' has auth= and 'host' has none.*set auth= of 'host' too"):
        host.mount(guest)
    assert list(host.tools.index) == []


def test_a_plain_server_with_a_login_decides_about_a_mounted_django_server(alice: Any) -> None:
    """Its senders are no users of the project: what asks for a user is hidden, and a view decides itself."""
    resource = "http://127.0.0.1:8000/mcp"
    tokens = StaticTokens({alice.token: {"subject": "x", "scopes": ["write"]}})
    host: MCPServer[Any] = MCPServer("host", auth=ResourceServer(tokens, resource=resource))
    guest = django_server("guest")
    guest.expose(Secret)
    host.mount(filled(guest))

    async def answer(name: str | None = None, **headers: str) -> Any:
        method, params = ("tools/list", {}) if name is None else ("tools/call", {"name": name, "arguments": {}})
        return await modern_call(host.asgi(), modern(1, method, params), **headers).run()

    async def talk() -> None:
        bearer = f"Bearer {alice.token}"
        for name in (None, "who", "secret_get"):
            assert (await answer(name)).status == 401
            assert (await answer(name, authorization=f"Token {alice.token}")).status == 401
        listed = {tool["name"] for tool in (await answer(authorization=bearer)).json["result"]["tools"]}
        assert {"who", "write_it"} <= listed
        assert "for_staff" not in listed
        assert "Unknown tool" in (await answer("for_staff", authorization=bearer)).json["error"]["message"]
        assert (await answer("write_it", authorization=bearer)).status == 200
        assert (await answer("secret_get", authorization=bearer)).status == 401  # the view knows no such token

    asyncio.run(talk())
