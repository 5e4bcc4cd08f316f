"""Legacy HTTP: sessions that are lost, streams that break, servers that only know POST. Cases 3, 4, 6, 25, 31."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ferrule import Client
from ferrule.protocol.errors import ConnectionClosed, LocalError, RequestTimeout
from ferrule.transports.http_client import HttpConnectFailed
from ferrule.transports.streamable_client import HttpStatusError, retry_delay_s
from tests.peers.scripted_http import Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

TEXT = {"content": [{"type": "text", "text": "done"}]}


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


async def test_lost_session_is_renewed_once_by_all_callers() -> None:
    """Case 3: a restarted server answers 404; concurrent callers share one handshake and all succeed."""
    sessions = Sessions()
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        await client.call_tool("t")
        sessions.alive.clear()
        results = await asyncio.gather(*(client.call_tool("t") for _ in range(20)))
        assert [result.text for result in results] == ["done"] * 20
        assert sessions.initializes == 2


async def test_second_404_is_an_error() -> None:
    """Case 3: no endless handshakes against a server that forgets at once."""
    sessions = Sessions()
    async with ScriptedServer(sessions) as server, Client(server.url, mode="legacy") as client:
        sessions.always_404 = True
        with pytest.raises(ConnectionClosed, match="forgot the new session"):
            await client.call_tool("t")
        assert sessions.initializes == 2
        sessions.always_404 = False
        assert (await client.call_tool("t")).text == "done"


async def test_late_404_does_not_erase_the_new_session() -> None:
    """Case 3: the 404 of an old request arrives after somebody has renewed the session."""
    sessions = Sessions()
    release = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        is_slow = exchange.rpc_method == "tools/call" and exchange.message["params"]["name"] == "slow"
        if is_slow and exchange.headers.get("mcp-session-id") == "s1":
            await release.wait()
        await sessions(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        slow = asyncio.create_task(client.call_tool("slow"))
        await asyncio.sleep(0.05)
        sessions.alive.clear()
        assert (await client.call_tool("t")).text == "done"
        release.set()
        assert (await slow).text == "done"
        assert sessions.initializes == 2


async def test_404_without_a_session_is_a_wrong_url() -> None:
    """Case 3: there is nothing to renew."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(404, b"nothing here")

    async with ScriptedServer(handler) as server:
        with pytest.raises(HttpStatusError, match="HTTP 404: nothing here"):
            await Client(server.url, mode="legacy").connect()


async def test_get_stream_that_always_closes_is_not_reopened_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 4: the number of attempts does not start again with each clean close."""
    monkeypatch.setattr("ferrule.transports.streamable_client.retry_delay_s", lambda attempt, hint_ms: 0.0)

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.stream()
            await exchange.end()
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        for _ in range(100):
            await client.list_tools()
        assert 1 <= server.count("GET") <= 6


async def test_405_means_no_stream_ever() -> None:
    """Cases 4 and 6: 405 is permanent, and POST traffic goes on; a hundred times, as it once depended on timing."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/list":
            await exchange.stream()
            await exchange.event_result({"tools": []})
            await exchange.end()
        elif not await legacy_basics(exchange):
            raise AssertionError(exchange.message)

    async with ScriptedServer(handler) as server:
        for _ in range(100):
            async with Client(server.url, mode="legacy") as client:
                assert await client.list_tools() == []
        assert server.count("GET") <= 100


async def test_get_stream_resumes_where_it_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    """``Last-Event-ID`` and ``retry`` are kept across drops, clean or not."""
    delays: list[int | None] = []
    ids: list[str | None] = []
    heard: list[str] = []
    done = asyncio.Event()

    def delay(attempt: int, hint_ms: int | None) -> float:
        delays.append(hint_ms)
        return 0.0

    monkeypatch.setattr("ferrule.transports.streamable_client.retry_delay_s", delay)

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            number = len(ids)
            ids.append(exchange.headers.get("last-event-id"))
            await exchange.stream()
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": number}}
            if number < 3:
                await exchange.event(note, id=f"e{number}", retry=70 + number)
                if number == 1:
                    exchange.drop()
                else:
                    await exchange.end()
            else:
                done.set()
                await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result({})

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", message_handler=lambda m, p: heard.append(p["data"])):
            await asyncio.wait_for(done.wait(), 5)
    assert ids[:4] == [None, "e0", "e1", "e2"]
    assert delays[:3] == [70, 71, 72]
    assert heard == [0, 1, 2]


async def test_call_stream_is_resumed_with_get_after_the_servers_retry() -> None:
    """2025-11-25: a server may close a call's stream after a priming event; the answer comes over GET."""
    times: list[float] = []

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET" and "last-event-id" in exchange.headers:
            times.append(time.monotonic())
            assert exchange.headers["last-event-id"] == "p1"
            await exchange.stream()
            await exchange.event({"jsonrpc": "2.0", "id": calls[-1], "result": TEXT})
            await exchange.end()
        elif exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            calls.append(exchange.id)
            await exchange.stream()
            await exchange.event("", id="p1", retry=120)
            times.append(time.monotonic())
            await exchange.end()
        else:
            await legacy_basics(exchange)

    calls: list[Any] = []
    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        assert (await client.call_tool("t")).text == "done"
    assert times[1] - times[0] >= 0.115


async def test_open_get_stream_never_blocks_a_call() -> None:
    """Case 25: the GET stream is held open without a byte; calls do not wait for it."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result(TEXT)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        results = await asyncio.wait_for(asyncio.gather(*(client.call_tool("t") for _ in range(50))), 5)
        assert len(results) == 50
        assert server.count("GET") == 1


async def test_giving_up_tells_a_legacy_server() -> None:
    """Case 31: time-out and cancellation both send ``notifications/cancelled`` with the request's id."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call" and exchange.message["params"]["name"] == "slow":
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result(TEXT)

    def cancelled() -> list[Any]:
        return [x.message["params"]["requestId"] for x in server.seen if x.rpc_method == "notifications/cancelled"]

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("slow", timeout_s=0.05)
        assert server.url in str(caught.value)
        task = asyncio.create_task(client.call_tool("slow"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.call_tool("t")).text == "done"
        while len(cancelled()) < 2:
            await asyncio.sleep(0.01)
        slow = [x.id for x in server.seen if x.rpc_method == "tools/call" and "slow" in x.body.decode()]
        assert cancelled() == slow


async def test_initialize_is_never_cancelled() -> None:
    """Case 31: the specification forbids it; here the handshake after a lost session is given up."""
    initializes = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal initializes
        if exchange.rpc_method == "initialize":
            initializes += 1
            if initializes > 1:
                await exchange.gone.wait()
                return
        if await legacy_basics(exchange):
            return
        await exchange.respond(405 if exchange.method == "GET" else 404)

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", connect_timeout_s=0.1) as client:
            with pytest.raises(LocalError):
                await client.call_tool("t")
            await asyncio.sleep(0.1)
            assert initializes == 2
            assert server.count("POST", "notifications/cancelled") == 0


async def test_progress_restarts_the_clock_up_to_the_cap() -> None:
    """A tool that reports progress lives; one that reports it for ever does not."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            token = exchange.message["params"]["_meta"]["progressToken"]
            await exchange.stream()
            for number in range(1000 if exchange.message["params"]["name"] == "endless" else 5):
                params = {"progressToken": token, "progress": number}
                await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                await asyncio.sleep(0.05)
            await exchange.event_result(TEXT)
            await exchange.end()
        else:
            await legacy_basics(exchange)

    seen: list[float] = []
    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy", timeout_s=0.15) as client:
        result = await client.call_tool("steps", on_progress=lambda progress, total, message: seen.append(progress))
        assert (result.text, seen) == ("done", [0, 1, 2, 3, 4])
        with pytest.raises(RequestTimeout):
            await client.call_tool("endless", max_total_s=0.3)


async def test_answer_on_the_standing_stream_is_taken() -> None:
    """Some servers answer there after breaking off the call's own stream."""

    async def handler(exchange: Exchange) -> None:
        nonlocal standing
        if exchange.method == "GET":
            standing = exchange
            await exchange.stream()
            await exchange.gone.wait()
        elif exchange.rpc_method == "tools/call":
            await exchange.stream()
            assert standing is not None
            await standing.event({"jsonrpc": "2.0", "id": exchange.id, "result": TEXT})
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    standing: Exchange | None = None
    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy", roots=["/"]) as client:
        assert (await asyncio.wait_for(client.call_tool("t"), 5)).text == "done"


async def test_server_questions_come_over_either_stream() -> None:
    """A legacy server asks on the call's stream or on the standing one; the same handler answers both."""

    async def handler(exchange: Exchange) -> None:
        nonlocal standing
        if exchange.method == "GET":
            standing = exchange
            await exchange.stream()
            await exchange.gone.wait()
        elif exchange.rpc_method == "tools/call":
            ask = {"jsonrpc": "2.0", "id": "q1", "method": "roots/list"}
            await exchange.stream()
            await (exchange if exchange.message["params"]["name"] == "own" else standing).event(ask)
            await answered.wait()
            answered.clear()
            await exchange.event_result(TEXT)
            await exchange.end()
        elif exchange.method == "POST" and "result" in exchange.message:
            answers.append(exchange.message)
            await exchange.respond(202)
            answered.set()
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    standing: Any = None
    answered, answers = asyncio.Event(), []
    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy", roots=["file:///x"]) as client:
        await asyncio.wait_for(client.call_tool("own"), 5)
        await asyncio.wait_for(client.call_tool("other"), 5)
    assert [answer["result"]["roots"][0]["uri"] for answer in answers] == ["file:///x"] * 2


async def test_nobody_listens_is_said_at_once() -> None:
    """The error names the address, not a failed handshake."""
    with pytest.raises(HttpConnectFailed, match=r"127\.0\.0\.1:9"):
        await Client("http://127.0.0.1:9/mcp").connect()


async def test_closing_fails_calls_of_other_tasks() -> None:
    """D1, D3: whoever waits learns at once that the client was closed, from whichever task."""

    async def handler(exchange: Exchange) -> None:
        if not await legacy_basics(exchange):
            await exchange.gone.wait()

    async with ScriptedServer(handler) as server:
        client = await Client(server.url, mode="legacy").connect()
        calls = [asyncio.create_task(client.call_tool("t")) for _ in range(5)]
        await asyncio.sleep(0.05)
        await asyncio.create_task(client.aclose())
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, ConnectionClosed)
        with pytest.raises(ConnectionClosed):
            await client.call_tool("t")
        assert len([task for task in asyncio.all_tasks() if "ferrule" in repr(task)]) == 0


@pytest.mark.parametrize(
    ("attempt", "hint_ms", "expected"), [(0, None, 0.5), (3, None, 4.0), (20, None, 30.0), (5, 70, 0.07)]
)
def test_retry_delay(attempt: int, hint_ms: int | None, expected: float) -> None:
    """The server's hint wins; otherwise the pause doubles up to a bound."""
    assert retry_delay_s(attempt, hint_ms=hint_ms) == expected
