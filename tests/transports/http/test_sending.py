"""One HTTP exchange of a client: redirects stay within the origin, hold for one request, and carry nothing away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from ferrule import Client
from ferrule.client.connection.connector import forget_eras
from ferrule.protocol.errors import LocalError
from ferrule.transports.http.backend import HttpClientRequest
from ferrule.transports.http.client import HttpStatusError
from ferrule.transports.http.sending import MAX_REDIRECTS, HttpSender, is_same_origin
from tests.peers.scripted_http import CACHED, COMPLETE, DISCOVERED, Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

TEXT = {"content": [{"type": "text", "text": "done"}], **COMPLETE}


@pytest.fixture(autouse=True)
def fresh_eras() -> None:
    forget_eras()


async def serve(exchange: Exchange) -> None:
    """Either era, one tool."""
    if exchange.rpc_method == "server/discover" and "mcp-method" in exchange.headers and MODE[0] == "auto":
        await exchange.result(DISCOVERED)
    elif exchange.method == "GET":
        await exchange.respond(405)
    elif not await legacy_basics(exchange):
        await exchange.result({**TEXT, "tools": [], **CACHED} if exchange.rpc_method == "tools/list" else TEXT)


MODE = ["auto"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_holds_for_one_request(status: int, mode: str) -> None:
    """A load balancer moves one call away; the next one goes to the configured URL again, as with other clients."""
    MODE[0] = mode
    moves = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal moves
        if exchange.rpc_method == "tools/call" and exchange.path == "/mcp" and moves == 0:
            moves += 1
            await exchange.respond(status, headers={"location": "/other"})
        else:
            await serve(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode=mode, auth="token") as client:
        for _ in range(3):
            assert (await client.call_tool("t")).text == "done"
        calls = [seen for seen in server.seen if seen.rpc_method == "tools/call"]
    assert [call.path for call in calls] == ["/mcp", "/other", "/mcp", "/mcp"]
    assert {call.headers["authorization"] for call in calls} == {"Bearer token"}
    assert calls[0].body == calls[1].body
    if mode == "legacy":
        assert {call.headers["mcp-session-id"] for call in calls} == {"s1"}


async def test_several_hops_are_followed_up_to_a_bound() -> None:
    """`/mcp`, the slash, the prefix of a proxy: each may redirect; a loop ends."""

    async def handler(exchange: Exchange) -> None:
        hop = int(exchange.path.removeprefix("/mcp") or 0)
        name = exchange.message.get("params", {}).get("name")
        if exchange.rpc_method == "tools/call" and (name == "loop" or hop < MAX_REDIRECTS):
            await exchange.respond(308, headers={"location": f"mcp{hop + 1}"})
        else:
            await serve(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        assert (await client.call_tool("t")).text == "done"
        server.seen.clear()
        with pytest.raises(HttpStatusError, match="redirects to"):
            await client.call_tool("loop")
        assert server.count("POST") == MAX_REDIRECTS + 1


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304])
async def test_a_redirect_that_changes_the_method_is_not_followed(status: int) -> None:
    """It would turn the message into a GET without a body; the error names where it leads."""

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "tools/call":
            await exchange.respond(status, headers={"location": "/other?token=secret"})
        else:
            await serve(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        with pytest.raises(HttpStatusError) as caught:
            await client.call_tool("t")
        assert caught.value.status == status
        assert "/other" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert not any(seen.path.startswith("/other") for seen in server.seen)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_get_follows_any_redirect_within_the_origin(status: int) -> None:
    """Its method stays the same."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET" and exchange.path == "/mcp":
            await exchange.respond(status, headers={"location": "/mcp/"})
        else:
            await serve(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy", roots=["/"]):
        assert [seen.path for seen in server.seen if seen.method == "GET"] == ["/mcp", "/mcp/"]


@pytest.mark.parametrize("where", ["other port", "other scheme", "user", "no URL"])
async def test_nothing_goes_to_another_origin(where: str) -> None:
    """Neither message nor credentials nor session follow a redirect out, on POST, GET or DELETE."""

    async def stranger(exchange: Exchange) -> None:
        await exchange.respond(200)

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "tools/call" or exchange.method in ("GET", "DELETE"):
            await exchange.respond(307, headers={"location": location})
        else:
            await serve(exchange)

    async with ScriptedServer(stranger) as other, ScriptedServer(handler) as server:
        location = {
            "other port": other.url,
            "other scheme": server.url.replace("http:", "https:"),
            "user": server.url.replace("http://", "http://me:word@").replace("/mcp", "/other"),
            "no URL": "http://[",
        }[where]
        async with Client(server.url, mode="legacy", auth="token", roots=["/"]) as client:
            with pytest.raises(HttpStatusError, match="HTTP 307") as caught:
                await client.call_tool("t")
            assert "word" not in str(caught.value)
        assert other.seen == []
        assert all(seen.path == "/mcp" for seen in server.seen)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("http://h/a", "http://h:80/b", True),
        ("https://H/a", "https://h:443/b?c", True),
        ("http://h/a", "https://h/a", False),
        ("http://h/a", "http://h:81/a", False),
        ("http://h/a", "http://h.evil/a", False),
        ("http://h/a", "http://[/", False),
        ("http://h/a", "http://h:x/", False),
    ],
)
def test_same_origin(one: str, other: str, expected: bool) -> None:
    """A port that is not written is the scheme's."""
    assert is_same_origin(one, other) is expected


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    "kind", ["Application/JSON", "application/json;charset=utf-8", "APPLICATION/JSON ; Charset=UTF-8", None]
)
async def test_the_media_type_of_an_answer_may_have_any_case(kind: str | None, mode: str) -> None:
    """Media types are case-insensitive (RFC 9110, 8.3.1), and may have parameters or be left out."""

    async def handler(exchange: Exchange) -> None:
        respond: Any = exchange.respond

        async def respond_so(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
            found = {name: value for name, value in (headers or {}).items() if name != "content-type"}
            await respond(status, body, {**found, "Content-Type": kind} if kind else found)

        exchange.respond = respond_so  # type: ignore[method-assign]
        await serve(exchange)

    MODE[0] = mode
    async with ScriptedServer(handler) as server, Client(server.url, mode=mode) as client:
        assert (await client.call_tool("t")).text == "done"


class Held:
    """A response that counts as open until it is closed."""

    headers: Mapping[str, str] = {"location": "/other"}

    def __init__(self, http: HoldsResponses) -> None:
        self.status = http.status
        self._http = http
        http.opened.append(self)

    async def receive(self) -> bytes:
        if self._http.hangs:
            self._http.is_read.set()
            await anyio.sleep_forever()
        return b""

    async def aclose(self) -> None:
        self._http.opened.remove(self)


class HoldsResponses:
    """An `HttpClient` whose responses all have one status."""

    def __init__(self, status: int, *, hangs: bool = False) -> None:
        self.status, self.hangs = status, hangs
        self.opened: list[Held] = []
        self.is_read = anyio.Event()

    async def open(self, request: HttpClientRequest) -> Held:
        return Held(self)

    async def aclose(self) -> None:
        """Nothing is open."""


class NoOneSignsIn:
    async def headers(self, request: HttpClientRequest) -> dict[str, str]:
        return {}

    async def challenged(self, request: HttpClientRequest, status: int, headers: Any) -> bool:
        raise LocalError("The sign-in was refused")


async def test_a_refused_sign_in_releases_the_response() -> None:
    """It would hold its connection as long as the client lives, one more for each call."""
    http = HoldsResponses(401)
    with pytest.raises(LocalError, match="refused"):
        await HttpSender(http, NoOneSignsIn()).open("POST", "http://h/mcp", {})
    assert http.opened == []


@pytest.mark.parametrize("status", [307, 401])
async def test_a_call_that_is_cancelled_within_a_body_releases_the_response(status: int) -> None:
    """The body of a redirect and that of a challenge are read before the request is sent again."""
    http = HoldsResponses(status, hangs=True)
    async with anyio.create_task_group() as group:
        group.start_soon(HttpSender(http, NoOneSignsIn()).open, "POST", "http://h/mcp", {})
        await http.is_read.wait()
        group.cancel_scope.cancel()
    assert http.opened == []
