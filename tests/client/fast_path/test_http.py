"""The fast path over HTTP: what it takes, and that both paths give and send the same."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import anyio
import pytest

from ferrule import Client
from ferrule.protocol.errors import ConnectionClosed, RequestTimeout
from tests.client.fast_path.odd_server import ERRORS, RESULTS, TEXT
from tests.peers.scripted_http import Exchange, ScriptedServer
from tests.profiling import PythonCalls

pytestmark = pytest.mark.anyio

ERAS = ["modern", "legacy"]
PLAIN = {"plain", "complete", "structured", "null structured", "failed", "wrapped"}
SENT = ("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "content-type", "accept", "user-agent")


class Odd:
    """A server with one kind of answer for each tool name."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.sessions = 0
        self.lost = False

    async def __call__(self, exchange: Exchange) -> None:
        method = exchange.rpc_method
        if exchange.method != "POST":
            await exchange.respond(405)
        elif method == "server/discover" and self.era == "modern":
            await exchange.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        elif method == "initialize":
            self.sessions += 1
            info = {"name": "odd", "version": "1"}
            found = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            await exchange.result(found, {"mcp-session-id": f"session-{self.sessions}"})
        elif method == "tools/list":
            await exchange.result({"tools": [], "resultType": "complete"})
        elif method == "tools/call":
            await self.answer(exchange, exchange.message["params"]["name"])
        elif exchange.id is None:
            await exchange.respond(202)
        else:
            await exchange.error(-32601, status=404)

    async def answer(self, exchange: Exchange, name: str) -> None:
        """Answer one call, or do not."""
        if name in RESULTS:
            await exchange.result(RESULTS[name])
        elif name in ERRORS:
            await exchange.json({"jsonrpc": "2.0", "id": exchange.id, "error": ERRORS[name]}, 400)
        elif name == "stream":
            await exchange.stream()
            await exchange.event_result(TEXT)
            await exchange.end()
        elif name == "progress":
            await exchange.stream()
            token = exchange.message["params"]["_meta"]["progressToken"]
            for step in range(6):
                await asyncio.sleep(0.15)
                params = {"progressToken": token, "progress": step}
                await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await exchange.event_result(TEXT)
            await exchange.end()
        elif name == "broken":
            await exchange.respond(200, b'{"jsonrpc"', {"content-type": "application/json"})
        elif name == "other id":
            await exchange.json({"jsonrpc": "2.0", "id": 999, "result": TEXT})
        elif name == "untyped":
            await exchange.respond(200, b"hello", {"content-type": "text/plain"})
        elif name == "pieces":
            body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}]}}'
            await exchange.respond(200, body % (exchange.id, b"x" * 300_000), {"content-type": "application/json"})
        elif name == "teapot":
            await exchange.respond(418, b"short and stout", {"content-type": "text/plain"})
        elif name == "moved":
            await exchange.respond(307, headers={"location": "/mcp?moved"})
        elif name == "forgotten" and not self.lost:
            self.lost = True
            await exchange.respond(404)
        elif name == "forgotten":
            await exchange.result(TEXT)
        elif name == "cut":
            exchange.drop()
        elif name == "silent":
            await exchange.gone.wait()


ODD = ["stream", "broken", "other id", "untyped", "pieces", "teapot", "forgotten", "cut"]


async def outcome(client: Client, name: str, **options: Any) -> Any:
    """What a call gives, in a form that can be compared."""
    try:
        called = await client.call_tool(name, {"a": [1, "é"], "b": None}, **options)
    except Exception as error:
        names = ("code", "data", "server", "method", "timeout_s", "status", "http_status")
        facts = {key: getattr(error, key, None) for key in names}
        text = re.sub(r"127.0.0.1:\d+", "there", re.sub(r"after [\d.]+ s", "after", str(error)))
        return type(error), text, repr(facts).replace("127.0.0.1", ""), type(error.__cause__)
    return called.result, called.data, repr(called)


@pytest.mark.parametrize("era", ERAS)
async def test_both_paths_give_and_send_the_same(era: str) -> None:
    """Results, errors of JSON-RPC and HTTP, streams, lost sessions, time-outs, and progress that moves a time-out."""
    got: dict[bool, list[Any]] = {}
    sent: dict[bool, list[Any]] = {}
    counts: dict[bool, Any] = {}
    for fast_path in (False, True):
        found = got.setdefault(fast_path, [])
        async with ScriptedServer(Odd(era)) as server:
            async with Client(server.url, fast_path=fast_path, headers={"x-own": "1"}) as client:
                client.known_as = "odd"
                for name in [*RESULTS, *ERRORS, *ODD]:
                    found.append((name, await outcome(client, name)))
                found.append(await outcome(client, "plain", timeout_s=None))
                found.append(await outcome(client, "failed", raise_on_error=True))
                found.append(await outcome(client, "plain", meta={"any": 1}))
                found.append(await outcome(client, "silent", timeout_s=0.2))
                found.append(await outcome(client, "progress", timeout_s=0.6))
                with anyio.move_on_after(0.2):
                    await client.call_tool("silent")
                found.append((await client.call_tool("plain")).text)
                counts[fast_path] = client.call_counts
            sent[fast_path] = [
                (each.method, each.body, {name: each.headers.get(name) for name in SENT}) for each in server.seen
            ]
    for both in zip(got[True], got[False], strict=True):
        assert both[0] == both[1]

    # A cancellation is sent by a task of its own, so that it may come before or after the next call.
    def ordered(seen: list[Any]) -> list[str]:
        return sorted(map(repr, seen))

    assert ordered(sent[True]) == ordered(sent[False])
    assert counts[False].fast == 0
    assert counts[True].fast >= len(PLAIN) + 3
    assert sum((counts[True].fast, counts[True].general)) == counts[False].general


@pytest.mark.parametrize("era", ERAS)
async def test_calls_under_way_end_with_the_client(era: str) -> None:
    """They would wait for ever, since nothing answers them any more."""
    errors: list[Exception] = []

    async def wait(client: Client) -> None:
        try:
            await client.call_tool("silent", timeout_s=None)
        except Exception as error:
            errors.append(error)

    async with ScriptedServer(Odd(era)) as server:
        async with anyio.create_task_group() as group, Client(server.url) as client:
            await client.call_tool("plain")
            for _ in range(3):
                group.start_soon(wait, client)
            await anyio.sleep(0.1)
            assert client.call_counts.general == 0
    assert len(errors) == 3
    assert all(isinstance(error, ConnectionClosed) for error in errors)


async def test_a_call_that_is_given_up_closes_its_connection() -> None:
    """In this era it is how a server learns of a cancellation, after a time-out too."""
    async with ScriptedServer(Odd("modern")) as server, Client(server.url) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("silent", timeout_s=0.1)
        with anyio.move_on_after(0.1):
            await client.call_tool("silent")
        silent = [each for each in server.seen if each.rpc_method == "tools/call"]
        async with asyncio.timeout(30):
            for each in silent:
                await each.gone.wait()
        assert len(silent) == 2
        assert client.call_counts.fast == 1  # the other one ended with an error


async def test_a_cancellation_from_outside_is_not_taken_for_a_time_out() -> None:
    """Both end the same task, and may come in one pass of the loop."""
    async with ScriptedServer(Odd("modern")) as server, Client(server.url) as client:
        task = asyncio.ensure_future(client.call_tool("silent", timeout_s=0.2))
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().call_later(0.15, task.cancel)
        done, _ = await asyncio.wait([task], timeout=30)
        assert done
        assert task.cancelled() or isinstance(task.exception(), RequestTimeout)
        task = asyncio.ensure_future(client.call_tool("silent", timeout_s=100))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_plain_call_is_few_python_calls_of_ours_and_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands above the HTTP library: its own calls are not counted, and it makes a task for each body."""
    loop = asyncio.get_running_loop()
    async with ScriptedServer(Odd("modern")) as server, Client(server.url) as client:
        for _ in range(3):
            await client.call_tool("plain", {"a": 1})
        timers: list[Any] = []
        call_at = loop.call_at
        monkeypatch.setattr(loop, "call_at", lambda *args, **kw: timers.append(args) or call_at(*args, **kw))
        with PythonCalls() as where:
            called = await client.call_tool("plain", {"a": 1})
        assert called.text == "hello"
        assert 10 < where.of("ferrule/") <= 70, where
        assert not [name for name in where if "proxy" in name.lower() and name.startswith("ferrule/")], where
        assert not [name for name in where if "environ" in name.lower()], where
        assert timers == []


async def test_reads_of_sockets_are_small() -> None:
    """asyncio would allocate 256 KiB for each."""
    sizes: set[int] = set()
    made = asyncio.selector_events._SelectorSocketTransport.__init__  # type: ignore[attr-defined]
    transports: list[Any] = []

    def noting(self: Any, *args: Any, **kw: Any) -> None:
        transports.append(self)
        made(self, *args, **kw)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncio.selector_events._SelectorSocketTransport, "__init__", noting)  # type: ignore[attr-defined]
        async with ScriptedServer(Odd("modern")) as server, Client(server.url) as client:
            await client.call_tool("plain")
            sizes = {each.max_size for each in transports if each.get_extra_info("peername")[1] == server.port}
    assert sizes == {64 * 1024}
