"""ferrule.django.access.authentication, .protection: who sends a request, and what a refused client is told."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.test import AsyncClient, AsyncRequestFactory, Client, RequestFactory, override_settings
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled

from ferrule.auth.challenges import parse_challenges
from ferrule.django.access.authentication import AuthenticationRefused, authenticators_of, without_cookies
from ferrule.django.access.principals import DjangoPrincipal, UnknownSender
from ferrule.django.conf import DjangoSettings
from tests.django import project

HERE = __name__
TOKEN = "rest_framework.authentication.TokenAuthentication"
BASIC = "rest_framework.authentication.BasicAuthentication"
SESSION = "rest_framework.authentication.SessionAuthentication"

LIST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


def ask(client: Any = None, message: Any = None, **headers: str) -> Any:
    """The answer of the endpoint; by default to a list of the tools."""
    message = LIST if message is None else message
    params = message["params"]
    sent = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": message["method"],
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return (client or Client()).post("/mcp/", json.dumps(message), content_type="application/json", headers=sent)


def configured(given: dict[str, Any]) -> Any:
    """The project with other keys of the setting ``MCP``."""
    return override_settings(MCP={**project.MCP, **given})


def challenges(answer: Any) -> list[str]:
    return [value for name, value in answer.items() if name.lower() == "www-authenticate"]


def principal(authenticate: Any, **settings: Any) -> DjangoPrincipal:
    """The principal by one authentication of this module."""
    given = DjangoSettings(authentication=(f"{HERE}.{authenticate.__name__}",), **settings)
    return authenticators_of(given).principal_of(RequestFactory().post("/mcp/"))


def kinds_of(authenticators: Any) -> list[str]:
    return [f"{type(each).__module__}.{type(each).__qualname__}" for each in authenticators.each]


# -- authentication of a project's own ---------------------------------------------------------------------------------


class Bearer(TokenAuthentication):
    keyword = "Bearer"


class Silent(BaseAuthentication):
    """Has no challenge, for which Django REST framework answers 403."""

    def authenticate(self, request: Any) -> Any:
        if request.META.get("HTTP_X_KEY") == "wrong":
            raise AuthenticationFailed("No such key")
        return None


class Slow(BaseAuthentication):
    def authenticate(self, request: Any) -> Any:
        raise Throttled(wait=2.5)


def by_header(request: HttpRequest) -> Any:
    """A function instead of a class."""
    name = request.headers.get("x-user")
    if name == "banned":
        raise PermissionDenied("You are banned")
    return None if name is None else User.objects.filter(username=name).first()


class TestRefusals:
    @pytest.mark.parametrize(
        ("classes", "expected"),
        [
            ([TOKEN], ["Token"]),
            ([f"{HERE}.Bearer"], ["Bearer"]),
            ([BASIC], ['Basic realm="api"']),
            ([TOKEN, BASIC, f"{HERE}.Bearer"], ["Token", 'Basic realm="api"', "Bearer"]),
            ([f"{HERE}.Silent", TOKEN], ["Token"]),
            ([f"{HERE}.Silent"], ["Bearer"]),
            ([f"{HERE}.by_header"], ["Bearer"]),
            ([SESSION, TOKEN], ["Token"]),
            ([], ["Bearer"]),
        ],
    )
    def test_a_request_without_credentials_gets_each_challenge(self, classes: list[str], expected: list[str]) -> None:
        """Django REST framework sends the first only, and 403 where the first has none (RFC 9110, 15.5.2)."""
        with configured({"AUTHENTICATION": classes}):
            answer = ask()
        assert answer.status_code == 401
        assert ", ".join(challenges(answer)) == ", ".join(expected)

    def test_the_classes_of_the_project_are_used(self) -> None:
        with override_settings(REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [BASIC]}):
            assert challenges(ask()) == ['Basic realm="api"']

    def test_those_of_a_framework_that_the_project_does_not_use_are_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another package may have installed it; its own defaults accept a name and a password."""
        none = SimpleNamespace(is_installed=lambda _: False)
        monkeypatch.setattr("ferrule.django.access.authentication.apps", none)
        given = DjangoSettings(session_authentication=True)
        assert TOKEN in kinds_of(authenticators_of(given))  # by the setting REST_FRAMEWORK
        with override_settings():
            del django_settings.REST_FRAMEWORK
            assert kinds_of(authenticators_of(DjangoSettings())) == []
            assert kinds_of(authenticators_of(given)) == ["ferrule.django.access.authentication._Session"]
            named = DjangoSettings(authentication=(TOKEN,))
            assert kinds_of(authenticators_of(named)) == [TOKEN]
            refused = authenticators_of(named).principal_of
            with pytest.raises(AuthenticationRefused, match="Invalid token"):
                refused(RequestFactory().post("/mcp/", headers={"authorization": "Token nothing"}))

    def test_wrong_credentials_say_so(self, alice: Any) -> None:
        with configured({"AUTHENTICATION": [f"{HERE}.Bearer"]}):
            wrong = ask(authorization="Bearer nothing")
            (challenge,) = parse_challenges(challenges(wrong)[0])
            assert (wrong.status_code, challenge.error) == (401, "invalid_token")
            assert wrong.json()["error"]["message"] == "Invalid token."
            assert ask(authorization=f"Bearer {alice.token}").status_code == 200
        with configured({"AUTHENTICATION": [f"{HERE}.Silent"]}):
            assert ask(x_key="wrong").status_code == 401

    def test_another_class_may_accept_what_one_does_not_know(self, alice: Any) -> None:
        with configured({"AUTHENTICATION": [BASIC, TOKEN, f"{HERE}.by_header"]}):
            assert ask(authorization=f"Token {alice.token}").status_code == 200
            assert ask(x_user="alice").status_code == 200
            assert ask(x_user="nobody").status_code == 401

    def test_a_refusal_for_now_says_for_how_long(self) -> None:
        with configured({"AUTHENTICATION": [f"{HERE}.Slow"]}):
            answer = ask()
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")

    def test_a_function_may_forbid(self) -> None:
        with configured({"AUTHENTICATION": [f"{HERE}.by_header"]}):
            answer = ask(x_user="banned")
        assert (answer.status_code, answer.json()["error"]["message"]) == (403, "You are banned")
        assert challenges(answer) == []

    def test_an_inactive_user_is_refused_by_each_class(self, alice: Any) -> None:
        """A class of one's own may forget it; and a user may be deactivated between two requests."""
        User.objects.filter(pk=alice.pk).update(is_active=True)
        with configured({"AUTHENTICATION": [TOKEN, f"{HERE}.by_header"]}):
            assert ask(x_user="alice").status_code == 200
            User.objects.filter(pk=alice.pk).update(is_active=False)
            assert ask(x_user="alice").status_code == 401
            assert ask(authorization=f"Token {alice.token}").status_code == 401

    def test_without_required_login_anonymous_requests_are_served(self, alice: Any) -> None:
        """Credentials that are there must still be right."""
        with configured({"REQUIRE_LOGIN": False}):
            answer = ask()
            names = {tool["name"] for tool in answer.json()["result"]["tools"]}
            assert "count_invoices" in names
            assert "invoice_list" not in names  # its permission class refuses the anonymous user
            assert ask(authorization="Token nothing").status_code == 401
            assert ask(authorization=f"Token {alice.token}").status_code == 200

    def test_the_same_under_asgi(self, alice: Any) -> None:
        import asyncio

        async def talk() -> Any:
            headers = {
                "accept": "application/json, text/event-stream",
                "mcp-method": "tools/list",
                "mcp-protocol-version": "2026-07-28",
            }
            given = {"content_type": "application/json", "headers": headers}
            refused = await AsyncClient().post("/mcp/", json.dumps(LIST), **given)
            headers["authorization"] = f"Token {alice.token}"
            return refused, await AsyncClient().post("/mcp/", json.dumps(LIST), **given)

        refused, accepted = asyncio.run(talk())
        assert (refused.status_code, challenges(refused)) == (401, ["Token"])
        assert accepted.status_code == 200

    def test_an_endpoint_outside_the_urlconf_is_protected_too(self, alice: Any) -> None:
        """The protection belongs to the server: `mcp.asgi()` served by itself asks the same classes."""
        import asyncio

        from ferrule.django import mcp
        from tests.transports.asgi.support import modern, modern_call

        async def talk(**headers: str) -> int:
            return (await modern_call(mcp.asgi(), modern(1, "tools/list", {}), **headers).run()).status

        assert asyncio.run(talk()) == 401


# -- what classes return -----------------------------------------------------------------------------------------------


class Returns:
    """A class whose result a test sets."""

    value: Any = None

    def authenticate(self, request: Any) -> Any:
        return self.value

    def authenticate_header(self, request: Any) -> Any:
        return "Bearer"


@pytest.fixture
def returns(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_value(value: Any, **settings: Any) -> DjangoPrincipal:
        monkeypatch.setattr(Returns, "value", value)
        return principal(Returns, **settings)

    return set_value


def user(**facts: Any) -> Any:
    return SimpleNamespace(is_authenticated=True, **facts)


class TestOddResults:
    @pytest.mark.parametrize(
        "value",
        [
            (None, None),
            (AnonymousUser(), None),
            ("alice", None),
            (SimpleNamespace(pk=1), None),
            (SimpleNamespace(pk=1, is_authenticated=False), None),
            (SimpleNamespace(pk=1, is_authenticated=lambda: False), None),
        ],
    )
    def test_what_is_no_authenticated_user_is_anonymous(self, value: Any, returns: Any) -> None:
        assert returns(value, require_login=False).id == ""
        with pytest.raises(Exception, match="Authentication credentials were not provided"):
            returns(value)

    @pytest.mark.parametrize("value", ["alice", ("alice",), (1, 2, 3), 7, True])
    def test_what_is_no_pair_is_a_mistake(self, value: Any, returns: Any) -> None:
        with pytest.raises(TypeError, match="neither None nor"):
            returns(value)

    @pytest.mark.parametrize("value", [(user(), None), (user(pk=None), None), (User(), None), (None, object())])
    def test_a_sender_that_nothing_identifies_is_a_mistake(self, value: Any, returns: Any) -> None:
        """Two of them would share their sessions, states and tasks."""
        with pytest.raises(UnknownSender):
            returns(value)

    def test_mistakes_are_500_and_logged_without_credentials(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(Returns, "value", (user(), None))
        with configured({"AUTHENTICATION": [f"{HERE}.Returns"]}), caplog.at_level(logging.DEBUG):
            answer = ask(authorization="Bearer very-secret")
        assert answer.status_code == 500
        assert "SimpleNamespace" not in answer.content.decode()
        assert "has neither a primary key nor a name" in caplog.text
        assert "very-secret" not in caplog.text

    def test_a_client_without_a_user_is_a_sender_of_its_own(self, returns: Any) -> None:
        """As django-oauth-toolkit has it for client credentials; permissions see no user."""
        token = SimpleNamespace(application=SimpleNamespace(client_id="robot"), scope="read")
        found = returns((None, token))
        assert (found.user, found.client_id, found.scopes) == (None, "robot", frozenset({"read"}))
        assert found != returns((None, "other token"))
        assert "other token" not in found.id

    def test_a_client_is_no_user_of_the_same_name(self, returns: Any) -> None:
        token = SimpleNamespace(application=SimpleNamespace(client_id="7"))
        ids = {
            returns(value).id
            for value in (
                (None, token),
                (User(pk=7), None),
                (User(pk=7), token),
                (user(pk=7), None),
                (user(username="7"), None),
                (user(username="7"), token),
            )
        }
        assert len(ids) == 6

    def test_a_user_is_equal_with_every_token_of_one_client(self, returns: Any) -> None:
        """A refreshed token, or one with more scopes, keeps the session and the tasks."""
        app = SimpleNamespace(client_id="app")
        first = returns((User(pk=7), SimpleNamespace(application=app, scope="read")))
        second = returns((User(pk=7), SimpleNamespace(application=app, scope="read write")))
        other = returns((User(pk=7), SimpleNamespace(application=SimpleNamespace(client_id="b"), scope="read")))
        assert first == second
        assert hash(first) == hash(second)
        assert first != other
        assert returns((User(pk=7), "token")) == returns((User(pk=7), "another"))

    def test_a_sender_is_found_again_by_its_id_without_scopes(self, alice: Any, returns: Any) -> None:
        """Another process runs a task by the id alone; only a user of the project is found again."""
        app = SimpleNamespace(client_id="my app 100%")
        found = returns((alice, SimpleNamespace(application=app, scope="write")))
        again = DjangoPrincipal.of_id(found.id)
        assert again == found
        assert (again.user, again.client_id, again.scopes) == (alice, "my app 100%", frozenset())
        assert DjangoPrincipal.of_id(str(alice.pk)).user == alice
        for value in ((None, SimpleNamespace(application=app)), (user(pk=alice.pk), None)):
            assert DjangoPrincipal.of_id(returns(value).id).user is None
        User.objects.filter(pk=alice.pk).update(is_active=False)
        assert DjangoPrincipal.of_id(found.id).user.is_anonymous
        assert DjangoPrincipal.of_id("no key").user.is_anonymous

    @pytest.mark.parametrize(
        ("token", "scopes"),
        [
            (SimpleNamespace(scope="a b"), {"a", "b"}),
            (SimpleNamespace(scopes={"a": "what it is", "b": ""}), {"a", "b"}),
            ({"scope": "a b"}, {"a", "b"}),
            ({"scope": ["a", 7, "b"]}, {"a", "b"}),
            ({"scp": ["a"]}, {"a"}),
            ({"scp": "a b"}, {"a", "b"}),
            ({"scope": 7}, set()),
            ({}, set()),
            ("a b", set()),
            (SimpleNamespace(scope=None), set()),
        ],
    )
    def test_scopes_are_those_of_the_token(self, token: Any, scopes: set[str], returns: Any) -> None:
        assert returns((User(pk=1), token)).scopes == scopes


# -- the URL -----------------------------------------------------------------------------------------------------------


def by_url(request: HttpRequest) -> Any:
    """Reads the URL, as classes of packages do."""
    assert "ccess_token" not in request.get_full_path()
    found = request.GET.get("access_token") or request.GET.get("key")
    return User(pk=found) if found else None


@pytest.mark.parametrize(
    ("query", "sender"),
    [
        ("access_token=7", ""),
        ("%61ccess_token=7&access_token=8", ""),
        ("key=9&access_token=7", "9"),
        ("key=%C3%A9+%FF&x=&access_token=7", "\u00e9%20\ufffd"),
        ("key=9", "9"),
    ],
)
@pytest.mark.parametrize("factory", [RequestFactory, AsyncRequestFactory])
def test_an_access_token_in_the_url_does_not_count(query: str, sender: str, factory: Any) -> None:
    """A URL is in logs and histories; django-oauth-toolkit accepts it there. What is a project's own stays."""
    given = DjangoSettings(authentication=(f"{HERE}.by_url",), require_login=False)
    authenticators = authenticators_of(given)
    request = factory().post(f"/mcp/?{query}")
    assert request.GET  # as middleware reads it
    assert authenticators.principal_of(request).id == sender
    assert request.META["QUERY_STRING"] == query


# -- cookies -----------------------------------------------------------------------------------------------------------


class ByCookie(BaseAuthentication):
    """Reads a cookie, the session and its user, whichever is there."""

    def authenticate(self, request: Any) -> Any:
        names = [request.COOKIES.get("jwt"), request._request.headers.get("cookie"), request.META.get("HTTP_COOKIE")]
        assert not any(names), "the cookie"
        assert not request._request.session.get("_auth_user_id"), "the session"
        return None if not request._request.user.is_authenticated else (request._request.user, None)

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


class WithoutCsrf(SessionAuthentication):
    def enforce_csrf(self, request: Any) -> None:
        """Check nothing."""


def signed_in(user: Any) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client


def csrf_of(client: Client) -> str:
    from django.middleware.csrf import _get_new_csrf_string

    client.cookies["csrftoken"] = found = _get_new_csrf_string()
    return found


class TestCookies:
    def test_no_class_sees_a_cookie_in_what_the_host_has_given(self, alice: Any) -> None:
        """Django reads the header once, and keeps the whole request of the host."""
        request = RequestFactory().post("/mcp/", headers={"cookie": "jwt=abc"})
        assert without_cookies(request).environ is not request.environ
        assert "abc" not in str(vars(without_cookies(request)))
        request = AsyncRequestFactory().post("/mcp/", headers={"cookie": "jwt=abc"})
        assert "abc" not in str(vars(without_cookies(request)))
        assert "abc" in str(vars(request))

    @pytest.mark.parametrize("classes", [[SESSION], [f"{HERE}.ByCookie"], [TOKEN, SESSION]])
    def test_a_session_alone_is_refused(self, classes: list[str], alice: Any) -> None:
        """Whatever class reads it: a browser sends it with requests of any page."""
        client = signed_in(alice)
        client.cookies["jwt"] = "abc"
        with configured({"AUTHENTICATION": classes}):
            assert ask(client).status_code == 401
            assert ask(client, x_csrftoken=csrf_of(client)).status_code == 401

    def test_a_session_counts_with_a_csrf_token_where_it_is_switched_on(self, alice: Any) -> None:
        with configured({"AUTHENTICATION": [SESSION], "SESSION_AUTHENTICATION": True}):
            client = signed_in(alice)
            refused = ask(client)
            assert (refused.status_code, refused.json()["error"]["message"]) == (
                403,
                "CSRF Failed: CSRF cookie not set.",
            )
            token = csrf_of(client)
            assert ask(client).status_code == 403
            assert ask(client, x_csrftoken="x" * 32).status_code == 403
            assert ask(client, x_csrftoken=token).status_code == 200
            assert ask(client, x_csrftoken=token, origin="http://testserver").status_code == 200
            listed = {**LIST, "method": "tools/call", "params": {**LIST["params"], "name": "invoice_list"}}
            assert ask(client, message=listed, x_csrftoken=token).status_code == 200  # of the view, too

    def test_a_class_that_leaves_out_the_csrf_check_does_not_do_so_here(self, alice: Any) -> None:
        """Projects have such a class for pages of their own; here any page could call the tools of its visitor."""
        client = signed_in(alice)
        with configured({"AUTHENTICATION": [f"{HERE}.WithoutCsrf"], "SESSION_AUTHENTICATION": True}):
            refused = ask(client)
            assert (refused.status_code, refused.json()["error"]["message"][:11]) == (403, "CSRF Failed")
            assert ask(client, x_csrftoken=csrf_of(client)).status_code == 200

    def test_a_page_of_another_origin_can_do_nothing(self, alice: Any) -> None:
        client = signed_in(alice)
        with configured({"AUTHENTICATION": [SESSION], "SESSION_AUTHENTICATION": True}):
            token = csrf_of(client)
            assert ask(client, x_csrftoken=token, origin="https://testserver").status_code == 403
            for origin in ("https://evil.example", "null", "http://testserver.evil.example", "http://testserver:1"):
                answer = ask(client, x_csrftoken=token, origin=origin)
                assert answer.status_code == 403, origin
                assert "access-control-allow-origin" not in answer.headers, origin
            simple = client.post("/mcp/", json.dumps(LIST), content_type="text/plain", headers={"x-csrftoken": token})
            assert simple.status_code in (400, 415)

    def test_other_cookies_stay_hidden_from_other_classes(self, alice: Any) -> None:
        client = signed_in(alice)
        client.cookies["jwt"] = "abc"
        with configured({"AUTHENTICATION": [f"{HERE}.ByCookie", TOKEN], "SESSION_AUTHENTICATION": True}):
            assert ask(client).status_code == 401
            assert ask(client, authorization=f"Token {alice.token}").status_code == 200


# -- scopes ------------------------------------------------------------------------------------------------------------


def test_a_tool_may_need_a_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.django import mcp

    mcp.add_tool(lambda: "written", name="write_it", scopes="write")
    message = {**LIST, "method": "tools/call", "params": {**LIST["params"], "name": "write_it", "arguments": {}}}
    try:
        servers = ["https://login.example"]
        with configured({"AUTHENTICATION": [f"{HERE}.Returns"], "AUTHORIZATION_SERVERS": servers}):
            monkeypatch.setattr(Returns, "value", (User(pk=1), {"scope": "read"}))
            assert "write_it" in {tool["name"] for tool in ask().json()["result"]["tools"]}
            lacking = ask(message=message)
            (challenge,) = parse_challenges(challenges(lacking)[0])
            assert (lacking.status_code, challenge.error, challenge.scopes) == (403, "insufficient_scope", ("write",))
            assert challenge.resource_metadata == "http://testserver/mcp/.well-known/oauth-protected-resource"
            monkeypatch.setattr(Returns, "value", (User(pk=1), {"scope": "read write"}))
            assert ask(message=message).json()["result"]["content"][0]["text"] == "written"
    finally:
        mcp.remove_tool("write_it")


def test_a_user_of_the_program_has_all_scopes() -> None:
    """`as_user` needs no token: the program that serves has said who the sender is."""
    import asyncio

    from ferrule import Client as MCPClient
    from ferrule.django import mcp

    mcp.add_tool(lambda: "written", name="write_it", scopes="write")

    async def talk() -> Any:
        async with MCPClient(mcp) as client:
            return await client.call_tool("write_it", {})

    try:
        with mcp.as_user(User(pk=1)):
            assert asyncio.run(talk()).text == "written"
    finally:
        mcp.remove_tool("write_it")
