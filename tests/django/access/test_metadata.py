"""Where clients learn how to sign in, whatever the project's URLconf and proxies are."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import include, path

from ferrule.auth.challenges import parse_challenges
from ferrule.django import DjangoServer
from tests.django.access.test_authentication import ask, challenges, configured

SERVERS = {"AUTHORIZATION_SERVERS": ["https://login.example"]}
BELOW = ".well-known/oauth-protected-resource"


def get(url: str, **options: Any) -> Any:
    return Client().get(url, **options)


def advertised(answer: Any) -> str | None:
    (challenge,) = parse_challenges(challenges(answer)[0].removeprefix("Token, "))
    return challenge.resource_metadata


def urlconf(*patterns: Any) -> Any:
    module: Any = ModuleType("urlconf")
    module.urlpatterns = list(patterns)
    return module


def server(**settings: Any) -> DjangoServer:
    return DjangoServer("other", settings={**SERVERS, **settings})


def test_without_authorization_servers_there_are_none() -> None:
    assert get(f"/mcp/{BELOW}").status_code == 404
    assert challenges(ask()) == ["Token"]


def test_they_stand_below_the_endpoint_without_being_routed() -> None:
    """The challenge names their URL, so clients need no well-known one (RFC 9728, 5.1)."""
    with configured({**SERVERS, "SCOPES_SUPPORTED": ["read"]}):
        url = advertised(ask())
        assert url == f"http://testserver/mcp/{BELOW}"
        answer = get(f"/mcp/{BELOW}")
        assert answer.json() == {
            "resource": "http://testserver/mcp/",
            "authorization_servers": ["https://login.example"],
            "scopes_supported": ["read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "shop",
        }
        assert answer.headers["access-control-allow-origin"] == "*"
        assert Client(enforce_csrf_checks=True).options(f"/mcp/{BELOW}").status_code == 204
        assert Client(enforce_csrf_checks=True).post(f"/mcp/{BELOW}").status_code == 405


def test_they_stand_at_the_root_of_the_site_where_it_routes_them() -> None:
    """Some clients look there without being told; of several servers each has its path."""
    one, two = server(), DjangoServer("two", settings=SERVERS)
    routes = urlconf(
        path("a/mcp/", one.urls),
        path("b/", include(([path("mcp", two.urls)], "app"), namespace="b")),
        path(".well-known/", one.well_known),
        path(".well-known/", two.well_known),
    )
    with override_settings(ROOT_URLCONF=routes):
        for url, resource in (("/a/mcp/", "a/mcp/"), ("/a/mcp", "a/mcp/"), ("/b/mcp", "b/mcp"), ("", "a/mcp/")):
            found = get(f"/{BELOW}{url}")
            assert found.json()["resource"] == f"http://testserver/{resource}", url
        for url in ("/mcp", "/a", "/a/mcp/x", "x"):
            assert get(f"/{BELOW}{url}").status_code == 404, url
        for endpoint in ("/a/mcp/", "/b/mcp"):
            url = advertised(Client().post(endpoint, "{}", content_type="application/json"))
            assert url == f"http://testserver/{BELOW}{endpoint}"
            assert get(str(url)).json()["resource"] == f"http://testserver{endpoint}"


def test_an_endpoint_with_arguments_in_its_path_has_its_own() -> None:
    """The root cannot know the path; the document below the endpoint does."""
    routes = urlconf(path("<slug:tenant>/mcp/", server().urls))
    with override_settings(ROOT_URLCONF=routes):
        url = advertised(Client().post("/acme/mcp/", "{}", content_type="application/json"))
        assert url == f"http://testserver/acme/mcp/{BELOW}"
        assert get(f"/acme/mcp/{BELOW}").json()["resource"] == "http://testserver/acme/mcp/"


@pytest.mark.parametrize("at_root", [False, True])
def test_a_prefix_of_the_site_is_part_of_every_url(at_root: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is below the prefix reaches the project."""
    one = server()
    routes = urlconf(path("mcp/", one.urls), *([path(".well-known/", one.well_known)] if at_root else []))
    monkeypatch.setattr("django.urls.base._prefixes", SimpleNamespace(value="/site/"))  # as a handler sets it
    with override_settings(ROOT_URLCONF=routes, FORCE_SCRIPT_NAME="/site"):
        url = advertised(Client().post("/mcp/", "{}", content_type="application/json"))
        expected = f"/site/{BELOW}/site/mcp/" if at_root else f"/site/mcp/{BELOW}"
        assert url == f"http://testserver{expected}"
        assert get(expected.removeprefix("/site")).json()["resource"] == "http://testserver/site/mcp/"
        if at_root:  # a proxy may pass on the well-known path alone, without the prefix
            assert get(f"/{BELOW}/mcp/").json()["resource"] == "http://testserver/site/mcp/"


def test_https_behind_a_proxy_is_https() -> None:
    behind = {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https"), "USE_X_FORWARDED_HOST": True}
    sent = {"x-forwarded-proto": "https", "x-forwarded-host": "shop.example", "host": "10.0.0.1:8000"}
    with override_settings(**behind, ALLOWED_HOSTS=["shop.example"]), configured(SERVERS):
        assert get(f"/mcp/{BELOW}", headers=sent).json()["resource"] == "https://shop.example/mcp/"
        url = advertised(ask(**{name.replace("-", "_"): value for name, value in sent.items()}))
        assert url == f"https://shop.example/mcp/{BELOW}"


def test_a_host_that_django_refuses_is_in_no_document() -> None:
    with configured(SERVERS):
        assert get(f"/mcp/{BELOW}", headers={"host": "evil.example"}).status_code == 400


def test_the_public_url_may_be_written_down() -> None:
    """Where the proxy tells Django neither host nor prefix."""
    with configured({**SERVERS, "URL": "https://shop.example/api/mcp/"}):
        assert advertised(ask()) == f"https://shop.example/api/mcp/{BELOW}"
        assert get(f"/mcp/{BELOW}").json()["resource"] == "https://shop.example/api/mcp/"
    one = server(URL="https://shop.example/api/mcp/")
    with override_settings(ROOT_URLCONF=urlconf(path("mcp/", one.urls), path(".well-known/", one.well_known))):
        url = advertised(Client().post("/mcp/", "{}", content_type="application/json"))
        assert url == f"https://shop.example/api/{BELOW}/mcp/"
        assert get(f"/{BELOW}/mcp/").json()["resource"] == "https://shop.example/api/mcp/"
