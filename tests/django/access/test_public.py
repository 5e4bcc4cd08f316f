"""ferrule.django.access.public: the server card and the catalog as URLs of a project."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from django.test import AsyncClient, Client, override_settings
from django.urls import path

from ferrule.django import DjangoServer
from tests.django.access.test_metadata import urlconf

CATALOG = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"


def routes(server: DjangoServer, route: str = "mcp/") -> Any:
    """A URLconf with an endpoint and the well-known paths of its server."""
    return urlconf(path(route, server.urls), path(".well-known/", server.well_known))


def shop(**settings: Any) -> DjangoServer:
    server = DjangoServer("shop", settings=settings, version="2")
    server.card()
    return server


@pytest.mark.parametrize("route", ["mcp/", "mcp", "api/tools/"])
def test_a_project_serves_card_and_catalog(route: str) -> None:
    """The address is that of the endpoint, with its final slash if it has one."""
    with override_settings(ROOT_URLCONF=routes(shop(), route)):
        card_url = json.loads(Client().get(CATALOG).content)["entries"][0]["url"]
        assert card_url == f"http://testserver/{route.rstrip('/')}/server-card"
        card = Client(enforce_csrf_checks=True).get(card_url.removeprefix("http://testserver"))
        assert card.headers["content-type"] == CARD_TYPE
        assert json.loads(card.content)["remotes"][0]["url"] == f"http://testserver/{route}"
        again = Client().get(card.request["PATH_INFO"], headers={"if-none-match": card.headers["etag"]})
        assert again.status_code == 304
        moved = Client().get("/.well-known/mcp/server-card.json")
        assert (moved.status_code, moved.headers["location"]) == (308, card_url)
        assert Client().head(CATALOG).content == b""


@pytest.mark.parametrize("where", ["/mcp/server-card", CATALOG])
def test_head_says_what_get_would(where: str) -> None:
    """Under both hosts: all headers, among them the length, and no body (RFC 9110, 9.3.2)."""

    async def under_asgi(method: str) -> Any:
        return await AsyncClient().generic(method, where)

    with override_settings(ROOT_URLCONF=routes(shop())):
        for send in (Client().generic, lambda *given: anyio.run(under_asgi, given[0])):
            got, told = send("GET", where), send("HEAD", where)
            assert told.content == b""
            assert int(told.headers["content-length"]) == len(got.content) > 0
            assert {name.lower(): value for name, value in told.items()} == {
                name.lower(): value for name, value in got.items()
            }


def test_under_asgi_it_is_the_same() -> None:
    """The view is another one there."""

    async def read() -> None:
        for where, kind in (("/mcp/server-card", CARD_TYPE), (CATALOG, "application/ai-catalog+json")):
            found = await AsyncClient().get(where)
            assert found.headers["content-type"] == kind
            assert b"http://testserver/mcp" in found.content

    with override_settings(ROOT_URLCONF=routes(shop())):
        anyio.run(read)


def test_without_a_card_there_is_nothing() -> None:
    with override_settings(ROOT_URLCONF=routes(DjangoServer("shop"))):
        assert Client().get(CATALOG).status_code == 404
        assert Client().get("/mcp/server-card").status_code == 404


def test_without_the_endpoint_in_the_urlconf_there_is_no_catalog() -> None:
    with override_settings(ROOT_URLCONF=urlconf(path(".well-known/", shop().well_known))):
        assert Client().get(CATALOG).status_code == 404


def test_a_host_that_django_refuses_is_refused() -> None:
    with override_settings(ROOT_URLCONF=routes(shop())):
        assert Client().get(CATALOG, headers={"host": "evil.example"}).status_code == 400


def test_a_proxy_counts_as_far_as_the_settings_of_the_project_trust_it() -> None:
    """Django reads the forwarded headers; the endpoint believes Django."""
    trusting = {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https"), "USE_X_FORWARDED_HOST": True}
    sent = {"x-forwarded-proto": "https", "x-forwarded-host": "shop.example", "host": "10.0.0.1:8000"}
    with override_settings(**trusting, ALLOWED_HOSTS=["shop.example"]):
        with override_settings(ROOT_URLCONF=routes(shop())):
            card = json.loads(Client().get("/mcp/server-card", headers=sent).content)
    assert card["remotes"][0]["url"] == "https://shop.example/mcp/"
    assert card["name"] == "example.shop/shop"


def test_the_public_url_of_the_setting_is_the_address() -> None:
    server = shop(URL="https://shop.example/api/mcp/")
    with override_settings(ROOT_URLCONF=routes(server)):
        card = json.loads(Client().get("/mcp/server-card").content)
        assert card["remotes"][0]["url"] == "https://shop.example/api/mcp/"
        entry = json.loads(Client().get(CATALOG).content)["entries"][0]
        assert entry["url"] == "https://shop.example/api/mcp/server-card"
