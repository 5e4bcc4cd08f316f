"""ferrule.django.access.verified: when a view takes the sender that the endpoint has found, and when it must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import path
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, SessionAuthentication
from rest_framework.authentication import TokenAuthentication as Token
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView
from rest_framework_simplejwt.authentication import JWTAuthentication
from rest_framework_simplejwt.settings import api_settings
from rest_framework_simplejwt.tokens import AccessToken

from ferrule.app.execution.threads import WorkerThreads
from ferrule.django.access import verified
from ferrule.django.access.principals import DjangoPrincipal
from tests.django import project
from tests.django.serving import served

HERE = __name__
both = pytest.mark.parametrize("host", ["wsgi", "asgi"])


class Bearer(Token):
    """Another keyword, and no function of its own."""

    keyword = "Bearer"


class Noting(Token):
    """Has a function of its own, which may leave something for the view, such as the tenant."""

    def authenticate_credentials(self, key: str) -> Any:
        """Return the sender."""
        return super().authenticate_credentials(key)


class Never(BaseAuthentication):
    """Knows no user, but may look at the path."""

    def authenticate(self, request: Any) -> None:
        """Return nothing."""


class OtherSession(SessionAuthentication):
    """May find a user without a cookie."""

    def authenticate(self, request: Any) -> None:
        """Return nothing."""


class Shown(APIView):
    """Shows who sends a request."""

    permission_classes = (IsAuthenticated,)
    authentication_classes: Any = (Token,)

    def get(self, request: Request) -> Response:
        """Return what Django REST framework knows of the sender."""
        asked: Any = request
        return Response(
            {
                "user": request.user.get_username(),
                "user_of_django": asked._request.user.get_username(),
                "auth": type(request.auth).__name__,
                "auth_of_django": type(asked._request.auth).__name__,
                "by": type(asked.successful_authenticator).__name__,
                "is_one_of_the_authenticators": asked.successful_authenticator in asked.authenticators,
                "challenge": self.get_authenticate_header(request),
            }
        )


class Overridden(Shown):
    """Chooses its authenticators itself."""

    def get_authenticators(self) -> Any:
        """Return the usual ones."""
        return super().get_authenticators()


def view(*classes: Any, base: Any = Shown) -> Any:
    """A view with these authentication classes."""
    return type("Shown", (base,), {"authentication_classes": classes, "__doc__": base.__doc__})


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that were looked up."""
    found: list[str] = []
    original = Token.authenticate_credentials

    def note(self: Any, key: str) -> Any:
        found.append(key)
        return original(self, key)

    monkeypatch.setattr(Token, "authenticate_credentials", note)
    return found


def call(kind: Any, user: Any, host: str = "wsgi", classes: Any = (Token,), **headers: str) -> Any:
    """The message that answers a call of a view, at an endpoint with these authentication classes."""
    names = tuple(f"{each.__module__}.{each.__qualname__}" for each in classes)
    with served(host, lambda: [path("shown/", kind.as_view())], authentication=names) as site:
        site.mcp.expose(kind)
        return site.send("tools/call", {"name": "shown_get", "arguments": {}}, user, **headers).message


def shown(*given: Any, **options: Any) -> Any:
    """What a view shows; for the arguments see `call`."""
    return call(*given, **options)["result"]["structuredContent"]


@both
def test_each_call_looks_up_its_token_once(host: str, alice: Any, looked_up: list[str]) -> None:
    call(view(Token), alice, host)
    assert looked_up == [alice.token]


@both
@pytest.mark.parametrize("classes", [(Token,), (SessionAuthentication, Token), (Token, SessionAuthentication)])
def test_a_view_sees_what_its_own_authentication_would_show(
    host: str, classes: Any, alice: Any, looked_up: list[str]
) -> None:
    """Also permissions that ask which class knows the sender, and the challenge of the first class."""
    taken = shown(view(*classes), alice, host)
    assert len(looked_up) == 1
    asked = shown(view(*classes, base=Overridden), alice, host)
    assert len(looked_up) == 3
    assert taken == asked
    assert taken["by"] == taken["auth"] + "Authentication" == "TokenAuthentication"
    assert taken["user"] == taken["user_of_django"] == "alice"
    assert taken["is_one_of_the_authenticators"]


def test_a_class_with_another_keyword_is_known_too(alice: Any, looked_up: list[str]) -> None:
    found = shown(view(Bearer), alice, classes=(Bearer,), authorization=f"Bearer {alice.token}")
    assert found["by"] == "Bearer"
    assert len(looked_up) == 1


@pytest.mark.parametrize(
    ("of_view", "of_endpoint"),
    [
        ((Bearer, Token), (Token,)),
        ((Token, BasicAuthentication), (Token,)),
        ((Token,), (Token, BasicAuthentication)),
        ((Never, Token), (Never, Token)),
        ((OtherSession, Token), (Token,)),
        ((Noting,), (Token,)),
        ((Noting,), (Noting,)),
    ],
    ids=lambda classes: "+".join(each.__name__ for each in classes),
)
def test_a_view_asks_itself_where_another_result_is_possible(
    of_view: Any, of_endpoint: Any, alice: Any, looked_up: list[str]
) -> None:
    """Classes that differ, that the endpoint did not ask, or that look at more than the header or leave something."""
    assert shown(view(*of_view), alice, classes=of_endpoint)["user"] == "alice"
    assert len(looked_up) == 2


def test_a_view_without_these_classes_does_not_know_the_sender(alice: Any) -> None:
    for classes in ((), (BasicAuthentication,)):
        answer = call(view(*classes), alice)
        assert "The API answered 40" in str(answer), answer  # 403 where no class has a challenge


class _ChangesTheToken:
    """A middleware that names another sender to the views."""

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        if request.path == "/shown/":
            request.META["HTTP_AUTHORIZATION"] = "Token unknown"
        return self._get_response(request)


class _AddsACookie(_ChangesTheToken):
    def __call__(self, request: Any) -> Any:
        if request.path == "/shown/":
            request.META["HTTP_COOKIE"] = "a=b"
        return self._get_response(request)


class _KnowsTheUser(_ChangesTheToken):
    """A middleware that names a user, whom `SessionAuthentication` finds before the token is looked at."""

    def __call__(self, request: Any) -> Any:
        if request.path == "/shown/":
            request.user = User(username="bob")
        return self._get_response(request)


def test_middleware_that_changes_the_credentials_is_heeded(alice: Any, looked_up: list[str]) -> None:
    with override_settings(MIDDLEWARE=[*project.MIDDLEWARE, f"{HERE}._ChangesTheToken"]):
        assert "Invalid token" in str(call(view(Token), alice))
    assert looked_up == [alice.token, "unknown"]
    with override_settings(MIDDLEWARE=[*project.MIDDLEWARE, f"{HERE}._AddsACookie"]):
        call(view(Token), alice)
    assert len(looked_up) == 4


def test_the_user_of_a_middleware_comes_first_where_the_view_says_so(alice: Any) -> None:
    with override_settings(MIDDLEWARE=[*project.MIDDLEWARE, f"{HERE}._KnowsTheUser"]):
        for classes, expected in (((SessionAuthentication, Token), "bob"), ((Token, SessionAuthentication), "alice")):
            assert shown(view(*classes), alice)["user"] == expected


def test_what_was_found_is_not_used_for_long(alice: Any, looked_up: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A token may be revoked while a call waits."""
    now = iter((0.0, verified.MAX_AGE_S + 0.1))
    monkeypatch.setattr(verified, "monotonic", lambda: next(now))
    call(view(Token), alice)
    assert len(looked_up) == 2


class Redirecting(Shown):
    """Answers at another address."""

    authentication_classes = (Token,)

    def get(self, request: Request) -> Response:
        """Redirect to the same path, once."""
        if "again" not in request.GET:
            return Response(status=307, headers={"Location": "/shown/?again=1"})
        return super().get(request)


def test_one_request_only_takes_what_was_found(alice: Any, looked_up: list[str]) -> None:
    assert shown(view(Token, base=Redirecting), alice)["user"] == "alice"
    assert len(looked_up) == 2
    principal, token = DjangoPrincipal(alice), Token()
    principal.verified = verified.VerifiedSender.of([token], token, alice, None, APIRequestFactory().get("/"))
    assert principal.take_verified() is not None
    assert principal.take_verified() is None


def test_other_requests_are_authenticated_as_always(alice: Any, looked_up: list[str]) -> None:
    verified.give_to_views()
    verified.give_to_views()  # a second time changes nothing
    with served("wsgi", lambda: [path("shown/", Shown.as_view())]):
        for token, status in ((alice.token, 200), ("unknown", 401)):
            assert Client().get("/shown/", headers={"authorization": f"Token {token}"}).status_code == status
    assert looked_up == [alice.token, "unknown"]
    forced = APIRequestFactory().get("/shown/")
    force_authenticate(forced, user=alice)
    assert Shown.as_view()(forced).data["by"] == "ForcedAuthentication"


@pytest.mark.parametrize(("header", "expected"), [("HTTP_AUTHORIZATION", 1), ("HTTP_X_TOKEN", 2)])
def test_signed_tokens_are_checked_once_in_the_usual_header(
    header: str, expected: int, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[bytes] = []

    def check(self: Any, token: bytes) -> Any:
        checked.append(token)
        return AccessToken.for_user(alice)

    monkeypatch.setattr(JWTAuthentication, "get_validated_token", check)
    monkeypatch.setattr(api_settings, "AUTH_HEADER_NAME", header, raising=False)
    name = header.removeprefix("HTTP_").replace("_", "-").lower()
    kind, names = view(JWTAuthentication), (f"{JWTAuthentication.__module__}.JWTAuthentication",)
    with served("wsgi", lambda: [path("shown/", kind.as_view())], authentication=names) as site:
        site.mcp.expose(kind, forward_headers=(name,))
        result = site.call("shown_get", {}, **{name: "Bearer a.b.c"})
    assert result["structuredContent"]["user"] == "alice"
    assert checked == [b"a.b.c"] * expected


@pytest.mark.parametrize("has_middleware", [False, True])
def test_a_call_runs_one_function(alice: Any, monkeypatch: pytest.MonkeyPatch, has_middleware: bool) -> None:
    """The sender and its rights are found before: with middleware each further function would change threads twice."""
    ran: list[Any] = []
    original = WorkerThreads.run

    async def note(self: Any, function: Any, kwargs: Any) -> Any:
        ran.append(function)
        return await original(self, function, kwargs)

    async def middleware(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    with served("wsgi", lambda: [path("shown/", Shown.as_view())]) as site:
        site.mcp.expose(Shown)
        if has_middleware:
            site.mcp.lowlevel.middleware.append(middleware)
        site.tools(alice)
        monkeypatch.setattr(WorkerThreads, "run", note)
        site.data("shown_get", {}, alice)
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("headers", "status"), [({"origin": "https://evil.example"}, 403), ({"authorization": "Token unknown"}, 401)]
)
def test_a_request_is_refused_as_before_and_looked_up_once_at_most(
    headers: dict[str, str], status: int, alice: Any, looked_up: list[str]
) -> None:
    with served("wsgi") as site:
        assert site.send("tools/list", {}, alice, **headers).status_code == status
    assert looked_up == (["unknown"] if status == 401 else [])
