"""ferrule.extensions.cards.publishing: the card, the catalog, and that they say what the server says."""

from __future__ import annotations

import json
import logging
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Client, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.extensions.cards.comparison import differences
from ferrule.extensions.cards.publishing import CardDocuments
from ferrule.integrations.starlette import mcp_routes
from ferrule.transports.asgi.public_documents import PublicDocuments
from ferrule.transports.sse.server import SseEndpoint
from ferrule.types import Icon
from ferrule.wire.codec import decode, decoder, to_builtins
from ferrule.wire.types.cards import CardHeader, CardInput, CatalogEntry, ServerCard
from tests.transports.asgi.support import Answer, Call

pytestmark = pytest.mark.anyio

URL = "https://weather.example.com/mcp"
CARD, CATALOG = "/mcp/server-card", "/.well-known/ai-catalog.json"
OLD = {
    "/.well-known/mcp/server-card.json": "/mcp/server-card",
    "/.well-known/mcp/server-card": "/mcp/server-card",
    "/.well-known/mcp.json": "/mcp/server-card",
    "/.well-known/mcp/catalog.json": "../ai-catalog.json",
}
LOCAL = {"host": "127.0.0.1:8000"}

# The rules of the extension's schema (schema.ts), carried over.
_TEXT = {"type": "string", "minLength": 1, "maxLength": 100}
_INPUT = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("description", "default", "placeholder", "value", "name")},
        **{name: {"type": "boolean"} for name in ("isRequired", "isSecret")},
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "choices": {"type": "array", "items": {"type": "string"}},
        "variables": {"type": "object", "additionalProperties": {"type": "object"}},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["$schema", "name", "version", "description"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"},
        "name": {
            "type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
        },
        "version": {"type": "string", "maxLength": 255},
        "description": _TEXT,
        "title": _TEXT,
        "websiteUrl": {"type": "string", "format": "uri"},
        "repository": {
            "type": "object", "required": ["url", "source"],
            "properties": {name: {"type": "string"} for name in ("url", "source", "subfolder", "id")},
        },
        "icons": {
            "type": "array",
            "items": {
                "type": "object", "required": ["src"],
                "properties": {
                    "src": {"type": "string"}, "mimeType": {"type": "string"},
                    "sizes": {"type": "array", "items": {"type": "string"}}, "theme": {"enum": ["light", "dark"]},
                },
            },
        },
        "remotes": {
            "type": "array",
            "items": {
                "type": "object", "required": ["type", "url"],
                "properties": {
                    "type": {"enum": ["streamable-http", "sse"]},
                    "url": {"type": "string", "pattern": r"^(https?://[^\s]+|\{[a-zA-Z_][a-zA-Z0-9_]*\}[^\s]*)$"},
                    "headers": {"type": "array", "items": {**_INPUT, "required": ["name"]}},
                    "variables": {"type": "object", "additionalProperties": _INPUT},
                    "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "_meta": {"type": "object"},
    },
}  # fmt: skip


async def get(app: Any, path: str, method: str = "GET", root_path: str = "", **headers: str) -> Answer:
    """One answer; ``if_none_match`` is the header of that name."""
    named = {name.replace("_", "-"): value for name, value in ({**LOCAL, **headers}).items()}
    return await Call(app, method, path, headers=named, root_path=root_path).run()


def weather(**options: Any) -> MCPServer[Any]:
    return MCPServer("weather", version="1.2.0", description="Weather of cities", **options)


def rich() -> MCPServer[Any]:
    """A server that says all there is to say."""
    app = weather(
        title="Weather " * 20,
        website_url="https://weather.example.com",
        icons=[Icon("https://weather.example.com/icon.png", "image/png", ["48x48"], "light")],
    )
    app.card(
        name="com.example/weather",
        url=URL,
        repository="https://github.com/example/weather",
        headers=[CardHeader(name="X-Key", is_secret=True, value="{key}", variables={"key": CardInput(is_secret=True)})],
        meta={"com.example/plan": "free"},
    )
    return app


@pytest.mark.parametrize("path", [CARD, CATALOG, *OLD])
async def test_a_server_without_card_serves_none(path: str) -> None:
    assert (await get(weather().asgi(), path)).status == 404


async def test_the_card_of_a_plain_server() -> None:
    """Nothing but ``app.card()``: identity and address."""
    app = weather()
    app.card()
    answer = await get(app.asgi(), CARD)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/mcp-server-card+json"
    assert answer.json == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "localhost/weather",
        "version": "1.2.0",
        "description": "Weather of cities",
        "remotes": [
            {
                "type": "streamable-http",
                "url": "http://127.0.0.1:8000/mcp",
                "supportedProtocolVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
            }
        ],
    }


async def test_the_catalog_names_the_card() -> None:
    """By a URN of the publisher's domain, with the entries of further servers behind it."""
    other = CatalogEntry(
        identifier="urn:air:example.com:mcp:maps", type="application/mcp-server-card+json", url="https://m"
    )
    app = weather()
    app.card(name="com.example/weather", url=URL, entries=[other])
    answer = await get(app.asgi(), CATALOG)
    assert answer.headers["content-type"] == "application/ai-catalog+json"
    first, second = answer.json["entries"]
    assert answer.json["specVersion"] == "1.0"
    assert first == {
        "identifier": "urn:air:example.com:mcp:weather",
        "type": "application/mcp-server-card+json",
        "url": f"{URL}/server-card",
    }
    assert second["url"] == "https://m"


@pytest.mark.parametrize("make", [weather, rich])
async def test_a_card_fits_the_schema_of_the_extension(make: Any) -> None:
    app = make()
    if make is weather:
        app.card()
    jsonschema_rs.validator_for(SCHEMA).validate((await get(app.asgi(), CARD)).json)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_card_says_what_the_server_says(legacy: bool, mode: str) -> None:
    """In both eras; the versions are those that this endpoint serves."""
    app = rich()
    card = decoder(ServerCard)((await get(app.asgi(legacy=legacy), CARD)).body)
    async with Client(app, mode=mode) as client:
        assert client.server_info is not None
        assert differences(card, client.server_info, url=URL) == []
    [remote] = card.remotes or []
    assert (remote.supported_protocol_versions or [])[: 1 if legacy else None] == ["2026-07-28"]


async def test_a_card_lists_nothing_that_the_server_has() -> None:
    """Names of tools may be for signed-in users only; the extension leaves all lists to the protocol."""
    app = rich()

    @app.tool
    def secret_tool() -> str:
        return ""

    endpoint = app.asgi()
    for path in (CARD, CATALOG):
        body = (await get(endpoint, path)).body
        assert b"secret" not in body.replace(b"isSecret", b"")


async def test_old_places_lead_to_the_new_ones() -> None:
    """Scanners and clients of earlier drafts still ask there."""
    app = weather()
    app.card()
    for old, new in OLD.items():
        answer = await get(app.asgi(), old)
        assert (answer.status, answer.body) == (308, b"")
        assert answer.headers["location"] == (f"http://127.0.0.1:8000{new}" if new.startswith("/") else new)
        assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("path", [CARD, CATALOG])
async def test_any_page_may_read_it(path: str) -> None:
    """CORS is a MUST of the extension; the Origin rules of the endpoint are not for public documents."""
    endpoint = rich().asgi(loopback=True)
    answer = await get(endpoint, path, origin="https://elsewhere.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-expose-headers"] == "ETag"
    preflight = await get(endpoint, path, "OPTIONS", origin="https://elsewhere.example")
    assert (preflight.status, preflight.headers["access-control-allow-methods"]) == (204, "GET")
    assert "If-None-Match" in preflight.headers["access-control-allow-headers"]


@pytest.mark.parametrize("path", [CARD, CATALOG])
async def test_an_unchanged_document_is_not_sent_again(path: str) -> None:
    endpoint = rich().asgi()
    first = await get(endpoint, path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, max-age=3600"
    for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await get(endpoint, path, if_none_match=condition)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag), condition
        assert "content-length" not in again.headers
    assert (await get(endpoint, path, if_none_match='"other"')).status == 200


async def test_the_tag_changes_with_the_card() -> None:
    one, two = rich(), rich()
    two.card(name="com.example/weather", url=URL)
    assert (await get(one.asgi(), CARD)).headers["etag"] != (await get(two.asgi(), CARD)).headers["etag"]


@pytest.mark.parametrize("path", [CARD, CATALOG])
async def test_head_has_the_headers_without_the_body(path: str) -> None:
    endpoint = rich().asgi()
    head, full = await get(endpoint, path, "HEAD"), await get(endpoint, path)
    assert (head.status, head.body, head.headers) == (200, b"", full.headers)
    assert int(head.headers["content-length"]) == len(full.body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_it_is_read_only(method: str) -> None:
    answer = await get(rich().asgi(), CARD, method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


# -- whose host it is -------------------------------------------------------------------------------------------------


async def test_a_foreign_host_is_refused() -> None:
    """As by the endpoint: a page must not read a server on this machine by a rebound name."""
    app = weather()
    app.card()
    for path in (CARD, CATALOG, *OLD):
        assert (await get(app.asgi(loopback=True), path, host="evil.example")).status == 403
        assert (await get(app.asgi(allowed_hosts=["mcp.example.com"]), path, host="evil.example")).status == 403


async def test_the_address_is_one_that_is_certainly_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """A listed host or loopback; what a client could write by itself is not repeated to it."""
    app = weather()
    app.card()
    listed = await get(app.asgi(allowed_hosts=["mcp.example.com"]), CARD, host="mcp.example.com")
    assert listed.json["remotes"][0]["url"] == "http://mcp.example.com/mcp"
    assert listed.json["name"] == "com.example.mcp/weather"
    for endpoint in (app.asgi(), app.asgi(allowed_hosts=["*"])):
        with caplog.at_level(logging.WARNING, "ferrule.http"):
            unknown = await get(endpoint, CARD, host="mcp.example.com")
        assert unknown.status == 503
        assert unknown.headers["cache-control"] == "no-store"
        assert b"example" not in unknown.body
    assert sum("app.card(url=" in record.getMessage() for record in caplog.records) == 1


async def test_a_proxy_that_is_not_trusted_hides_the_address() -> None:
    """It may have put the host of the inner network in place of the public one, which must not be published."""
    app = weather()
    app.card()
    for name in ("x_forwarded_for", "via", "forwarded", "x_forwarded_host"):
        assert (await get(app.asgi(), CARD, **{name: "1.2.3.4"})).status == 503, name
    trusting = app.asgi(trusted_proxies=["127.0.0.1"], allowed_hosts=["w.example.com", "127.0.0.1"])
    answer = await get(trusting, CARD, x_forwarded_host="w.example.com", x_forwarded_proto="https")
    assert answer.json["remotes"][0]["url"] == "https://w.example.com/mcp"


async def test_authorization_gives_the_address_and_guards_no_card() -> None:
    """Clients read a card before they can sign in."""
    auth = ResourceServer(StaticTokens({"secret-token": {"sub": "me"}}), resource=URL)
    app = weather(auth=auth)
    app.card()
    answer = await get(app.asgi(), CARD, host="anything.example")
    assert answer.json["remotes"][0]["url"] == URL
    assert b"secret-token" not in answer.body


@pytest.mark.parametrize("host", [[("host", "a.example"), ("host", "b.example")]])
async def test_two_hosts_are_none(host: list[tuple[str, str]]) -> None:
    app = weather()
    app.card()
    assert (await Call(app.asgi(), "GET", CARD, headers=host).run()).status == 400


# -- below a prefix, in a host application ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/tools/mcp/", "/"])
@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_card_and_catalog_below_any_path(path: str, prefix: str) -> None:
    """The card is below the endpoint, wherever that is; the catalog names the card by its whole URL."""
    app = weather()
    app.card()
    endpoint = app.asgi(path=path)
    inner = path.rstrip("/")
    catalog = await get(endpoint, f"{prefix}{CATALOG}", root_path=prefix)
    assert catalog.json["entries"][0]["url"] == f"http://127.0.0.1:8000{prefix}{inner}/server-card"
    card = await get(endpoint, f"{prefix}{inner}/server-card", root_path=prefix)
    assert card.json["remotes"][0]["url"] == f"http://127.0.0.1:8000{prefix}{inner}" or prefix + inner == ""


def test_a_host_application_routes_it() -> None:
    """Exact paths, for Starlette and every other router."""
    pytest.importorskip("starlette")
    app = rich()
    paths = {route.path for route in mcp_routes(app.asgi())}
    assert {CARD, CATALOG, *OLD} <= paths
    app.card(catalog=False)
    assert not {CATALOG, "/.well-known/mcp/catalog.json"} & {route.path for route in mcp_routes(app.asgi())}


def test_the_old_sse_transport_has_none() -> None:
    """Its address is another one than the card's."""
    assert CARD not in SseEndpoint(rich().lowlevel).paths


def test_a_wsgi_host_serves_the_same() -> None:
    """Mounted by the host, and beside an application of the host's own."""
    app = rich()
    found: dict[str, Any] = {}

    def ask(serve: Any, script: str, path: str, method: str = "GET") -> bytes:
        environ = {
            "REQUEST_METHOD": method, "SCRIPT_NAME": script, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1:8000",
            "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8000", "wsgi.input": None, "wsgi.url_scheme": "http",
        }  # fmt: skip
        return b"".join(serve(environ, lambda status, headers: found.update(status=status, headers=dict(headers))))

    body = ask(app.wsgi(), "/mcp", "/server-card")
    assert (found["status"], found["headers"]["Content-Type"]) == ("200 OK", "application/mcp-server-card+json")
    assert found["headers"]["Etag"]
    beside = app.wsgi(path="/mcp").beside(lambda *_: [b"host"])
    assert json.loads(ask(beside, "", CARD)) == decode(body)
    assert json.loads(ask(beside, "", CATALOG))["entries"][0]["url"] == f"{URL}/server-card"
    assert ask(beside, "", CARD, "HEAD") == b""
    assert found["headers"]["Content-Length"] == str(len(body))
    assert ask(beside, "", "/other") == b"host"


# -- what an author may say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "given", "name"),
    [
        ("weather", None, "com.example.weather/weather"),
        ("Weather & Sea", None, "com.example.weather/weather-sea"),
        ("io.github.me/weather", None, "io.github.me/weather"),
        ("Weather", "io.github.me/weather", "io.github.me/weather"),
        ("天気", None, "com.example.weather/server"),
    ],
)
async def test_the_name_of_a_card(server: str, given: str | None, name: str) -> None:
    app = MCPServer(server)
    app.card(name=given, url=URL)
    card = (await get(app.asgi(), CARD)).json
    assert card["name"] == name
    assert card["description"] == server


@pytest.mark.parametrize("url", ["http://127.0.0.1/mcp", "http://[::1]:8000/mcp", "https://203.0.113.7/mcp"])
async def test_an_address_is_no_namespace(url: str) -> None:
    app = weather()
    app.card(url=url)
    assert (await get(app.asgi(), CARD)).json["name"] == "localhost/weather"


@pytest.mark.parametrize("name", ["weather", "com.example/a/weather", "com.example/other", "com example/weather"])
def test_a_name_that_contradicts_the_server_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        weather().card(name=name)


@pytest.mark.parametrize("url", ["weather.example.com/mcp", "https://u:p@w.example/mcp", "https://w.example/mcp?key=1"])
def test_a_url_with_secrets_or_without_scheme_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url is"):
        weather().card(url=url)


async def test_long_texts_are_shortened_between_words() -> None:
    app = MCPServer("weather", description="word " * 50)
    app.card(url=URL)
    description = (await get(app.asgi(), CARD)).json["description"]
    assert description.endswith("word…")
    assert len(description) <= 100


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=130)


@given(TEXTS, st.none() | TEXTS, st.none() | TEXTS)
def test_any_texts_of_a_server_make_a_card_that_fits_the_schema(
    name: str, title: str | None, description: str | None
) -> None:
    """Long, blank, in any language: what does not fit is shortened or left out."""
    app: MCPServer[Any] = MCPServer(name, title=title, description=description, version="1")
    app.card(url=URL)
    found = app.lowlevel.attachments[PublicDocuments]
    assert isinstance(found, CardDocuments)
    jsonschema_rs.validator_for(SCHEMA).validate(to_builtins(found.card(URL)))
