"""What one more request costs among many tools and sessions: Python calls, the same for few and for many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule._options import suggestion
from ferrule.wire import codec
from ferrule.wire.codec import Encoded, decode, encode
from ferrule.wire.jsonrpc import encode_response
from tests.kernel.harness import modern
from tests.performance.test_counts import http_request
from tests.profiling import PythonCalls

FEW, MANY = 20, 1500
LEGACY = "2025-11-25"
PLAIN = {b"mcp-protocol-version": b"", b"mcp-method": b""}
"""Headers that a handshake does not have."""


async def calls_of(work: Callable[[], Awaitable[Any]]) -> int:
    """Python calls of a piece of work, after it has been done twice."""
    await work()
    await work()
    with PythonCalls() as calls:
        await work()
    return calls.total()


def with_tools(number: int) -> MCPServer:
    app = MCPServer("many")
    for index in range(number):

        async def tool(a: int = 1) -> str:
            return str(a)

        tool.__name__ = f"tool_{index}"
        app.add_tool(tool)
    return app


async def answered(endpoint: Any, message: dict[str, Any], *, name: str = "", headers: Any = ()) -> list[Any]:
    """What an endpoint sends for one message."""
    scope, receive = http_request(message)
    given = {b"mcp-method": message["method"].encode(), b"mcp-name": name.encode(), **dict(headers)}
    kept = [(key, given.pop(key, value)) for key, value in scope["headers"]]
    scope["headers"] = [*[(key, value) for key, value in kept if value], *given.items()]
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    await endpoint(scope, receive, send)
    return sent


def test_requests_cost_the_same_among_many_tools() -> None:
    """Listing what was listed before, calling, and naming what does not exist."""

    async def count(number: int) -> dict[str, int]:
        endpoint = with_tools(number).asgi(allowed_hosts=["127.0.0.1:*"], allowed_origins=["http://127.0.0.1:8000"])
        name = f"tool_{number // 2}"
        call = modern(1, "tools/call", {"name": name, "arguments": {}})
        wrong = modern(1, "tools/call", {"name": "tool_o", "arguments": {}})
        assert b"did you mean" in (await answered(endpoint, wrong, name="tool_o"))[1]["body"]
        listing = modern(1, "tools/list", {})
        assert len(decode((await answered(endpoint, listing))[1]["body"])["result"]["tools"]) == number
        return {
            "list": await calls_of(lambda: answered(endpoint, listing)),
            "call": await calls_of(lambda: answered(endpoint, call, name=name)),
            "unknown": await calls_of(lambda: answered(endpoint, wrong, name="tool_o")),
        }

    few, many = asyncio.run(count(210)), asyncio.run(count(MANY))
    assert many == few
    assert 10 < many["list"] < 100
    assert 10 < many["call"] < 100
    assert many["unknown"] < 1500


def test_requests_cost_the_same_among_many_sessions() -> None:
    """Opening one more, and calling in one of them."""
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tool_0", "arguments": {}}}

    async def count(number: int) -> dict[str, int]:
        endpoint = with_tools(1).asgi(allowed_hosts=["127.0.0.1:*"], allowed_origins=["http://127.0.0.1:8000"])
        ids: list[bytes] = []

        async def open_one() -> None:
            start, *_ = await answered(
                endpoint, hello, headers={b"mcp-protocol-version": b"", b"mcp-method": b""}.items()
            )
            ids.append(dict(start["headers"])[b"mcp-session-id"])

        async def call_one() -> None:
            session = {
                b"mcp-session-id": ids[number // 2],
                b"mcp-protocol-version": LEGACY.encode(),
                b"mcp-method": b"",
            }
            start, body = await answered(endpoint, call, headers=session.items())
            assert start["status"] == 200, body

        for _ in range(number):
            await open_one()
        return {"open": await calls_of(open_one), "call": await calls_of(call_one)}

    few, many = asyncio.run(count(FEW)), asyncio.run(count(MANY))
    assert min(few.values()) > 10, "the counter does not count"
    assert {name: calls for name, calls in many.items() if calls > few[name] + 2} == {}


def test_ready_made_bytes_are_put_into_an_answer_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were looked through for depth when they were made; a long list is not read again for each answer."""
    body = encode({"tools": [{"name": f"tool_{index}"} for index in range(1000)]})

    def refuse(*arguments: Any) -> bool:
        raise AssertionError("the bytes are looked through once more")

    monkeypatch.setattr(codec, "is_deeper", refuse)
    for id in (1, 'a"b', 2**53, "\ud800"):
        answer = encode_response(id, Encoded(body))
        assert answer == b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id), body)


def test_a_wrong_name_is_compared_in_full_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing takes 50 µs for long names, and who sends wrong names may send many."""
    import difflib

    compared: list[str] = []
    real = difflib.get_close_matches

    def counted(word: str, names: Any, *rest: Any) -> list[str]:
        compared.extend(names)
        return real(word, names, *rest)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    names = [f"do_something_{index}_with_a_long_name" for index in range(199)]
    assert suggestion("read_fiel", [*names[:100], "read_file", *names[100:]]) == "read_file"
    assert len(compared) <= 5
    for wrong, right in (("ad", "add"), ("lst", "list"), ("delte", "delete"), ("serach_web", "search_web")):
        assert suggestion(wrong, [*names, right]) == right
    assert suggestion("entirely", names) is None
