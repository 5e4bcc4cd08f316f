"""Counts instead of clocks: Python calls, tasks and queues of one request.

A count is the same on every machine, so the commit that adds a hop to the fast path fails here and not in a benchmark
somewhere. ``sys.setprofile`` reports each entry into a Python frame as a ``call`` event, the resumption of a
coroutine included. Every test first checks that its counter counts.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import queue
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import anyio
import pytest

from ferrule import Context, MCPServer
from ferrule.kernel.connection import Connection
from ferrule.kernel.runner import ServerRunner, serve_dual_era_loop
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.types import LATEST_MODERN_VERSION, ToolContentBlock, ToolResult
from ferrule.wire.codec import decode, encode
from tests.kernel.harness import ENVELOPE, FakeDispatch, modern, serving

MAX_HTTP_CALLS = 62
"""One modern `tools/call` on the general path (there is middleware), from the ASGI call to the end of the answer."""

MAX_RUNNER_CALLS = 21
"""`ServerRunner.handle_request` with one middleware and a low-level handler."""

MAX_STDIO_CALLS = 60
"""One modern `tools/call` from the decoded message to the typed answer, on a stream pair."""


class Counts:
    """What happened inside `counting`."""

    def __init__(self) -> None:
        self.calls = 0
        self.where: Counter[str] = Counter()
        self.tasks = 0
        self.queues = 0

    def __repr__(self) -> str:
        return f"{self.calls} calls\n" + "\n".join(f"{count:3} {name}" for name, count in self.where.most_common())


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
    monkeypatch.setattr(asyncio.tasks, "Task", CountedTask)


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    """Count Python calls, the test's own ``send`` included, started tasks and made queues."""
    counts = Counts()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in OWN and code.co_filename != contextlib.__file__:
            counts.calls += 1
            counts.where[f"{code.co_filename.rpartition('/src/')[2]}:{code.co_qualname}"] += 1

    def noting(make: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            counts.queues += 1
            return make(*args, **kwargs)

        OWN.add(noted.__code__)
        return noted

    before = CountedTask.made
    with monkeypatch.context() as patched:
        for owner, name in (
            (asyncio, "Queue"),
            (queue, "Queue"),
            (queue, "SimpleQueue"),
            (anyio, "create_memory_object_stream"),
        ):
            patched.setattr(owner, name, noting(getattr(owner, name)))
        sys.setprofile(profile)
        try:
            yield counts
        finally:
            sys.setprofile(None)
            counts.tasks = CountedTask.made - before


OWN = {CountedTask.__init__.__code__, inspect.unwrap(counting).__code__}
"""Frames of the counter itself."""


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def passes(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
    """One middleware that does nothing."""
    return await call_next(ctx)


def example_app() -> MCPServer:
    app = MCPServer("counted", version="1", middleware=[passes])

    @app.tool
    async def add(a: int, b: int, ctx: Context) -> str:
        """Add."""
        return str(a + b)

    return app


CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}


def http_request(message: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], Any]]:
    """An ASGI scope and its ``receive``."""
    body = encode(message)
    headers = [
        (b"host", b"127.0.0.1:8000"),
        (b"origin", b"http://127.0.0.1:8000"),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
        (b"content-length", str(len(body)).encode()),
        (b"mcp-protocol-version", LATEST_MODERN_VERSION.encode()),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", b"add"),
    ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return scope, receive


def test_a_modern_tools_call_over_http_is_few_calls_and_no_task_and_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Security checks on, one middleware, an async function with a Context parameter, without a socket."""

    async def test() -> None:
        endpoint = example_app().asgi(allowed_hosts=["127.0.0.1:*"], allowed_origins=["http://127.0.0.1:8000"])
        scope, receive = http_request(modern(1, "tools/call", CALL))
        for _ in range(3):  # the first calls compile plans and compose the chain
            await answered(endpoint, scope, receive)
        refused = [header if header[0] != b"host" else (b"host", b"evil.example") for header in scope["headers"]]
        assert (await answered(endpoint, {**scope, "headers": refused}, receive))[0]["status"] == 403
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        with counting(monkeypatch) as counts:
            await endpoint(scope, receive, send)
        check(sent)
        assert counts.calls > 5, "the counter does not count"
        assert counts.calls <= MAX_HTTP_CALLS, counts
        assert (counts.tasks, counts.queues) == (0, 0), counts

    async def answered(endpoint: Any, scope: Any, receive: Any) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await endpoint(dict(scope), receive, send)
        return sent

    def check(sent: list[dict[str, Any]]) -> None:
        start, body = sent
        assert start["status"] == 200
        answer = decode(body["body"])
        assert answer["result"]["content"] == [{"type": "text", "text": "3"}]
        assert answer["result"]["resultType"] == "complete"

    run(test())


def low_level() -> Server[Any]:
    server: Server[Any] = Server("counted", middleware=[passes])

    async def call(ctx: ServerRequestContext[Any]) -> ToolResult:
        return ToolResult(content=[ToolContentBlock("text", "3")])

    server.add_request_handler("tools/call", call, trusted=True)
    return server


def test_the_runner_alone_is_a_handful_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every transport pays: context, chain, params, handler, finished result."""

    async def test() -> None:
        server = low_level()
        dctx = FakeDispatch()
        params = {**CALL, "_meta": ENVELOPE}

        async def serve() -> Any:
            connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {}, outbound=dctx)
            return await ServerRunner(server, connection, None).handle_request(dctx, "tools/call", params)

        await serve()
        with counting(monkeypatch) as counts:
            answer = await serve()
        assert answer.content == [ToolContentBlock("text", "3")]
        assert 5 < counts.calls <= MAX_RUNNER_CALLS, counts
        assert (counts.tasks, counts.queues) == (0, 0), counts

    run(test())


@pytest.mark.parametrize("requests", [1, 20])
def test_a_stream_pair_costs_one_task_per_request(monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    """Started plainly: no task group, no queue, no scope."""

    async def test() -> None:
        async with serving(low_level(), serve_dual_era_loop) as peer:
            await peer.result(modern(0, "tools/call", CALL))
            with counting(monkeypatch) as counts:
                peer.send(*(modern(id, "tools/call", CALL) for id in range(1, requests + 1)))
                for _ in range(requests):
                    await peer.receive()
            assert (counts.tasks, counts.queues) == (requests, 0), counts
            ours = Counter({name: count for name, count in counts.where.items() if name.startswith("ferrule/")})
            assert 5 * requests < ours.total() <= MAX_STDIO_CALLS * requests, counts
            assert not [name for name in counts.where if "TaskGroup" in name], counts

    run(test())


def test_the_counters_notice_what_they_forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that cannot fail is a defect: a task, a queue and a call are each seen."""

    async def test() -> None:
        with counting(monkeypatch) as counts:
            await asyncio.get_running_loop().create_task(asyncio.sleep(0))
            asyncio.Queue()
            for stream in anyio.create_memory_object_stream(1):
                stream.close()
            collections.namedtuple("Point", "x y")
        assert counts.tasks == 1
        assert counts.queues == 2
        assert counts.calls > 1

    run(test())
