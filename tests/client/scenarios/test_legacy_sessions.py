"""Legacy HTTP: sessions that are lost and renewed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Client, MCPError
from ferrule.protocol.errors import ConnectionClosed, LocalError
from ferrule.transports.http.client import HttpStatusError
from tests.peers.scripted_http import Exchange, ScriptedServer, legacy_basics, until

TEXT = {"content": [{"type": "text", "text": "done"}]}

pytestmark = pytest.mark.anyio


class Sessions:
    """A server that can forget its sessions."""

    def __init__(self) -> None:
        self.number = 0
        self.alive: set[str] = set()
        self.initializes = 0
        self.always_404 = False

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.rpc_method == "initialize":
            assert "mcp-session-id" not in exchange.headers
            self.initializes += 1
            self.number += 1
            self.alive.add(f"s{self.number}")
            await asyncio.sleep(0.01)
        if await legacy_basics(exchange, f"s{self.number}"):
            return
        if exchange.method == "GET":
            await exchange.respond(405)
        elif self.always_404 or exchange.headers.get("mcp-session-id") not in self.alive:
            await exchange.respond(404, b"no such session")
        else:
            await exchange.result(TEXT)


@pytest.mark.parametrize(("failing", "first"), [(1, 1), (2, {"result": 1})])
async def test_a_listing_that_was_lost_is_tried_again(failing: int, first: Any) -> None:
    """The client lists the tools to find out whether ``{"result": …}`` is a wrapping. A connection that was lost then
    says nothing about the tool: the call itself lists once more, and the next call does if that is lost, too."""
    lists: list[bool] = []

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/list":
            lists.append(works.pop(0) if works else True)
            if lists[-1]:
                await exchange.result({"tools": [tool]})
            else:
                exchange.drop()
        elif not await legacy_basics(exchange):
            await exchange.result({"content": [], "structuredContent": {"result": 1}})

    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    tool = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema}
    works = [False] * failing
    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        assert (await client.call_tool("count")).data == first
        assert (await client.call_tool("count")).data == 1
        asked = len(lists)
        assert (await client.call_tool("count")).data == 1
    assert len(lists) == asked
    assert False in lists


async def test_lost_session_is_renewed_once_by_all_callers() -> None:
    """A restarted server answers 404; concurrent callers share one handshake and all succeed."""
    sessions = Sessions()
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        await client.call_tool("t")
        sessions.alive.clear()
        results = await asyncio.gather(*(client.call_tool("t") for _ in range(20)))
        assert [result.text for result in results] == ["done"] * 20
        assert sessions.initializes == 2


async def test_second_404_is_an_error() -> None:
    """No endless handshakes against a server that forgets at once."""
    sessions = Sessions()
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        sessions.always_404 = True
        with pytest.raises(ConnectionClosed, match="lost the new session"):
            await client.call_tool("t")
        assert sessions.initializes == 2
        sessions.always_404 = False
        assert (await client.call_tool("t")).text == "done"


async def test_late_404_does_not_erase_the_new_session() -> None:
    """The 404 of an old request arrives after another call has renewed the session."""
    sessions = Sessions()
    release = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        is_slow = exchange.rpc_method == "tools/call" and exchange.message["params"]["name"] == "slow"
        if is_slow and exchange.headers.get("mcp-session-id") == "s1":
            await release.wait()
        await sessions(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        slow = asyncio.create_task(client.call_tool("slow"))
        await until(lambda: server.count("POST", "tools/call") == 1)
        sessions.alive.clear()
        assert (await client.call_tool("t")).text == "done"
        release.set()
        assert (await slow).text == "done"
        assert sessions.initializes == 2


async def test_404_without_a_session_is_a_wrong_url() -> None:
    """There is nothing to renew."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(404, b"nothing here")

    async with ScriptedServer(handler) as server:
        with pytest.raises(HttpStatusError, match="HTTP 404: nothing here"):
            await Client(server.url, mode="legacy").connect()


@pytest.mark.parametrize("status", [400, 410])
async def test_a_session_that_is_refused_otherwise_than_by_404_is_renewed(status: int) -> None:
    """Servers in the field answer an unknown session with 400 or 410 and a text of their own."""
    sessions = Sessions()

    async def handler(exchange: Exchange) -> None:
        is_known = exchange.headers.get("mcp-session-id") in sessions.alive
        if exchange.method == "POST" and exchange.rpc_method != "initialize" and not is_known and exchange.id:
            await exchange.respond(status, b"Bad Request: No valid session ID provided")
        else:
            await sessions(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        await client.call_tool("t")
        sessions.alive.clear()
        results = await asyncio.gather(*(client.call_tool("t") for _ in range(5)))
        assert [result.text for result in results] == ["done"] * 5
        assert sessions.initializes == 2


@pytest.mark.parametrize("kind", ["text", "error for the call", "error for nobody"])
async def test_a_bad_request_in_a_living_session_is_an_error_of_the_call(kind: str) -> None:
    """A ping shows whether the server refused this request, or no longer has the session."""
    sessions = Sessions()

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method != "tools/call":
            await (exchange.result({}) if exchange.rpc_method == "ping" else sessions(exchange))
        elif kind == "text":
            await exchange.respond(400, b"bad arguments")
        else:
            id = exchange.id if kind == "error for the call" else None
            error = {"code": -32602, "message": "bad arguments"}
            await exchange.json({"jsonrpc": "2.0", "id": id, "error": error}, 400)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        for _ in range(2):
            with pytest.raises((HttpStatusError, MCPError), match="bad arguments"):
                await client.call_tool("t")
        assert sessions.initializes == 1
        assert server.count("POST", "ping") == (0 if kind == "error for the call" else 2)


async def test_an_unknown_method_under_404_is_no_lost_session() -> None:
    """Newer servers send the status of the modern era to legacy clients too."""
    sessions = Sessions()

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "prompts/list":
            await exchange.error(-32601, status=404)
        else:
            await sessions(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        with pytest.raises(MCPError) as caught:
            await client.list_prompts()
        assert caught.value.code == -32601
        assert sessions.initializes == 1


class Restarted(Sessions):
    """A server that forgets its session, and whose next handshakes meet what ``troubles`` says."""

    def __init__(self, *troubles: Any) -> None:
        super().__init__()
        self.troubles = list(troubles)
        self.without_session = 0

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.rpc_method == "tools/call" and "mcp-session-id" not in exchange.headers:
            self.without_session += 1
        if exchange.rpc_method == "initialize" and self.initializes and self.troubles:
            trouble = self.troubles.pop(0)
            if isinstance(trouble, int):
                await exchange.respond(trouble)
            elif trouble == "drop":
                exchange.drop()
            else:
                trouble.set()
                await exchange.gone.wait()
            return
        await super().__call__(exchange)


@pytest.mark.parametrize("trouble", [500, 502, 503, 429, 404, 400, "drop"])
async def test_a_handshake_that_fails_after_a_lost_session_is_tried_by_the_next_call(trouble: Any) -> None:
    """One failure while the server starts must not leave a client that sends every later call without a session."""
    sessions = Restarted(trouble)
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        sessions.alive.clear()
        with pytest.raises((LocalError, MCPError)):
            await client.call_tool("t")
        assert (await client.call_tool("t")).text == "done"
        assert (sessions.initializes, sessions.without_session) == (2, 0)


async def test_only_the_call_that_met_the_failure_fails() -> None:
    """Others that lost the session wait, and take their turn."""
    sessions = Restarted(503)
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        sessions.alive.clear()
        outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(outcome, HttpStatusError) for outcome in outcomes) == 1
        assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 4
        assert (sessions.initializes, sessions.without_session) == (2, 0)


async def test_calls_that_start_during_the_handshake_wait_for_it() -> None:
    """They have no session to go out with."""
    sessions = Restarted(began := asyncio.Event())
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        sessions.alive.clear()
        first = asyncio.create_task(client.call_tool("t"))
        await began.wait()
        others = [asyncio.create_task(client.call_tool("t")) for _ in range(3)]
        await asyncio.sleep(0.02)
        assert not client.is_connected
        first.cancel()
        assert [result.text for result in await asyncio.gather(*others)] == ["done"] * 3
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (sessions.initializes, sessions.without_session) == (2, 0)


async def test_closing_gives_up_a_handshake_that_hangs() -> None:
    """Closing does not wait for an unresponsive server; waiting callers get an error."""
    sessions = Restarted(began := asyncio.Event())
    async with ScriptedServer(sessions) as server:
        client = await Client(server.url, mode="legacy").connect()
        sessions.alive.clear()
        calls = [asyncio.create_task(client.call_tool("t")) for _ in range(3)]
        await began.wait()
        await asyncio.wait_for(client.aclose(), 30)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, ConnectionClosed)
            assert "closed" in str(outcome)
        assert sessions.without_session == 0
