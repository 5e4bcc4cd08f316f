"""Counts of the fast path: Python calls, tasks and writes of plain calls.

Every count is compared with that of the general path, so that a counter that does not count is seen.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from ferrule import Client, MCPServer
from ferrule.kernel.fast_path.stream_calls import CALLS_PER_PASS
from ferrule.kernel.gauges import gauges_of
from ferrule.types import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from ferrule.wire.codec import encode
from tests.kernel.harness import initialize, modern, note, request
from tests.pipes import Line, line_to
from tests.profiling import PythonCalls

HAS_EAGER_TASKS = sys.version_info >= (3, 12)

MAX_STDIO_CALLS = 11 if HAS_EAGER_TASKS else 8
"""The promise: one plain call on stdio, from the frame to the pieces of its answer, the tool's function included."""

MAX_WAITING_CALLS = 36
"""The promise: one plain call on stdio whose function waits once; it goes on in the general path."""

MAX_ASGI_CALLS = 12
"""The promise: one plain call in the ASGI callable, checks of HTTP and the tool's function included."""

MAX_STATELESS_CALLS = 17
"""The same in the handshake era, for an endpoint without sessions."""

MAX_MODERN_CALLS_HERE = 28
MAX_LEGACY_CALLS_HERE = 63 if HAS_EAGER_TASKS else 60
"""One plain call in process, of client and server together."""


@dataclass
class Item:
    name: str
    price: float


def make_app(*, fast_path: bool = True) -> MCPServer[Any]:
    app = MCPServer("counted", version="1", fast_path=fast_path)

    @app.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @app.tool
    async def item(title: str) -> Item:
        return Item(title, 1.5)

    @app.tool
    async def waits(a: int, b: int) -> str:
        await asyncio.sleep(0)
        return str(a + b)

    return app


def call(id: int, era: str, name: str = "add", **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {"a": 1, "b": 2}}
    return modern(id, "tools/call", params) if era == "modern" else request(id, "tools/call", params)


async def open_line(line: Line, era: str) -> None:
    if era == "modern":
        await line.tell(modern(-1, "server/discover"))
    else:
        await line.tell(initialize(-1), note("notifications/initialized"))


class CountedTask(asyncio.Task[Any]):
    """Stands in for `asyncio.Task`, however it is made."""

    made = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        CountedTask.made += 1
        super().__init__(*args, **kwargs)


@pytest.fixture(autouse=True)
def counted_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any loop runs, because code that makes tasks may keep the class."""
    monkeypatch.setattr(asyncio, "Task", CountedTask)


class Counted:
    """Python calls and writes while messages are served."""

    def __init__(self) -> None:
        self.calls = PythonCalls()
        self.tasks = 0
        self.writes = 0


async def counted(line: Line, *messages: Any, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Send messages in one read and count what serving them takes in this process."""
    counts = Counted()

    write = os.write
    before = CountedTask.made

    def counted_write(fd: int, data: Any) -> int:
        counts.writes += fd != line._into
        return write(fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", counted_write)
        with counts.calls:
            await line.tell(*messages)
    counts.tasks = CountedTask.made - before
    return counts


def own(calls: PythonCalls) -> int:
    """Calls of the library and of the tools."""
    return sum(count for name, count in calls.items() if name.startswith("ferrule/") or "make_app." in name)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", ["add", "item"])
def test_a_plain_call_on_stdio_is_few_python_calls_and_no_task(
    era: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty-one calls in one read, less one in another: what is left is twenty calls."""
    arguments: dict[str, Any] = {"title": "x"} if name == "item" else {}

    async def test(app: MCPServer[Any]) -> tuple[float, int]:
        async with line_to(app) as line:
            await open_line(line, era)
            await line.tell(*(call(id, era, name, **arguments) for id in range(3)))
            one = await counted(line, call(10, era, name, **arguments), monkeypatch=monkeypatch)
            many = await counted(
                line, *(call(id, era, name, **arguments) for id in range(20, 41)), monkeypatch=monkeypatch
            )
            assert len(line.messages()) == 1 + 3 + 1 + 21
            return (own(many.calls) - own(one.calls)) / 20, many.tasks

    calls, tasks = asyncio.run(test(make_app()))
    assert calls <= MAX_STDIO_CALLS
    assert tasks == (21 if HAS_EAGER_TASKS else 0)  # eager ones, which no pass of the loop has to run
    general_calls, general_tasks = asyncio.run(test(make_app(fast_path=False)))
    assert general_calls > 2 * MAX_STDIO_CALLS
    assert general_tasks == 21


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_that_waits_is_few_python_calls(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty-one calls in one read, less one in another; no `typing.cast`, and no search for the current task."""

    async def test() -> tuple[PythonCalls, PythonCalls]:
        async with line_to(make_app()) as line:
            await open_line(line, era)
            await line.tell(*(call(id, era, "waits") for id in range(3)))
            one = await counted(line, call(10, era, "waits"), monkeypatch=monkeypatch)
            many = await counted(line, *(call(id, era, "waits") for id in range(20, 41)), monkeypatch=monkeypatch)
            assert len(line.messages()) == 1 + 3 + 1 + 21
            return one.calls, many.calls

    one, many = asyncio.run(test())
    assert (own(many) - own(one)) / 20 <= MAX_WAITING_CALLS
    for name in many:
        if name.endswith(("typing.py:cast", "tasks.py:current_task")):
            assert many[name] == one[name], name


@pytest.mark.parametrize(("era", "most"), [("modern", MAX_ASGI_CALLS), ("legacy", MAX_STATELESS_CALLS)])
def test_a_plain_call_in_the_asgi_callable_is_few_python_calls(era: str, most: int) -> None:
    """Without a socket; the server's ``receive`` and ``send`` are not counted."""
    body = encode(call(1, era))
    headers = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_HANDSHAKE_VERSION,
    }
    if era == "modern":
        headers |= {
            "mcp-protocol-version": LATEST_MODERN_VERSION,
            "mcp-method": "tools/call",
            "mcp-name": "add",
        }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5000),
    }

    async def count(app: MCPServer[Any]) -> int:
        endpoint = app.asgi(allowed_hosts=["127.0.0.1:*"], stateless=True)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200

        for _ in range(3):
            await endpoint(scope, receive, send)
        before = CountedTask.made
        with PythonCalls() as calls:
            await endpoint(scope, receive, send)
        assert CountedTask.made == before
        return own(calls)

    assert 5 < asyncio.run(count(make_app())) <= most
    assert asyncio.run(count(make_app(fast_path=False))) > 2 * most


def test_the_answers_of_one_read_leave_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four pipelined calls are one read and one write."""

    async def test() -> None:
        async with line_to(make_app()) as line:
            await open_line(line, "modern")
            counts = await counted(line, *(call(id, "modern") for id in range(64)), monkeypatch=monkeypatch)
            assert len(line.messages()) == 65
            assert counts.writes == 1

    asyncio.run(test())


def test_the_loop_gets_its_turn_between_many_calls() -> None:
    """A chunk with more calls than one pass may serve does not delay other tasks."""

    async def test() -> None:
        app = make_app()
        async with line_to(app) as line:
            await open_line(line, "modern")
            seen: list[int] = []

            def look() -> None:
                seen.append(app.tools.fast_calls)
                if app.tools.fast_calls < 200:
                    asyncio.get_running_loop().call_soon(look)

            asyncio.get_running_loop().call_soon(look)
            await line.tell(*({**call(id, "modern"), "id": id} for id in range(200)))
            assert len(line.messages()) == 201
            steps = [after - before for before, after in itertools.pairwise(seen)]
            assert max(steps) == CALLS_PER_PASS

    asyncio.run(test())


def test_the_share_of_the_fast_path_can_be_read() -> None:
    """So that a change that silently leaves it is seen."""

    async def test() -> None:
        app = make_app()
        async with line_to(app) as line:
            await open_line(line, "legacy")
            for id in range(10):
                await line.tell(call(id, "legacy"))
            await line.tell(request(10, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "more": 1}))
        gauges = gauges_of(app.lowlevel)
        assert (gauges.read("fast_calls"), gauges.read("general_calls")) == (10, 1)

    asyncio.run(test())


@pytest.mark.parametrize(("era", "most"), [("modern", MAX_MODERN_CALLS_HERE), ("legacy", MAX_LEGACY_CALLS_HERE)])
def test_a_plain_call_in_process_is_few_python_calls(era: str, most: int) -> None:
    """Client and server together, from `Client.call_tool` to its result."""

    async def count(*, fast_path: bool) -> tuple[int, int]:
        app = make_app(fast_path=fast_path)
        async with Client(app, mode="auto" if era == "modern" else "legacy", fast_path=fast_path) as client:
            for _ in range(3):
                await client.call_tool("add", {"a": 1, "b": 2})
            before, fast = CountedTask.made, app.tools.fast_calls
            with PythonCalls() as calls:
                await client.call_tool("add", {"a": 1, "b": 2})
            assert app.tools.fast_calls - fast == int(fast_path)
            assert client.call_counts.fast == (4 if fast_path else 0)
            return own(calls), CountedTask.made - before

    calls, tasks = asyncio.run(count(fast_path=True))
    assert 10 < calls <= most
    assert tasks == (1 if HAS_EAGER_TASKS and era == "legacy" else 0)
    general_calls, _ = asyncio.run(count(fast_path=False))
    assert general_calls > 1.6 * calls
