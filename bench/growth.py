"""How cost grows with tasks, sessions, streams, tools and bytes: growth.py [--store redis://…] [--only WORD] [--quick]

Everything runs in this process, HTTP through the ASGI callable without a socket, stdio over two pipes. What is counted
is CPU time of this process (of the server for stdio), which other programs hardly change, and bytes of the Python heap.
Each row is one quantity at growing sizes: a flat row stays, a linear one grows with the size and no faster.
``tests/stores/test_tasks.py`` and ``tests/performance/test_growth.py`` hold the counts behind the rows.
"""

# ruff: noqa: B023 - what is measured in a turn of a loop is called in that turn

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import secrets
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from measure import LEGACY, MODERN, StdioServer, cpu_s, message, resident_mb, stop

from ferrule import Client, MCPServer
from ferrule.kernel.changes.bus import Event
from ferrule.stores.store import open_store
from ferrule.stores.tasks import StoredTask, TaskStore

PROGRAM = """
import sys
from ferrule import MCPServer
app = MCPServer("growth", max_result_bytes=1 << 30)

@app.tool
async def echo(text: str) -> str:
    return text

app.run("stdio", max_message_bytes=1 << 30)
"""


def row(name: str, unit: str, values: list[float]) -> None:
    """Print one row."""
    shown = [f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value in values]
    print(f"| {name} | {unit} | " + " | ".join(shown) + " |", flush=True)


def head(title: str, sizes: list[int]) -> None:
    """Print the head of a table."""
    print(f"\n| {title} | unit | " + " | ".join(f"{size:,}" for size in sizes) + " |")
    print("|---|---|" + "---:|" * len(sizes), flush=True)


async def timed(call: Callable[[], Awaitable[Any]], times: int = 1) -> float:
    """CPU microseconds of one call, the best of three stretches."""
    found: list[float] = []
    for _ in range(3):
        began = time.process_time()
        for _ in range(times):
            await call()
        found.append((time.process_time() - began) / times * 1e6)
    return min(found)


class Heap:
    """Bytes of the Python heap that something keeps."""

    def __enter__(self) -> Heap:
        gc.collect()
        tracemalloc.start()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *error: object) -> None:
        gc.collect()
        self.grown = tracemalloc.get_traced_memory()[0] - self._before
        tracemalloc.stop()


# --- tasks ----------------------------------------------------------------------------------------------------------


async def tasks(url: str, sizes: list[int]) -> None:
    """Records of one owner in a store."""
    head(f"tasks of one owner, {url.partition(':')[0]}", sizes)
    rows: dict[str, list[float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            shown = f"{url}?prefix=growth-{secrets.token_hex(4)}" if url.startswith("redis") else url
            store = open_store(f"sqlite:///{folder}/tasks.db" if url == "sqlite:" else shown)
            found: TaskStore = store.tasks
            with Heap() as heap:
                for number in range(size):
                    await add(found, f"t{number:06}")
            after, number = f"t{size // 2:06}", size

            async def one_more() -> None:
                nonlocal number
                number += 1
                await add(found, f"t{number:06}")

            kinds: dict[str, Callable[[], Awaitable[Any]]] = {
                "page of 50": lambda: found.page("ann", None, 50),
                "page of 50 in the middle": lambda: found.page("ann", after, 50),
                "claim of nothing": lambda: found.claim(lease_s=500, limit=16),
                "add": one_more,
            }
            for name, call in kinds.items():
                rows.setdefault(name, []).append(await timed(call, 20))
            rows.setdefault("heap of a task", []).append(heap.grown / size)
            await store.aclose()
    for name, values in rows.items():
        if name != "heap of a task" or url == "memory:":
            row(name, "bytes" if name.startswith("heap") else "CPU µs", values)


async def add(store: TaskStore, task_id: str) -> None:
    """One more open record, leased for as long as the run may last."""
    now = time.time()
    task = StoredTask(task_id=task_id, owner="ann", created_at=now, expires_at=now + 600, is_open=True, body=b"x" * 300)
    await store.add(task, lease_s=500, max_tasks=1_000_000, max_per_owner=1_000_000)


# --- HTTP without a socket --------------------------------------------------------------------------------------------


class Exchange:
    """One request to an ASGI application; what it sends is kept."""

    def __init__(self, app: Any, body: bytes, revision: str, session: str | None = None, name: str = "") -> None:
        headers = [
            (b"host", b"127.0.0.1:8000"),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-length", str(len(body)).encode()),
            (b"mcp-protocol-version", revision.encode()),
        ]
        if revision == MODERN:
            headers += [(b"mcp-method", json.loads(body)["method"].encode() if len(body) < 10_000 else b"tools/call")]
            headers += [(b"mcp-name", name.encode())] if name else []
        if session is not None:
            headers.append((b"mcp-session-id", session.encode()))
        self._app, self._body = app, body
        self.scope = {
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
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.received = 0
        self._read = False
        self._gone = asyncio.Event()

    async def __call__(self) -> Exchange:
        """Send it and wait for its end."""
        await self._app(self.scope, self._receive, self._send)
        return self

    def leave(self) -> None:
        """Close the connection."""
        self._gone.set()

    async def _receive(self) -> dict[str, Any]:
        if self._read:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._read = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self.status, self.headers = event["status"], dict(event["headers"])
        else:
            self.received += len(event.get("body", b""))


@asynccontextmanager
async def served(app: MCPServer[Any], **options: Any) -> AsyncGenerator[Any]:
    """The ASGI callable inside its lifespan."""
    endpoint = app.asgi(allowed_hosts=["127.0.0.1:*"], **options)
    started, ending = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, str]:
        if started.is_set():
            await ending.wait()
            return {"type": "lifespan.shutdown"}
        return {"type": "lifespan.startup"}

    async def send(event: Any) -> None:
        started.set()

    lifespan = asyncio.ensure_future(endpoint({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send))
    await started.wait()
    try:
        yield endpoint
    finally:
        ending.set()
        await lifespan


def small() -> MCPServer[Any]:
    """A server with an echo."""
    app: MCPServer[Any] = MCPServer("growth", max_result_bytes=1 << 30)

    @app.tool
    async def echo(text: str) -> str:
        return text

    return app


def echo(text: str, revision: str) -> bytes:
    """A call of it."""
    return message(1, "tools/call", {"name": "echo", "arguments": {"text": text}}, revision)


async def sessions(sizes: list[int]) -> None:
    """Legacy sessions."""
    head("legacy sessions", sizes)
    opened: list[float] = []
    kept: list[float] = []
    called: list[float] = []
    client = {"name": "growth", "version": "1"}
    hello = message(0, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}, LEGACY)
    for size in sizes:
        async with served(small(), max_sessions=size + 100) as endpoint:
            ids: list[str] = []

            async def open_one() -> None:
                answer = await Exchange(endpoint, hello, LEGACY)()
                ids.append(answer.headers[b"mcp-session-id"].decode())

            await open_one()
            with Heap() as heap:
                for _ in range(size):
                    await open_one()
            kept.append(heap.grown / size)
            opened.append(await timed(open_one, 20))
            call = echo("x", LEGACY)

            async def call_one() -> None:
                assert (await Exchange(endpoint, call, LEGACY, ids[len(ids) // 2])()).status == 200

            called.append(await timed(call_one, 50))
    row("open one more", "CPU µs", opened)
    row("a call in one of them", "CPU µs", called)
    row("heap of a session", "bytes", kept)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that keeps a response open and does nothing else: what a stream takes in any case."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
    await receive()


async def heap_of_streams(app: Any, size: int) -> tuple[float, list[Exchange], list[asyncio.Task[Any]]]:
    """Open streams; return the heap that each takes, with the request of this program, and what was opened."""
    open_streams: list[Exchange] = []
    running: list[asyncio.Task[Any]] = []
    with Heap() as heap:
        for number in range(size):
            wanted = {"notifications": {"resourceSubscriptions": [f"data://{number}", "data://all"]}}
            stream = Exchange(app, message(number, "subscriptions/listen", wanted, MODERN), MODERN)
            open_streams.append(stream)
            running.append(asyncio.ensure_future(stream()))
            await asyncio.sleep(0)
        while not all(stream.received for stream in open_streams):
            await asyncio.sleep(0.01)
    return heap.grown / size, open_streams, running


async def streams(sizes: list[int]) -> None:
    """Streams of subscriptions/listen, each with a URI of its own, and one that all of them watch."""
    head("listen streams", sizes)
    to_all: list[float] = []
    to_one: list[float] = []
    kept: list[float] = []
    without: list[float] = []
    for size in sizes:
        app = MCPServer[Any]("growth")

        @app.resource("data://{name}")
        async def read(name: str) -> str:
            return name

        async with served(app) as endpoint:
            grown, open_streams, running = await heap_of_streams(endpoint, size)
            kept.append(grown)

            async def publish(uri: str, streams: list[Exchange]) -> None:
                before = [stream.received for stream in streams]
                app.lowlevel.bus.publish(Event.resource_updated(uri))
                while any(stream.received == was for stream, was in zip(streams, before, strict=True)):
                    await asyncio.sleep(0)

            to_all.append(await timed(lambda: publish("data://all", open_streams), 5) / size)
            to_one.append(await timed(lambda: publish("data://0", open_streams[:1]), 20))
            for stream in open_streams:
                stream.leave()
            await asyncio.wait(running)
        grown, open_streams, running = await heap_of_streams(bare, size)
        without.append(grown)
        for stream in open_streams:
            stream.leave()
        await asyncio.wait(running)
    row("publish to all, for each", "CPU µs", to_all)
    row("publish to one of them", "CPU µs", to_one)
    row("heap of a stream, with its request here", "bytes", kept)
    row("heap of a stream of a bare ASGI application", "bytes", without)


# --- tools ------------------------------------------------------------------------------------------------------------


async def tools(sizes: list[int]) -> None:
    """Tools of one server."""
    head("tools", sizes)
    rows: dict[str, list[float]] = {}
    for size in sizes:
        functions = [made(number) for number in range(size)]
        app = MCPServer[Any]("growth")
        with Heap() as heap:
            for function in functions:
                app.add_tool(function)
        app = MCPServer[Any]("growth")
        began = time.process_time()
        for function in functions:
            app.add_tool(function)
        registered = (time.process_time() - began) / size * 1e6
        listing = message(1, "tools/list", {}, MODERN)
        async with served(app) as endpoint:
            began = time.process_time()
            await Exchange(endpoint, listing, MODERN)()
            first = (time.process_time() - began) / size * 1e6
            name = f"tool_{size // 2}"
            call = message(1, "tools/call", {"name": name, "arguments": {"a": 1}}, MODERN)
            wrong = message(1, "tools/call", {"name": "tool_o", "arguments": {}}, MODERN)
            values = {
                "register, for each": registered,
                "first list, for each": first,
                "second list": await timed(lambda: Exchange(endpoint, listing, MODERN)(), 20),
                "call": await timed(lambda: Exchange(endpoint, call, MODERN, name=name)(), 50),
                "call of an unknown name": await timed(lambda: Exchange(endpoint, wrong, MODERN, name="tool_o")(), 10),
                "heap of a tool": heap.grown / size,
            }
        for title, value in values.items():
            rows.setdefault(title, []).append(value)
    for title, found in rows.items():
        row(title, "bytes" if title.startswith("heap") else "CPU µs", found)


def made(number: int) -> Any:
    """A function to register."""

    async def tool(a: int, b: str = "x") -> str:
        """Do it."""
        return b

    tool.__name__ = f"tool_{number}"
    return tool


# --- bytes ------------------------------------------------------------------------------------------------------------


async def payloads(sizes: list[int]) -> None:
    """An echo of so many bytes, there and back, by transport: what each kilobyte costs."""
    head("bytes echoed", sizes)
    app = small()
    times = [max(1, min(200, 20_000_000 // size)) for size in sizes]
    memory: list[float] = []
    async with Client(app, mode=MODERN) as client:
        for size, count in zip(sizes, times, strict=True):
            text = "x" * size
            memory.append(await timed(lambda text=text: client.call_tool("echo", {"text": text}), count) / size * 1000)
    row("in memory, for each KB", "CPU µs", memory)
    http: list[float] = []
    async with served(app, max_body_bytes=1 << 30) as endpoint:
        for size, count in zip(sizes, times, strict=True):
            call = echo("x" * size, MODERN)
            exchange = await Exchange(endpoint, call, MODERN, name="echo")()
            assert exchange.status == 200, exchange.status
            assert exchange.received > size
            http.append(
                await timed(lambda call=call: Exchange(endpoint, call, MODERN, name="echo")(), count) / size * 1000
            )
    row("HTTP without a socket, for each KB", "CPU µs", http)
    stdio: list[float] = []
    resident: list[float] = []
    for size, count in zip(sizes, times, strict=True):
        server = StdioServer([sys.executable, "-c", PROGRAM], MODERN)
        try:
            call = echo("x" * size, MODERN)
            best: list[float] = []
            server.write(call)
            server.read_line()
            for _ in range(3):
                began = cpu_s(server.process.pid)
                for _ in range(count):
                    await asyncio.to_thread(ask, server, call)
                best.append((cpu_s(server.process.pid) - began) / count)
            stdio.append(min(best) * 1e6 / size * 1000)
            resident.append(resident_mb(server.process.pid))
        finally:
            stop(server.process)
    row("stdio, for each KB", "CPU µs", stdio)
    row("stdio, memory of the server after it", "MB", resident)


def ask(server: StdioServer, call: bytes) -> None:
    """One call that is written while its answer is read."""
    server.write(call)
    server.read_line()


async def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", help="a Redis, for the rows of tasks there")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    many = [100, 1000, 10_000 // part]
    parts: dict[str, Callable[[], Awaitable[None]]] = {
        "tasks in memory": lambda: tasks("memory:", many),
        "tasks in sqlite": lambda: tasks("sqlite:", many),
        "sessions": lambda: sessions(many),
        "streams": lambda: streams([10, 100, 1000 // part]),
        "tools": lambda: tools([100, 1000, 5000 // part]),
        "payloads": lambda: payloads([1000 * 10**power for power in range(6 if part == 1 else 4)]),
    }
    if options.store:
        parts["tasks in redis"] = lambda: tasks(options.store, many)
    for name, run in parts.items():
        if options.only in name:
            await run()


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    asyncio.run(main())
