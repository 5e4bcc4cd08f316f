"""Legacy HTTP: streams that break and are resumed."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import anyio
import pytest

from ferrule import Client
from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.http.client import HttpStatusError
from tests.peers.scripted_http import Exchange, ScriptedServer, legacy_basics, until

TEXT = {"content": [{"type": "text", "text": "done"}]}

pytestmark = pytest.mark.anyio


async def test_get_stream_that_always_closes_is_not_reopened_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of attempts does not start again with each clean close."""
    monkeypatch.setattr("ferrule.transports.http.listening.retry_delay_s", lambda attempt, hint_ms: 0.0)

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
    """405 is permanent, and POST traffic goes on; a hundred times, as it once depended on timing."""

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

    monkeypatch.setattr("ferrule.transports.http.listening.retry_delay_s", delay)

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
            await asyncio.wait_for(done.wait(), 30)
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
    """The GET stream is held open without a byte; calls do not wait for it."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result(TEXT)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        results = await asyncio.wait_for(asyncio.gather(*(client.call_tool("t") for _ in range(50))), 30)
        assert len(results) == 50
        assert server.count("GET") == 1


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
        assert (await asyncio.wait_for(client.call_tool("t"), 30)).text == "done"


async def test_server_questions_come_over_either_stream() -> None:
    """A legacy server sends requests on the call's stream or on the GET stream; one handler answers both."""

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
        await asyncio.wait_for(client.call_tool("own"), 30)
        await asyncio.wait_for(client.call_tool("other"), 30)
    assert [answer["result"]["roots"][0]["uri"] for answer in answers] == ["file:///x"] * 2


class Polling:
    """A server that closes the stream of a call and hands out the answer over GET, after what ``resumes`` says."""

    def __init__(self, *resumes: Any) -> None:
        self.resumes = list(resumes)
        self.ids: list[str | None] = []
        self.call: Any = None

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.method == "GET" and "last-event-id" in exchange.headers:
            self.ids.append(exchange.headers["last-event-id"])
            step = self.resumes.pop(0) if self.resumes else None
            if isinstance(step, int):
                await exchange.respond(step)
            elif step == "drop":
                exchange.drop()
            else:
                await exchange.stream()
                if step is not None:
                    await exchange.raw(step)
                    exchange.drop()
                else:
                    await exchange.event({"jsonrpc": "2.0", "id": self.call, "result": TEXT})
                    await exchange.end()
        elif exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            self.call = exchange.id
            await exchange.stream()
            await exchange.event("", id="p1", retry=0)
            await exchange.end()
        else:
            await legacy_basics(exchange)


@pytest.fixture
def no_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.transports.http.client.retry_delay_s", lambda attempt, hint_ms: 0.0)


@pytest.mark.usefixtures("no_back_off")
async def test_a_resumed_stream_keeps_its_id_until_another_comes() -> None:
    """A comment, a lone ``retry`` or an event without an id, and then the next drop: the answer must not be lost."""
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'
    polling = Polling(b": hello\n\n", b"retry: 1\n\n", note, b"id: p2\n" + note, b"\n\n", b"id: p3", note)
    async with ScriptedServer(polling) as server, Client(server.url, mode="legacy") as client:
        assert (await client.call_tool("t")).text == "done"
    assert polling.ids == ["p1", "p1", "p1", "p1", "p2", "p2", "p2", "p2"]


@pytest.mark.usefixtures("no_back_off")
@pytest.mark.parametrize("step", [408, 409, 425, 429, 500, 502, 503, 504, "drop"])
async def test_a_resume_is_tried_again_after_a_passing_failure(step: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The answer of a call that has run is worth more than one attempt; the log says what happens."""
    polling = Polling(step, step, None)
    with caplog.at_level(logging.WARNING, "ferrule.client.http"):
        async with ScriptedServer(polling) as server, Client(server.url, mode="legacy") as client:
            assert (await client.call_tool("t")).text == "done"
    assert polling.ids == ["p1"] * 3
    assert caplog.text.count("could not be resumed") == 1


@pytest.mark.usefixtures("no_back_off")
@pytest.mark.parametrize("status", [400, 401, 403, 405, 422])
async def test_a_refused_resume_fails_the_call_with_its_status(status: int) -> None:
    """No time changes these; the caller learns what the server said."""
    polling = Polling(status)
    async with ScriptedServer(polling) as server, Client(server.url, mode="legacy") as client:
        with pytest.raises(HttpStatusError) as caught:
            await client.call_tool("t")
    assert caught.value.status == status
    assert len(polling.ids) == 1


@pytest.mark.usefixtures("no_back_off")
@pytest.mark.parametrize("status", [404, 410])
async def test_a_session_that_is_lost_during_a_call_does_not_send_the_call_again(status: int) -> None:
    """The server had accepted it: a tool must not run twice."""
    polling = Polling(status)
    async with ScriptedServer(polling) as server, Client(server.url, mode="legacy") as client:
        with pytest.raises(ConnectionClosed, match="forgot the session in which tools/call was under way"):
            await client.call_tool("t")
        assert server.count("POST", "tools/call") == 1
        assert (await client.call_tool("t")).text == "done"


async def ask_until(exchange: Exchange, is_over: asyncio.Event) -> None:
    """Serve a call that asks one question, and ends when the test says so."""
    await exchange.stream()
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    await exchange.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})
    await is_over.wait()
    await exchange.event_result(TEXT)
    await exchange.end()


@pytest.mark.parametrize("failure", ["dropped", "unavailable"])
async def test_an_answer_and_the_end_of_the_handshake_are_sent_again(
    failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that has the connection may end before it reads them; another one takes them."""
    monkeypatch.setattr("ferrule.transports.http.client._DELIVERY_WAIT_S", 0.01)
    taken: dict[str, list[Any]] = {"initialized": [], "answer": []}
    answered = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        is_answer = exchange.method == "POST" and exchange.rpc_method == "" and "result" in (exchange.message or {})
        kind = "answer" if is_answer else (exchange.rpc_method or "").rpartition("/")[2]
        if kind in taken:
            taken[kind].append(exchange.message)
            if len(taken[kind]) < 3:
                await (exchange.respond(503) if failure == "unavailable" else asyncio.sleep(0))
                if failure == "dropped":
                    exchange.drop()
                return
            await exchange.respond(202)
            if kind == "answer":
                answered.set()
        elif exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            await ask_until(exchange, answered)
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", elicitation_handler=lambda params: {}) as client:
            with anyio.fail_after(30):
                assert (await client.call_tool("t")).text == "done"
    assert [len(taken[kind]) for kind in taken] == [3, 3]
    assert taken["answer"][0] == taken["answer"][2]


async def test_an_answer_is_not_sent_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After four times it is reported as lost."""
    monkeypatch.setattr("ferrule.transports.http.client._DELIVERY_WAIT_S", 0.01)
    answers: list[Any] = []
    lost = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "POST" and "result" in (exchange.message or {}):
            answers.append(exchange.message)
            if len(answers) == 4:
                lost.set()
            exchange.drop()
        elif exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            await ask_until(exchange, lost)
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", elicitation_handler=lambda params: {}) as client:
            with anyio.fail_after(30):
                assert (await client.call_tool("t")).text == "done"
            await until(lambda: "The answer to elicitation/create did not reach the server" in caplog.text)
    assert len(answers) == 4
