"""Legacy HTTP: sessions that are lost, streams that break, servers that only know POST. Cases 3, 4, 6, 25, 31."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

import ferrule
from ferrule import Client, MCPError
from ferrule.protocol.errors import ConnectionClosed, LocalError, RequestTimeout
from ferrule.transports.http.backend import HttpConnectFailed
from ferrule.transports.http.client import HttpStatusError, retry_after_s, retry_delay_s
from tests.peers.scripted_http import COMPLETE, DISCOVERED, INITIALIZED, Exchange, ScriptedServer, legacy_basics

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
    """Case 25: the GET stream is held open without a byte; calls do not wait for it."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result(TEXT)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        results = await asyncio.wait_for(asyncio.gather(*(client.call_tool("t") for _ in range(50))), 30)
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
        assert (await asyncio.wait_for(client.call_tool("t"), 30)).text == "done"


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
        await asyncio.wait_for(client.call_tool("own"), 30)
        await asyncio.wait_for(client.call_tool("other"), 30)
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

    def of_the_library(task: asyncio.Task[Any]) -> bool:
        code = getattr(task.get_coro(), "cr_code", None)
        return code is not None and Path(code.co_filename).is_relative_to(Path(ferrule.__file__).parent)

    async with ScriptedServer(handler) as server:
        client = await Client(server.url, mode="legacy").connect()
        calls = [asyncio.create_task(client.call_tool("t")) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert any(map(of_the_library, asyncio.all_tasks()))
        await asyncio.create_task(client.aclose())
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, ConnectionClosed)
        with pytest.raises(ConnectionClosed):
            await client.call_tool("t")
        assert not any(map(of_the_library, asyncio.all_tasks()))


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
    """A ping tells a request that the server cannot read from a session that it does not know."""
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
    """Newer servers send the status of the modern era to everybody."""
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


STATUSES = [
    300,
    303,
    400,
    402,
    404,
    405,
    406,
    408,
    409,
    413,
    415,
    418,
    421,
    422,
    425,
    429,
    451,
    500,
    501,
    502,
    503,
    504,
    599,
]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("session", ["s1", None])
async def test_every_status_is_an_error_of_its_call_alone(mode: str, session: str | None) -> None:
    """POST, GET and DELETE, with and without a session: the error has the status, and the next call works."""
    status = 0

    async def handler(exchange: Exchange) -> None:
        if exchange.method in ("GET", "DELETE"):
            await exchange.respond(status or 405)
        elif exchange.rpc_method == "tools/call" and exchange.message["params"]["name"] == "refused":
            await exchange.respond(status, b"the reason")
        elif exchange.rpc_method == "server/discover" and mode != "legacy":
            await exchange.result(DISCOVERED)
        elif exchange.rpc_method == "ping" or not await legacy_basics(exchange, session):
            await exchange.result({**TEXT, **COMPLETE})

    async with ScriptedServer(handler) as server:
        for status in STATUSES:
            async with Client(server.url, mode=mode) as client:
                is_lost = status == 404 and session is not None and mode == "legacy"
                with pytest.raises(ConnectionClosed if is_lost else HttpStatusError) as caught:
                    await client.call_tool("refused")
                if isinstance(caught.value, HttpStatusError):
                    assert caught.value.status == status
                    assert "the reason" in str(caught.value)
                assert client.is_connected
                assert (await client.call_tool("t")).text == "done"


@pytest.mark.parametrize("status", [204, 202, 205])
async def test_a_success_without_an_answer_is_an_error_at_once(status: int) -> None:
    """Nothing will come for this call any more."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif not await legacy_basics(exchange):
            await exchange.respond(status)

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        with pytest.raises(HttpStatusError, match=f"HTTP {status}: no content where an answer was due"):
            await client.call_tool("t")


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


async def test_questions_of_a_server_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that floods gets errors, and the call goes on."""
    monkeypatch.setattr("ferrule.transports.http.client.MAX_SERVED", 2)
    answers: list[Any] = []
    release = asyncio.Event()

    async def wait(params: Any) -> Any:
        await release.wait()
        return {}

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            await exchange.stream()
            for number in range(4):
                ask = {"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": form}
                await exchange.event(ask)
            while len(answers) < 2:
                await asyncio.sleep(0.001)
            release.set()
            while len(answers) < 4:
                await asyncio.sleep(0.001)
            await exchange.event_result(TEXT)
            await exchange.end()
        elif exchange.method == "POST" and "method" not in exchange.message:
            answers.append((exchange.id, "error" in exchange.message))
            await exchange.respond(202)
        else:
            await legacy_basics(exchange)

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", elicitation_handler=wait) as client:
            assert (await client.call_tool("t")).text == "done"
    assert answers[:2] == [("q2", True), ("q3", True)]
    assert sorted(answers[2:]) == [("q0", False), ("q1", False)]


@pytest.mark.parametrize("echo", [str, float, lambda id: f"{id}"])
@pytest.mark.parametrize("how", ["json", "stream", "standing"])
async def test_ids_and_tokens_may_come_back_as_text_or_float(how: str, echo: Any) -> None:
    """Servers written in languages without integers echo ``1`` as ``1.0``, others as ``"1"``."""

    async def handler(exchange: Exchange) -> None:
        nonlocal standing
        if exchange.method == "GET":
            standing = exchange
            await exchange.stream()
            await exchange.gone.wait()
        elif exchange.rpc_method == "tools/call":
            answer = {"jsonrpc": "2.0", "id": echo(exchange.id), "result": TEXT}
            if how == "json":
                await exchange.json(answer)
                return
            token = echo(exchange.message["params"]["_meta"]["progressToken"])
            params = {"progressToken": token, "progress": 1}
            await exchange.stream()
            target: Any = exchange if how == "stream" else standing
            await target.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await target.event(answer)
            await exchange.gone.wait()
        else:
            await legacy_basics(exchange)

    standing: Exchange | None = None
    seen: list[float] = []
    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy", roots=["/"]) as client:
        result = await client.call_tool("t", on_progress=lambda progress, total, message: seen.append(progress))
        assert (result.text, seen) == ("done", [] if how == "json" else [1])


@pytest.mark.parametrize("how", ["json", "stream", "standing"])
async def test_arrays_of_messages_are_taken(how: str) -> None:
    """Revision 2025-03-26 has them, in a body and in an event: a notice, a question, and the answer."""

    async def handler(exchange: Exchange) -> None:
        nonlocal standing
        if exchange.method == "GET":
            standing = exchange
            await exchange.stream()
            await exchange.gone.wait()
        elif exchange.rpc_method == "tools/call":
            batch = [
                {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "heard"}},
                {"jsonrpc": "2.0", "id": 0, "method": "ping"},
                {"jsonrpc": "2.0", "id": exchange.id, "result": TEXT},
            ]
            if how == "json":
                await exchange.json(batch)
                return
            await exchange.stream()
            target: Any = exchange if how == "stream" else standing
            await target.event(batch)
            await exchange.gone.wait()
        elif "result" in exchange.message:
            answered.append(exchange.message)
            await exchange.respond(202)
        else:
            await legacy_basics(exchange)

    standing: Exchange | None = None
    heard: list[Any] = []
    answered: list[Any] = []
    async with ScriptedServer(handler) as server:
        async with Client(
            server.url, mode="legacy", roots=["/"], message_handler=lambda method, params: heard.append(params["data"])
        ) as client:
            assert (await client.call_tool("t")).text == "done"
            while not answered:
                await asyncio.sleep(0.001)
    assert heard == ["heard"]
    assert answered == [{"jsonrpc": "2.0", "id": 0, "result": {}}]


async def test_a_question_with_the_id_0_can_be_withdrawn() -> None:
    """No id is falsy."""
    ended = asyncio.Event()

    async def wait(params: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "tools/call":
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            await exchange.stream()
            await exchange.event({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": form})
            await asyncio.sleep(0.05)
            params = {"requestId": 0}
            await exchange.event({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            await asyncio.wait_for(ended.wait(), 30)
            await exchange.event_result(TEXT)
            await exchange.end()
        else:
            await legacy_basics(exchange)

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", elicitation_handler=wait) as client:
            assert (await client.call_tool("t")).text == "done"


@pytest.mark.parametrize("how", ["json", "stream"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_harmless_forms_of_an_answer_are_taken(mode: str, how: str) -> None:
    """A byte order mark, and both members with one of them null: servers write every member of their type."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "server/discover" and mode != "legacy":
            await exchange.result(DISCOVERED)
        elif exchange.rpc_method == "tools/call":
            is_good = exchange.message["params"]["name"] == "t"
            result = {**TEXT, **COMPLETE} if is_good else None
            error = None if is_good else {"code": -32000.0, "message": "no"}
            answer = {"jsonrpc": "2.0", "id": exchange.id, "result": result, "error": error}
            body = b"\xef\xbb\xbf" + json.dumps(answer).encode()
            if how == "json":
                await exchange.respond(200, body, {"content-type": "application/json"})
            else:
                await exchange.stream()
                await exchange.raw(b"\xef\xbb\xbfdata: " + body + b"\n\n")
                await exchange.end()
        else:
            await legacy_basics(exchange)

    async with ScriptedServer(handler) as server, Client(server.url, mode=mode) as client:
        assert (await client.call_tool("t")).text == "done"
        with pytest.raises(MCPError) as caught:
            await client.call_tool("bad")
        assert (caught.value.code, type(caught.value.code)) == (-32000, int)


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
    """Close does not wait for a server that does not answer; whoever waited learns that the client was closed."""
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


@pytest.mark.parametrize("answer", ["refused", "unknown", "silent", "status", "drop"])
async def test_a_log_level_that_the_server_does_not_take_is_a_warning(
    answer: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers declare ``logging`` and have no ``logging/setLevel``; everything else of them works."""
    monkeypatch.setattr("ferrule.client.core.PREPARE_TIMEOUT_S", 0.05)

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "initialize":
            await exchange.result({**INITIALIZED, "capabilities": {"logging": {}, "tools": {}}})
        elif exchange.rpc_method == "logging/setLevel":
            if answer == "silent":
                await exchange.gone.wait()
            elif answer == "status":
                await exchange.respond(500)
            elif answer == "drop":
                exchange.drop()
            else:
                await exchange.error(-32601 if answer == "unknown" else -32602)
        elif not await legacy_basics(exchange):
            await exchange.result(TEXT)

    with caplog.at_level(logging.WARNING, "ferrule.client"):
        async with ScriptedServer(handler) as server:
            async with Client(server.url, mode="legacy", log_handler=lambda message: None) as client:
                assert (await client.call_tool("t")).text == "done"
    assert caplog.text.count("did not take logging/setLevel") == 1


async def test_the_callers_meta_in_params_is_kept() -> None:
    """`Client.request` takes params as they are, ``_meta`` included; ``meta=`` wins over it."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif exchange.rpc_method == "server/discover" and is_modern:
            await exchange.result(DISCOVERED)
        elif exchange.rpc_method == "x/y":
            await exchange.result({**COMPLETE, "got": exchange.message["params"]})
        else:
            await legacy_basics(exchange)

    for is_modern in (True, False):
        mode = "2026-07-28" if is_modern else "legacy"
        async with ScriptedServer(handler) as server, Client(server.url, mode=mode) as client:
            params = {"a": 1, "_meta": {"trace": "t", "both": "params"}}
            got = (await client.request("x/y", params, meta={"both": "meta"}))["got"]
            assert {key: got["_meta"][key] for key in ("trace", "both")} == {"trace": "t", "both": "meta"}
            assert ("io.modelcontextprotocol/protocolVersion" in got["_meta"]) is is_modern
            got = (await client.request("x/y", params, on_progress=lambda *_: None))["got"]
            assert (got["a"], got["_meta"]["trace"], "progressToken" in got["_meta"]) == (1, "t", True)
            assert params == {"a": 1, "_meta": {"trace": "t", "both": "params"}}
            got = (await client.request("x/y", {"_meta": None}))["got"]
            assert set(got["_meta"]) <= {"progressToken"} or is_modern


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_its_event_loop_left_behind_opens_again(mode: str) -> None:
    """Used in one ``asyncio.run`` and once more in another: what was open belongs to a loop that is gone."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.stream()
            await exchange.gone.wait()
        elif exchange.rpc_method == "server/discover" and mode != "legacy":
            await exchange.result(DISCOVERED)
        elif not await legacy_basics(exchange):
            await exchange.result({**TEXT, **COMPLETE})

    async with ScriptedServer(handler) as server:
        client = Client(server.url, mode=mode, timeout_s=20)

        async def connect_and_call() -> str:
            await client.connect()
            return await call()

        async def call() -> str:
            results = await asyncio.gather(*(client.call_tool("t") for _ in range(3)))
            return results[0].text

        async def within() -> str:
            async with client:
                return await call()

        runs: list[Any] = [connect_and_call, call, connect_and_call, within, within, connect_and_call]
        for run in runs:
            assert await asyncio.to_thread(asyncio.run, run()) == "done"
        assert not client.is_connected
        await asyncio.to_thread(asyncio.run, client.aclose())
    if mode == "legacy":
        assert server.count("DELETE") == server.count("POST", "initialize") == len(runs)


@pytest.mark.parametrize(
    ("attempt", "hint_ms", "expected"),
    [
        (0, None, 0.5),
        (3, None, 4.0),
        (20, None, 30.0),
        (5, 70, 0.07),
        (0, 0, 0.05),
        (0, 10**15, 3600.0),
        (9**9, None, 30.0),
    ],
)
def test_retry_delay(attempt: int, hint_ms: int | None, expected: float) -> None:
    """The server's hint wins within its bounds; otherwise the pause doubles up to a bound."""
    assert retry_delay_s(attempt, hint_ms=hint_ms) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3.0),
        (" 3 ", 3.0),
        ("0", 0.0),
        ("9" * 400, 60.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", 60.0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after(value: str, expected: float) -> None:
    """Seconds or a date; a server cannot make a client wait for ever."""
    assert retry_after_s({"retry-after": value}) == expected
    assert retry_after_s({}) == 0.0
