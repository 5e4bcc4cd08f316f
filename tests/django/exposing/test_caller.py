"""Requests into the project."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.http import HttpResponse
from django.middleware.csrf import _get_new_csrf_string
from django.test import AsyncClient, Client, RequestFactory
from django.urls import path
from rest_framework.authentication import SessionAuthentication, TokenAuthentication
from rest_framework.authtoken.models import Token
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView

from ferrule.django import DjangoServer
from ferrule.django.conf import DjangoSettings
from ferrule.django.exposing.caller import _Handler
from tests.django.serving import served
from tests.django.shop.models import Invoice
from tests.django.shop.views import InvoiceViewSet
from tests.transports.asgi.support import modern, modern_headers


def test_a_view_is_part_of_the_outer_request() -> None:
    """Receivers of Django's signals would close the connection of the thread, which may be in a transaction."""
    sent: list[Any] = []

    def note(sender: Any, **_: Any) -> None:
        sent.append(sender)

    request_started.connect(note)
    request_finished.connect(note)
    try:
        environ = RequestFactory().get("/api/invoices/").environ
        started: list[Any] = []
        parts = _Handler(None)(environ, lambda status, headers: started.append((status, dict(headers))))
        body = b"".join(parts)
        parts.close()
    finally:
        request_started.disconnect(note)
        request_finished.disconnect(note)
    assert sent == []
    assert started[0][0] == "401 Unauthorized"
    assert started[0][1]["WWW-Authenticate"] == "Token"
    assert "credentials" in json.loads(body)["detail"]


def test_what_a_response_has_opened_is_closed(monkeypatch: Any) -> None:
    closed: list[str] = []
    response: Any = HttpResponse(b"x")
    response.set_cookie("a", "b")
    response._resource_closers.append(lambda: closed.append("file"))
    handler = _Handler(None)
    monkeypatch.setattr(handler, "get_response", lambda _: response)
    started: list[Any] = []
    parts = handler(RequestFactory().get("/").environ, lambda _, headers: started.extend(headers))
    assert b"".join(parts) == b"x"
    parts.close()
    assert closed == ["file"]
    assert response.closed
    assert [value.split(";")[0] for name, value in started if name == "Set-Cookie"] == ["a=b"]


# -- sessions ----------------------------------------------------------------------------------------------------------

TOKEN = "rest_framework.authentication.TokenAuthentication"
SESSION = "rest_framework.authentication.SessionAuthentication"
SENT = ("HTTP_COOKIE", "HTTP_X_CSRFTOKEN", "HTTP_ORIGIN", "HTTP_REFERER", "HTTP_X_TENANT")


class Echo(APIView):
    """Says what it got."""

    authentication_classes = (TokenAuthentication, SessionAuthentication)
    permission_classes = ()

    def post(self, request: Any) -> Response:
        """Return the user, and the headers that belong to sessions."""
        sent = {name: request.META[name] for name in SENT if name in request.META}
        return Response({"user": str(request.user), "sent": sorted(sent), "tenant": sent.get("HTTP_X_TENANT")})


def patterns() -> list[Any]:
    router = SimpleRouter()
    router.register("invoices", InvoiceViewSet)
    return [path("echo/", Echo.as_view()), *router.urls]


class Browser:
    """A browser with the session and the CSRF token of a user, at a server with these settings."""

    def __init__(self, host: str, user: Any) -> None:
        kind: Any = Client if host == "wsgi" else AsyncClient
        self.client: Any = kind(enforce_csrf_checks=True)
        self.client.force_login(user)
        self.client.cookies["csrftoken"] = self.csrf = _get_new_csrf_string()

    def post(self, name: str, arguments: dict[str, Any], *, secure: bool = False, **headers: str) -> Any:
        """Call a tool, from a page of the same site, with the CSRF token unless it is given."""
        body = modern(1, "tools/call", {"name": name, "arguments": arguments})
        given = {
            **modern_headers(body, host=None, content_type=None),
            "x-csrftoken": self.csrf,
            "origin": f"http{'s' * secure}://testserver",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        given = {name: value for name, value in given.items() if value}
        answer = self.client.post(
            "/mcp/", json.dumps(body), content_type="application/json", headers=given, secure=secure
        )
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


@pytest.fixture(params=["wsgi", "asgi"])
def browser(request: Any, alice: Any) -> Any:
    """Return a function that serves a view and returns a browser there."""
    with ExitStack() as stack:

        def serve(view: Any, **settings: Any) -> Browser:
            given = {"require_login": True, "store": "memory:", "forward_headers": ("x-tenant",), **settings}
            server = DjangoServer("site", settings=DjangoSettings(**given))
            server.expose(view)
            stack.enter_context(served(request.param, patterns, server=server))
            return Browser(request.param, alice)

        yield serve


def data(answer: Any) -> Any:
    assert answer.status_code == 200, answer.content
    return answer.json()["result"]["structuredContent"]


Serve = Callable[..., Browser]


@pytest.mark.parametrize("secure", [False, True])
def test_the_user_of_a_session_calls_a_view_that_writes(browser: Serve, secure: bool, alice: Any) -> None:
    """The view checks the CSRF token as for any request, with the header and the origin of the page."""
    with_session = browser(InvoiceViewSet, authentication=(SESSION,), session_authentication=True)
    made = data(with_session.post("invoice_create", {"title": "a", "amount": "1"}, secure=secure))
    assert Invoice.objects.get(pk=made["id"]).owner == alice
    for refused in (
        {"x_csrftoken": ""},
        {"x_csrftoken": "x" * 32},
        {"origin": "https://evil.example"},
        {"origin": "", "referer": "https://evil.example/"} if secure else {"origin": "null"},
    ):
        answer = with_session.post("invoice_create", {"title": "b", "amount": "1"}, secure=secure, **refused)
        assert answer.status_code == 403, refused
    assert Invoice.objects.count() == 1


def test_a_view_gets_what_belongs_to_the_session_of_its_user(browser: Serve) -> None:
    with_session = browser(Echo, authentication=(TOKEN, SESSION), session_authentication=True)
    found = data(with_session.post("echo_post", {}, referer="http://testserver/page", x_tenant="t"))
    assert (found["user"], found["sent"]) == ("alice", sorted(SENT))


@pytest.mark.parametrize("session_authentication", [False, True])
def test_a_cookie_beside_a_token_stays_behind(browser: Serve, session_authentication: bool) -> None:
    """It is of another user, and no credential of this request."""
    with_session = browser(Echo, authentication=(TOKEN, SESSION), session_authentication=session_authentication)
    bob = User.objects.create_user("bob")
    try:
        token = Token.objects.create(user=bob).key
        found = data(
            with_session.post(
                "echo_post", {}, authorization=f"Token {token}", referer="http://testserver/", x_tenant="t"
            )
        )
        assert found == {"user": "bob", "sent": ["HTTP_X_TENANT"], "tenant": "t"}
    finally:
        bob.delete()


def test_a_cookie_of_an_anonymous_sender_stays_behind(browser: Serve) -> None:
    """Even where a project forwards the header by its name: a view would take its user for the sender."""
    forward = ("cookie", "x-tenant", "x-tenant")
    with_session = browser(Echo, require_login=False, forward_headers=forward)
    found = data(with_session.post("echo_post", {}, x_tenant="t"))
    assert found == {"user": "AnonymousUser", "sent": ["HTTP_X_TENANT"], "tenant": "t"}
