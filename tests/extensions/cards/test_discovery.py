"""ferrule.extensions.cards.discovery: what a site publishes, and what a hostile site cannot do."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

import ferrule
from ferrule.auth.errors import UnsafeUrl
from ferrule.auth.urls import UrlPolicy
from ferrule.extensions.cards.cache import DocumentCache
from ferrule.extensions.cards.discovery import MAX_SERVERS, CardDiscoveryFailed, DiscoveredServer, discover, read_card
from ferrule.protocol.errors import ConnectionClosed
from ferrule.testing import ManualClock
from tests.extensions.cards.support import CARD, CARD_TYPE, Web, catalog, entry

pytestmark = pytest.mark.anyio

CATALOG = "https://example.com/.well-known/ai-catalog.json"
CARD_URL = "https://weather.example.com/mcp/server-card"


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Addresses of hosts; each other host has a public one."""
    table: dict[str, str] = {}

    async def found(url: str) -> list[str]:
        return [table.get(url.split("/")[2], "93.184.215.14")]

    monkeypatch.setattr("ferrule.transports.http.fetching._addresses", found)
    return table


async def one(pages: dict[str, Any], site: str = "example.com", **options: Any) -> DiscoveredServer:
    """The only server that a site publishes."""
    [server] = await discover(site, http=Web(pages), **options)
    return server


@pytest.mark.parametrize("site", ["example.com", "https://example.com", "https://example.com/any/page?x=1"])
async def test_a_domain_leads_to_its_servers(site: str) -> None:
    """The catalog is at one place of the site, whatever page of it is named."""
    web = Web({CATALOG: catalog(entry(CARD_URL)), CARD_URL: CARD})
    [server] = await ferrule.discover(site, http=web)
    assert web.urls == [CATALOG, CARD_URL]
    assert server.identifier == "urn:air:example.com:mcp:weather"
    assert server.problem is None
    assert server.card is not None
    assert (server.card.name, server.card.version) == ("com.example/weather", "1.2.0")
    assert server.address() == "https://weather.example.com/mcp"


async def test_requests_say_which_type_they_want() -> None:
    """The extension asks for the media type of the card in ``Accept``."""
    web = Web({CATALOG: catalog(entry(CARD_URL)), CARD_URL: CARD})
    await discover("example.com", http=web)
    assert [request.headers["accept"].partition(",")[0] for request in web.requests] == [
        "application/ai-catalog+json",
        CARD_TYPE,
    ]


async def test_a_card_may_be_inside_of_the_catalog() -> None:
    server = await one({CATALOG: catalog(entry(data=CARD))})
    assert (server.card_url, server.address()) == (None, "https://weather.example.com/mcp")


async def test_an_older_catalog_names_the_type_otherwise() -> None:
    """``mediaType`` was the member's name before; a relative URL is one of the catalog's site."""
    old = {"identifier": "x", "displayName": "X", "mediaType": CARD_TYPE, "url": "/cards/x"}
    server = await one({CATALOG: catalog(old), "https://example.com/cards/x": CARD})
    assert server.card_url == "https://example.com/cards/x"


async def test_other_artifacts_are_left_out() -> None:
    found = await discover(
        "example.com", http=Web({CATALOG: catalog(entry("https://example.com/x", type="application/zip"), {"a": 1})})
    )
    assert found == []


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (entry("https://example.com/gone"), "There is no card at https://example.com/gone"),
        (entry(), "neither a URL nor a card"),
        (entry(CARD_URL, data=CARD), "or both"),
        (entry(data="text"), "something else"),
        (entry(data={"name": "x"}), "The card at the catalog is malformed"),
        (entry("https://example.com/list"), "There is no card at"),
    ],
)
async def test_a_bad_entry_hides_no_other(made: dict[str, Any], problem: str) -> None:
    """It has a sentence instead of a card."""
    pages = {CATALOG: catalog(made, entry(CARD_URL)), CARD_URL: CARD, "https://example.com/list": b"[1]"}
    bad, good = await discover("example.com", http=Web(pages))
    assert problem in (bad.problem or "")
    assert bad.card is None
    assert good.card is not None
    with pytest.raises(CardDiscoveryFailed, match="card"):
        bad.address()


@pytest.mark.parametrize(
    "page", [b"no json", b"[]", b"{}", {"specVersion": "1.0"}, {"specVersion": "2.0", "entries": []}, (404, {}, b"")]
)
async def test_a_site_without_a_catalog(page: Any) -> None:
    with pytest.raises(CardDiscoveryFailed, match="catalog"):
        await discover("example.com", http=Web({CATALOG: page}))


# -- a hostile site ---------------------------------------------------------------------------------------------------

INNER = ["http://127.0.0.1:9/card", "https://10.0.0.7/card", "https://169.254.169.254/card", "https://printer.local/c"]


@pytest.mark.parametrize("url", [*INNER, "http://example.com/card", "file:///etc/passwd", "https://u:p@example.com/c"])
async def test_a_card_in_a_private_network_is_not_fetched(url: str) -> None:
    """A public site must not make its clients send requests to where only they can."""
    web = Web({CATALOG: catalog(entry(url)), url: CARD})
    [server] = await discover("example.com", http=web)
    assert web.urls == [CATALOG]
    assert server.card is None
    assert server.problem


@pytest.mark.parametrize("url", ["https://[bad/x", "//[x", "https://example.com:x/", "https://exam ple.com/"])
async def test_a_malformed_url_is_a_problem_of_its_entry(url: str) -> None:
    """In the catalog, in a redirect, and in a card."""
    away = (302, {"location": url}, b"")
    remotes = [{"type": "streamable-http", "url": url}]
    pages = {
        CATALOG: catalog(entry(url), entry("/moved"), entry(data={**CARD, "remotes": remotes}), entry(CARD_URL)),
        "https://example.com/moved": away,
        CARD_URL: CARD,
    }
    first, moved, inline, good = await discover("example.com", http=Web(pages))
    assert (first.card, moved.card) == (None, None)
    assert first.problem
    assert moved.problem
    with pytest.raises(UnsafeUrl):
        inline.address()
    assert good.card is not None


@pytest.mark.parametrize("site", ["[::1", "https://[x", "example.com:x", "", "exam ple.com", "https://u:p@example.com"])
async def test_a_site_that_is_none(site: str) -> None:
    """The caller's own mistake has a sentence, too."""
    with pytest.raises((UnsafeUrl, CardDiscoveryFailed)):
        await discover(site, http=Web({}))


async def test_a_redirect_is_checked_like_the_first_url() -> None:
    moved = (302, {"location": "http://127.0.0.1:9/card"}, b"")
    web = Web({CATALOG: catalog(entry(CARD_URL)), CARD_URL: moved})
    [server] = await discover("example.com", http=web)
    assert web.urls == [CATALOG, CARD_URL]
    assert server.card is None


async def test_redirects_end() -> None:
    web = Web({CATALOG: (302, {"location": CATALOG}, b"")})
    with pytest.raises(UnsafeUrl, match="redirects"):
        await discover("example.com", http=web)
    assert len(web.urls) == 4


async def test_a_name_that_resolves_to_a_private_address_is_not_fetched(addresses: dict[str, str]) -> None:
    """The text of the URL looks public; its address is not."""
    addresses["weather.example.com"] = "10.0.0.7"
    web = Web({CATALOG: catalog(entry(CARD_URL)), CARD_URL: CARD})
    [server] = await discover("example.com", http=web)
    assert web.urls == [CATALOG]
    assert "private" in (server.problem or "")


@pytest.mark.parametrize("url", INNER)
async def test_the_address_of_a_server_is_checked_too(url: str) -> None:
    """A client would send its messages there."""
    server = await one({CATALOG: catalog(entry(data={**CARD, "remotes": [{"type": "streamable-http", "url": url}]}))})
    with pytest.raises(UnsafeUrl):
        server.address()


async def test_a_site_on_this_machine_may_name_this_machine() -> None:
    """Development; plain http is for loopback only."""
    local = "http://localhost:8000"
    remotes = [{"type": "streamable-http", "url": f"{local}/mcp"}]
    pages = {
        f"{local}/.well-known/ai-catalog.json": catalog(entry(f"{local}/c")),
        f"{local}/c": CARD | {"remotes": remotes},
    }
    server = await one(pages, "localhost:8000")
    assert server.address() == f"{local}/mcp"
    with pytest.raises(UnsafeUrl):
        await discover("http://example.com", http=Web({}))


async def test_a_catalog_is_bounded_in_bytes_and_entries() -> None:
    many = catalog(*(entry(data=CARD, name=f"n{number}") for number in range(MAX_SERVERS + 20)))
    assert len(await discover("example.com", http=Web({CATALOG: many}))) == MAX_SERVERS
    with pytest.raises(ConnectionClosed, match="more than 1000 bytes"):
        await discover("example.com", http=Web({CATALOG: many}), policy=UrlPolicy(max_bytes=1000))


async def test_a_large_card_is_a_problem_of_its_own() -> None:
    pages = {CATALOG: catalog(entry(CARD_URL)), CARD_URL: json.dumps(CARD).encode() + b" " * 300_000}
    assert "more than 262144 bytes" in ((await one(pages)).problem or "")


async def test_all_cards_together_have_one_time() -> None:
    """A site whose cards never come ends the wait; those that came are there."""

    class Slow(Web):
        async def open(self, request: Any) -> Any:
            if request.url == "https://example.com/never":
                await anyio.sleep(1000)
            return await super().open(request)

    web = Slow({CATALOG: catalog(entry(CARD_URL), entry("https://example.com/never")), CARD_URL: CARD})
    found = await discover("example.com", http=web, timeout_s=0.5)
    assert [server.problem for server in found] == [None, "Its card did not come in time"]


async def test_a_catalog_is_within_the_same_time() -> None:
    """Each redirect to it has the time of a request, and all of them together no more than the discovery."""

    class Slow(Web):
        async def open(self, request: Any) -> Any:
            await anyio.sleep(1000)

    with pytest.raises(ConnectionClosed, match=r"catalog\.json did not answer within 0\.1 s"):
        await discover("example.com", http=Slow({}), timeout_s=0.1, policy=UrlPolicy(timeout_s=5))


# -- addresses with variables -----------------------------------------------------------------------------------------


def templated(**variable: Any) -> dict[str, Any]:
    """A card with a variable in its address."""
    remote = {"type": "streamable-http", "url": "https://{tenant}.example.com/mcp", "variables": {"tenant": variable}}
    return {**CARD, "remotes": [{"type": "sse", "url": "https://old.example.com/sse"}, remote]}


async def test_variables_are_filled_in() -> None:
    """From the caller, else from the default; Streamable HTTP is preferred."""
    server = await one({CATALOG: catalog(entry(data=templated(default="main", choices=["main", "acme"])))})
    assert server.address() == "https://main.example.com/mcp"
    assert server.address(tenant="acme") == "https://acme.example.com/mcp"
    with pytest.raises(CardDiscoveryFailed, match="tenant is one of main, acme"):
        server.address(tenant="other")


async def test_a_variable_without_value_is_named() -> None:
    server = await one({CATALOG: catalog(entry(data=templated(description="Your company")))})
    with pytest.raises(CardDiscoveryFailed, match=r"needs a value for tenant \(Your company\)"):
        server.address()


async def test_a_variable_cannot_lead_to_a_private_host() -> None:
    server = await one({CATALOG: catalog(entry(data=templated(default="127.0.0.1/x?")))})
    with pytest.raises(UnsafeUrl):
        server.address()


async def test_a_card_without_address_says_so() -> None:
    server = await one({CATALOG: catalog(entry(data={**CARD, "remotes": []}))})
    with pytest.raises(CardDiscoveryFailed, match="has no address"):
        server.address()


# -- one server -------------------------------------------------------------------------------------------------------


async def test_the_card_of_one_server() -> None:
    """Below its URL; a query is no part of the place."""
    web = Web({CARD_URL: CARD})
    found = await read_card("https://weather.example.com/mcp/?key=1", http=web)
    assert found is not None
    assert found.card is not None
    assert found.identifier == "com.example/weather"
    assert web.urls == [CARD_URL]
    assert await read_card("https://other.example.com/mcp", http=web) is None
    with pytest.raises(CardDiscoveryFailed, match="malformed"):
        await read_card("https://weather.example.com/mcp", http=Web({CARD_URL: {"name": 1}}))


# -- again ------------------------------------------------------------------------------------------------------------


async def test_what_is_fresh_is_not_asked_for_and_the_rest_by_its_tag() -> None:
    """``Cache-Control`` and ``ETag`` of the extension; a site that many programs discover has less to do."""
    clock = ManualClock()
    cache = DocumentCache(clock)
    card = json.dumps(CARD).encode()
    web = Web(
        {
            CATALOG: (200, {"cache-control": "public, max-age=60"}, json.dumps(catalog(entry(CARD_URL))).encode()),
            CARD_URL: (200, {"etag": '"one"'}, card),
        }
    )

    async def again() -> list[tuple[str, str | None]]:
        web.requests.clear()
        [server] = await discover("example.com", http=web, cache=cache)
        assert server.address() == "https://weather.example.com/mcp"
        return [(request.url, request.headers.get("if-none-match")) for request in web.requests]

    assert await again() == [(CATALOG, None), (CARD_URL, None)]
    web.pages[CARD_URL] = (304, {"cache-control": "max-age=60"}, b"")
    assert await again() == [(CARD_URL, '"one"')]
    assert await again() == []
    clock.advance(61)
    assert await again() == [(CATALOG, None), (CARD_URL, '"one"')]
    found = await read_card("https://weather.example.com/mcp", http=web, cache=cache)
    assert found is not None
