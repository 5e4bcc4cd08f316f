"""The two-endpoint transport of 2024-11-05, the client's side: what one message meets concerns that message alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ferrule import Client
from ferrule.protocol.errors import LocalError
from ferrule.transports.background import Background
from ferrule.transports.http.backend import HttpClientRequest, HttpConnectionLost
from ferrule.transports.http.client import HttpStatusError
from ferrule.transports.sse.client import SseRefused, connect_sse
from tests.peers.scripted_http import INITIALIZED, Exchange, ScriptedServer

pytestmark = pytest.mark.anyio

TEXT = {"content": [{"type": "text", "text": "done"}]}
FAILING = [300, 302, 400, 401, 403, 405, 409, 413, 422, 429, 500, 501, 502, 503, 504]


class TwoEndpoints:
    """A server of 2024-11-05; ``post`` answers a POST in its own way and says so by returning ``True``."""

    def __init__(self, post: Any = None, get: Any = None) -> None:
        self.post, self.get = post, get
        self.stream: Exchange | None = None
        self.opened = 0

    async def say(self, value: Any) -> None:
        assert self.stream is not None
        await self.stream.raw(b"event: message\ndata: %s\n\n" % json.dumps(value).encode())

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            if self.get is not None and await self.get(exchange):
                return
            self.opened += 1
            self.stream = exchange
            await exchange.stream()
            await exchange.raw(b"event: endpoint\ndata: /messages?session=%d\n\n" % self.opened)
            await exchange.gone.wait()
        elif self.post is not None and await self.post(exchange):
            pass
        elif exchange.path == "/mcp":
            await exchange.respond(405)
        else:
            await self.answer(exchange)

    async def answer(self, exchange: Exchange) -> None:
        await exchange.respond(202)
        if exchange.rpc_method == "initialize":
            result = {**INITIALIZED, "protocolVersion": "2024-11-05"}
            await self.say({"jsonrpc": "2.0", "id": exchange.id, "result": result})
        elif exchange.id is not None and "method" in exchange.message:
            await self.say({"jsonrpc": "2.0", "id": exchange.id, "result": TEXT})


def client_of(server: ScriptedServer, **options: Any) -> Client:
    return Client({"type": "sse", "url": server.url}, timeout_s=10, **options)


def is_call(exchange: Exchange, name: str) -> bool:
    return exchange.rpc_method == "tools/call" and exchange.message["params"]["name"] == name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("status", FAILING)
async def test_a_refused_message_fails_its_call_with_the_status(status: int) -> None:
    """One POST that a proxy refuses must not end a session whose event stream goes on."""

    async def post(exchange: Exchange) -> bool:
        if is_call(exchange, "refused"):
            await exchange.respond(status, b"the reason")
            return True
        return False

    endpoints = TwoEndpoints(post)
    async with ScriptedServer(endpoints) as server, client_of(server) as client:
        other = asyncio.create_task(client.call_tool("other"))
        with pytest.raises(HttpStatusError, match=f"HTTP {status}.*the reason") as caught:
            await client.call_tool("refused")
        assert caught.value.status == status
        assert client.is_connected
        assert (await client.call_tool("t")).text == (await other).text == "done"
        assert endpoints.opened == 1
        assert server.count("POST", "notifications/cancelled") == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("status", [404, 410])
async def test_a_forgotten_session_is_opened_anew_by_the_next_call(status: int) -> None:
    """The server was restarted, or another one responds: messages of the old session are lost."""

    async def post(exchange: Exchange) -> bool:
        if is_call(exchange, "t") and exchange.path.endswith("=1"):
            await exchange.respond(status, b"Could not find session")
            return True
        return False

    endpoints = TwoEndpoints(post)
    async with ScriptedServer(endpoints) as server, client_of(server) as client:
        with pytest.raises(HttpStatusError, match=f"HTTP {status}: Could not find session"):
            await client.call_tool("t")
        assert not client.is_connected
        assert (await client.call_tool("t")).text == "done"
        assert endpoints.opened == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_message_whose_connection_breaks_fails_its_call_alone() -> None:
    """The server may have seen it, so it is not sent again."""

    async def post(exchange: Exchange) -> bool:
        if is_call(exchange, "reset"):
            exchange.drop()
            return True
        return False

    endpoints = TwoEndpoints(post)
    async with ScriptedServer(endpoints) as server, client_of(server) as client:
        with pytest.raises(HttpConnectionLost):
            await client.call_tool("reset")
        assert (await client.call_tool("t")).text == "done"
        assert (endpoints.opened, sum(is_call(seen, "reset") for seen in server.seen)) == (1, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", ["end", "drop"])
async def test_the_end_of_the_event_stream_fails_calls_and_the_next_one_connects(how: str) -> None:
    """As the page on the client promises for every connection."""

    async def post(exchange: Exchange) -> bool:
        if is_call(exchange, "last"):
            await exchange.respond(202)
            stream = endpoints.stream
            assert stream is not None
            if how == "end":
                await stream.end()
            stream.drop()
            return True
        return False

    endpoints = TwoEndpoints(post)
    async with ScriptedServer(endpoints) as server, client_of(server) as client:
        with pytest.raises(LocalError, match=r"event stream|lost"):
            await client.call_tool("last")
        assert (await client.call_tool("t")).text == "done"
        assert endpoints.opened == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_an_answer_counts_though_its_post_failed() -> None:
    """Answers come over the other stream: a proxy that loses the 202 has lost nothing."""

    async def post(exchange: Exchange) -> bool:
        if is_call(exchange, "t"):
            await endpoints.say({"jsonrpc": "2.0", "id": exchange.id, "result": TEXT})
            await asyncio.sleep(0.05)
            await exchange.respond(502)
            return True
        return False

    endpoints = TwoEndpoints(post)
    async with ScriptedServer(endpoints) as server, client_of(server) as client:
        assert (await client.call_tool("t")).text == "done"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_redirected_message_is_followed_within_the_origin() -> None:
    """Several hops, for this message only; the event stream's address may be redirected too."""

    async def post(exchange: Exchange) -> bool:
        if exchange.path.startswith("/messages?"):
            await exchange.respond(307, headers={"location": "/hop" + exchange.path})
        elif exchange.path.startswith("/hop"):
            await exchange.respond(308, headers={"location": "/last" + exchange.path.removeprefix("/hop")})
        else:
            return False
        return True

    async def get(exchange: Exchange) -> bool:
        if exchange.path == "/mcp":
            await exchange.respond(302, headers={"location": "/mcp/"})
            return True
        return False

    async with ScriptedServer(TwoEndpoints(post, get)) as server, client_of(server, auth="token") as client:
        for _ in range(2):
            assert (await client.call_tool("t")).text == "done"
        assert sum(is_call(seen, "t") and seen.path.startswith("/messages?") for seen in server.seen) == 2
        assert all(seen.headers["authorization"] == "Bearer token" for seen in server.seen)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_message_is_not_redirected_to_another_origin() -> None:
    """Credentials and content stay where they were meant for."""

    async def stranger(exchange: Exchange) -> None:
        await exchange.respond(202)

    async def post(exchange: Exchange) -> bool:
        if is_call(exchange, "t"):
            await exchange.respond(307, headers={"location": other.url})
            return True
        return False

    async with ScriptedServer(stranger) as other, ScriptedServer(TwoEndpoints(post)) as server:
        async with client_of(server, auth="token") as client:
            with pytest.raises(HttpStatusError, match="HTTP 307"):
                await client.call_tool("t")
        assert other.seen == []


@pytest.mark.parametrize("status", [401, 403, 407, 429, 500, 502, 503])
async def test_an_event_stream_that_is_refused_for_now_says_its_status(status: int) -> None:
    """It is not proof that the URL is not a server of this kind."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(status, b"the reason")

    async with ScriptedServer(handler) as server:
        with pytest.raises(HttpStatusError, match="the reason") as caught:
            await client_of(server).connect()
        assert caught.value.status == status


@pytest.mark.parametrize("says", [b"", b": hello\n\n"])
async def test_connecting_to_a_silent_server_is_bounded(says: bytes) -> None:
    """Whether it sends no head or no endpoint."""

    async def handler(exchange: Exchange) -> None:
        if says:
            await exchange.stream()
            await exchange.raw(says)
        await exchange.gone.wait()

    async with ScriptedServer(handler) as server:
        with pytest.raises(SseRefused, match=r"sent no endpoint within 0\.05 s"):
            await client_of(server, connect_timeout_s=0.05).connect()


@pytest.mark.parametrize("status", [204, 400, 404, 405])
async def test_a_url_without_an_event_stream_is_refused(status: int) -> None:
    """The configuration names the transport; the error says what was found instead."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(status)

    async with ScriptedServer(handler) as server:
        with pytest.raises(SseRefused, match=f"HTTP {status}"):
            await client_of(server).connect()


@pytest.mark.parametrize(
    "named", ["http://127.0.0.1:1/messages", "https://127.0.0.1/x", "//evil.example/x", "http://["]
)
async def test_an_endpoint_of_another_origin_is_refused(named: str) -> None:
    """A server must not be able to send a client's messages elsewhere."""

    async def get(exchange: Exchange) -> bool:
        await exchange.stream()
        await exchange.raw(b"event: endpoint\ndata: %s\n\n" % named.encode())
        await exchange.gone.wait()
        return True

    async with ScriptedServer(TwoEndpoints(get=get)) as server:
        with pytest.raises(SseRefused, match=r"another origin|not a URL"):
            await client_of(server).connect()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_events_in_every_form_of_the_standard_are_read() -> None:
    """A byte order mark, CR as line end, comments, several data lines, chunks of one byte, arrays (2025-03-26)."""

    async def get(exchange: Exchange) -> bool:
        endpoints.stream = exchange
        await exchange.stream()
        for byte in b"\xef\xbb\xbf: hello\r\revent:endpoint\rdata:/messages\r\r":
            await exchange.raw(bytes([byte]))
        await exchange.gone.wait()
        return True

    async def say(value: Any) -> None:
        text = json.dumps([{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}, value], indent=1)
        lines = "".join(f"data:{line}\r" for line in text.splitlines())
        for byte in f"id\r{lines}\r".encode():
            await endpoints.stream.raw(bytes([byte]))  # type: ignore[union-attr]

    endpoints = TwoEndpoints(get=get)
    endpoints.say = say  # type: ignore[method-assign]
    async with ScriptedServer(endpoints) as server, client_of(server) as client:
        assert (await client.call_tool("t")).text == "done"


class Flood:
    """An `HttpClient`, and its response: an event stream with one message after the other, without end."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, message: bytes) -> None:
        self.chunk = b"data: %s\n\n" % message
        self.reads = 0

    async def open(self, request: HttpClientRequest) -> Flood:
        return self

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        self.reads += 1
        return self.chunk if self.reads > 1 else b"event: endpoint\ndata: /messages\n\n"

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("size", "most"), [(2, 1030), (1 << 20, 6)])
async def test_a_server_that_sends_faster_than_it_is_served_is_not_read(size: int, most: int) -> None:
    """Otherwise it decides how much memory its messages take."""
    http = Flood(b'"%s"' % (b"x" * size))
    background = Background()
    connection = await connect_sse("http://h/sse", http, background=background)
    await anyio.wait_all_tasks_blocked()
    before = http.reads
    assert before <= most
    for _ in range(before):
        await connection.receive()
    assert http.reads > before
    await connection.aclose()
    await background.aclose()
