"""Legacy HTTP: answers, errors, cancellation and requests of the server."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import ferrule
from ferrule import Client, MCPError
from ferrule.protocol.errors import ConnectionClosed, LocalError, RequestTimeout
from ferrule.transports.http.backend import HttpConnectFailed
from ferrule.transports.http.client import HttpStatusError
from tests.peers.scripted_http import COMPLETE, DISCOVERED, INITIALIZED, Exchange, ScriptedServer, legacy_basics, until

TEXT = {"content": [{"type": "text", "text": "done"}]}

pytestmark = pytest.mark.anyio


async def test_a_cancelled_call_notifies_a_legacy_server() -> None:
    """Time-out and cancellation both send ``notifications/cancelled`` with the request's id."""

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
        calls = server.count("POST", "tools/call")
        task = asyncio.create_task(client.call_tool("slow"))
        await until(lambda: server.count("POST", "tools/call") > calls)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.call_tool("t")).text == "done"
        await until(lambda: len(cancelled()) == 2)
        slow = [x.id for x in server.seen if x.rpc_method == "tools/call" and "slow" in x.body.decode()]
        assert cancelled() == slow


async def test_initialize_is_never_cancelled() -> None:
    """The specification forbids it; here the handshake after a lost session is given up."""
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


async def test_a_refused_connection_fails_at_once() -> None:
    """The error names the address, not a failed handshake."""
    with pytest.raises(HttpConnectFailed, match=r"127\.0\.0\.1:9"):
        await Client("http://127.0.0.1:9/mcp").connect()


async def test_closing_fails_calls_of_other_tasks() -> None:
    """Waiting tasks get an error at once when another task closes the client."""

    async def handler(exchange: Exchange) -> None:
        if not await legacy_basics(exchange):
            await exchange.gone.wait()

    def of_the_library(task: asyncio.Task[Any]) -> bool:
        code = getattr(task.get_coro(), "cr_code", None)
        return code is not None and Path(code.co_filename).is_relative_to(Path(ferrule.__file__).parent)

    async with ScriptedServer(handler) as server:
        client = await Client(server.url, mode="legacy").connect()
        calls = [asyncio.create_task(client.call_tool("t")) for _ in range(5)]
        await until(lambda: any(map(of_the_library, asyncio.all_tasks())))
        await asyncio.create_task(client.aclose())
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, ConnectionClosed)
        with pytest.raises(ConnectionClosed):
            await client.call_tool("t")
        assert not any(map(of_the_library, asyncio.all_tasks()))


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


async def test_questions_of_a_server_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that floods gets errors, and the call continues."""
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
            await until(lambda: answered)
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


@pytest.mark.parametrize("answer", ["refused", "unknown", "silent", "status", "drop"])
async def test_a_log_level_that_the_server_does_not_take_is_a_warning(
    answer: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers declare ``logging`` and have no ``logging/setLevel``; everything else of them works."""
    monkeypatch.setattr("ferrule.client.parts.PREPARE_TIMEOUT_S", 0.05)

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
