"""Cookies of the default HTTP client: back to the origin that set them, and nowhere else; within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from yarl import URL

from ferrule import Client
from ferrule.transports.http.aiohttp_backend import AiohttpClient
from ferrule.transports.http.backend import HttpClientOptions, HttpClientRequest
from ferrule.transports.http.cookies import MAX_COOKIE_CHARS, MAX_COOKIES, OriginCookies
from tests.peers.scripted_http import Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

TEXT = {"content": [{"type": "text", "text": "done"}]}
HERE = URL("https://mcp.example.com/a/mcp")


def after(*set_cookies: str, at: URL = HERE) -> OriginCookies:
    """A jar that has seen an answer with these headers, one after the other."""
    jar = OriginCookies()
    for header in set_cookies:
        jar.update_cookies_from_headers([header], at)
    return jar


def sent(jar: OriginCookies, url: str) -> dict[str, str]:
    return {name: morsel.coded_value for name, morsel in jar.filter_cookies(URL(url)).items()}


@pytest.mark.parametrize(
    ("header", "url", "expected"),
    [
        ("lb=a", "https://mcp.example.com/a/other", True),
        ("lb=a", "https://mcp.example.com/b", False),
        ("lb=a; Path=/", "https://mcp.example.com/b", True),
        ("lb=a; Path=/a", "https://mcp.example.com/ab", False),
        ("lb=a; Path=/", "https://mcp.example.com:8443/", False),
        ("lb=a; Path=/", "http://mcp.example.com/", False),
        ("lb=a; Path=/", "https://other.example.com/", False),
        ("lb=a; Path=/; Domain=example.com", "https://other.example.com/", False),
        ("lb=a; Path=/; Domain=.example.com", "https://mcp.example.com/", True),
        ("lb=a; Path=/; Domain=evil.example", "https://mcp.example.com/", False),
        ("lb=a; Path=/; Domain=evil.example", "https://evil.example/", False),
        ("lb=a; Path=/; Max-Age=0", "https://mcp.example.com/", False),
        ("lb=a; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "https://mcp.example.com/", False),
        ("lb=a; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "https://mcp.example.com/", False),
        ("lb=a; Path=/; Expires=Fri, 01 Jan 2100 00:00:00 GMT", "https://mcp.example.com/", True),
        ("lb=a; Path=/; Secure; HttpOnly; SameSite=Lax", "https://mcp.example.com/", True),
    ],
)
async def test_a_cookie_goes_where_it_belongs(header: str, url: str, expected: bool) -> None:
    """Scheme, host and port are the origin's; path and expiry are RFC 6265's; ``Domain`` widens nothing."""
    assert sent(after(header), url) == ({"lb": "a"} if expected else {})


async def test_a_secure_cookie_is_not_sent_in_the_clear() -> None:
    """Even to the origin that set it."""
    here = URL("http://mcp.example.com/")
    assert sent(after("a=1; Secure", "b=2", at=here), str(here)) == {"b": "2"}


async def test_an_answer_replaces_and_deletes() -> None:
    """As in a browser."""
    assert sent(after("lb=a", "lb=b"), str(HERE)) == {"lb": "b"}
    assert sent(after("lb=a", "lb=; Max-Age=0"), str(HERE)) == {}


@pytest.mark.parametrize("value", ["abc/def+ghi==", "a|b:c", '"quoted"', "%7B%22a%22%7D"])
async def test_a_value_is_sent_as_it_came(value: str) -> None:
    """Load balancers compare it byte for byte."""
    jar = after(f"AWSALB={value}; Path=/")
    assert jar.filter_cookies(HERE).output(header="", sep=";").strip() == f"AWSALB={value}"


async def test_what_a_server_can_make_a_client_keep_is_bounded() -> None:
    """In number, in size, and in origins."""
    jar = after(*(f"n{number}=1" for number in range(MAX_COOKIES + 50)), "n0=2", f"big={'x' * MAX_COOKIE_CHARS}")
    assert len(jar) == MAX_COOKIES
    assert sent(jar, str(HERE))["n0"] == "2"
    for number in range(100):
        jar.update_cookies_from_headers(["a=1"], URL(f"https://h{number}.example/"))
    assert len(jar) <= 32
    assert sent(jar, "https://h99.example/") == {"a": "1"}
    jar.clear()
    assert list(jar) == []


class Sticky:
    """Two servers behind a load balancer that chooses by a cookie; sessions exist on one of them."""

    def __init__(self) -> None:
        self.turn = 0
        self.wanderings = 0

    async def __call__(self, exchange: Exchange) -> None:
        worker = exchange.headers.get("cookie", "").removeprefix("lb=")
        if not worker:
            self.turn += 1
            worker = f"w{self.turn % 2}/="
        session = exchange.headers.get("mcp-session-id")
        if session is not None and session != worker:
            self.wanderings += 1
            await exchange.respond(404)
            return
        respond: Any = exchange.respond

        async def respond_so(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
            await respond(status, body, {**(headers or {}), "Set-Cookie": f"lb={worker}; Path=/; HttpOnly"})

        exchange.respond = respond_so  # type: ignore[method-assign]
        if exchange.method == "GET":
            await exchange.respond(405)
        elif not await legacy_basics(exchange, worker):
            await exchange.result(TEXT)


async def test_a_session_behind_a_load_balancer_stays_on_its_server() -> None:
    """POST, GET and DELETE carry the cookie; without it the session is lost again and again."""
    sticky = Sticky()
    async with ScriptedServer(sticky) as server:
        async with Client(server.url, mode="legacy") as client:
            for _ in range(4):
                assert (await client.call_tool("t")).text == "done"
        assert sticky.wanderings == 0
        assert {seen.headers["cookie"] for seen in server.seen[1:]} == {server.seen[1].headers["cookie"]}


async def test_cookies_can_be_switched_off() -> None:
    """For clients that must not be recognized."""
    async with ScriptedServer(Sticky()) as server:
        async with Client(server.url, mode="legacy", cookies=False) as client:
            assert (await client.ping()) is None
        assert not any("cookie" in seen.headers for seen in server.seen)


async def test_a_cookie_does_not_follow_to_another_port() -> None:
    """Ports are other servers, though browsers do not think so."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, headers={"set-cookie": "a=b; Path=/"})

    async with ScriptedServer(handler) as one, ScriptedServer(handler) as other:
        http = AiohttpClient(HttpClientOptions(proxy=None))
        for url in (one.url, other.url, one.url):
            response = await http.open(HttpClientRequest("GET", url))
            await response.receive()
            await response.aclose()
        await http.aclose()
        assert [seen.headers.get("cookie") for seen in one.seen] == [None, "a=b"]
        assert [seen.headers.get("cookie") for seen in other.seen] == [None]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
