"""One HTTP worker under load and under abuse: memory per stream and session, cost of a publish, growth, survival.

    python bench/http_load.py load       streams, sessions, growth
    python bench/http_load.py abuse      hostile clients; the server must be alive and its memory flat after each

Linux only (memory and CPU time come from /proc). The server is a process of its own with short time limits; the clients
are raw sockets in this one.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

SERVER = """
import anyio
from ferrule import Context, MCPServer
from ferrule.transports.hosting.uvicorn_server import HttpLimits

app = MCPServer("load", version="1")

@app.tool
async def echo(text: str) -> str:
    "Give it back."
    return text

@app.tool
async def touch(ctx: Context) -> str:
    "Publish a change."
    await ctx.notify_tools_changed()
    return "ok"

@app.tool
async def flood(ctx: Context) -> str:
    "Say more than any buffer holds."
    for _ in range(1000):
        await ctx.notify("notifications/message", {"level": "info", "data": "x" * 20_000})
    return "flooded"

@app.tool
async def ask(ctx: Context) -> str:
    "Ask the user."
    return (await ctx.elicit("Sure?", bool)).action

@app.tool
async def endless(ctx: Context) -> str:
    "Report progress without a pause of its own."
    for number in range(300_000):
        await ctx.progress(number, 300_000, "x" * 100)
    return "done"

@app.resource("note://{name}")
async def note(name: str) -> str:
    "Something to subscribe to."
    return name

@app.tool
async def slow(seconds: float) -> str:
    "Sleep."
    await anyio.sleep(seconds)
    return "slept"

@app.tool
async def stubborn() -> str:
    "Ignore one cancellation."
    try:
        await anyio.sleep(30)
    except BaseException:
        pass
    return "stubborn"

limits = HttpLimits(head_timeout_s=3, body_timeout_s=3, write_timeout_s=3)
options = {"limits": limits, "session_idle_s": 2.0, "resume_s": 1.0}
app.run("http", port=0, on_started=lambda host, port: print(port, flush=True), **options)
"""


class Server:
    """The process under test."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", SERVER]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def memory_kb(self) -> float:
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024

    def cpu_s(self) -> float:
        total = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e9


class Client:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 16))

    async def head(self) -> tuple[int, dict[str, str]]:
        raw = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)).decode("latin-1")
        first, *lines = raw.strip().split("\r\n")
        return int(first.split()[1]), {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}

    async def chunk(self) -> bytes:
        size = int(await asyncio.wait_for(self.reader.readline(), 60), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def ask(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        self.writer.write(raw)
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while part := await self.chunk():
                parts.append(part)
            return status, headers, b"".join(parts)
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    def abort(self) -> None:
        self.writer.transport.abort()


def http(body: bytes, headers: dict[str, str], verb: str = "POST") -> bytes:
    base = {"host": "localhost", "accept": "application/json, text/event-stream", "content-type": "application/json"}
    lines = [f"{k}: {v}" for k, v in {**base, "content-length": str(len(body)), **headers}.items()]
    return "\r\n".join([f"{verb} /mcp HTTP/1.1", *lines, "", ""]).encode() + body


def modern(id: Any, method: str, params: dict[str, Any], **extra: str) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}).encode()
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method, **extra}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return http(body, headers)


def call(name: str, id: Any = 1, **arguments: Any) -> bytes:
    return modern(id, "tools/call", {"name": name, "arguments": arguments})


def legacy(session: str | None, id: Any, method: str, params: dict[str, Any] | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    if id is not None:
        message["id"] = id
    return http(json.dumps(message).encode(), {} if session is None else {"mcp-session-id": session})


async def open_session(client: Client) -> str:
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
    _, headers, _ = await client.ask(legacy(None, 0, "initialize", params))
    session = headers["mcp-session-id"]
    await client.ask(legacy(session, None, "notifications/initialized"))
    return session


async def many(count: int, make: Callable[[int], Awaitable[Any]], at_once: int = 50) -> list[Any]:
    """``make(0)`` … ``make(count - 1)``, so many at once."""
    gate = asyncio.Semaphore(at_once)

    async def one(number: int) -> Any:
        async with gate:
            return await make(number)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def settled(server: Server) -> float:
    await asyncio.sleep(0.5)
    return server.memory_kb()


# --- load -------------------------------------------------------------------------------------------------------------


async def streams(server: Server, count: int = 1000, publishes: int = 5) -> None:
    client = await Client.connect(server.port)
    await client.ask(call("touch"))
    before = await settled(server)

    async def listen(number: int) -> Client:
        stream = await Client.connect(server.port)
        stream.writer.write(modern(number, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        assert (await stream.head())[0] == 200
        assert b"acknowledged" in await stream.chunk()
        return stream

    opened = await many(count, listen)
    each_kb = (await settled(server) - before) / count
    costs = []
    for _ in range(publishes):
        cpu = server.cpu_s()
        await client.ask(call("touch"))
        for stream in opened:
            assert b"list_changed" in await stream.chunk()
        costs.append((server.cpu_s() - cpu) * 1e6 / count)
    publish_us = sorted(costs)[len(costs) // 2]
    print(f"{count} listen streams: {each_kb:.1f} KB each; one publish {publish_us:.1f} us CPU per stream")
    for stream in opened:
        stream.abort()


async def sessions(server: Server, count: int = 1000) -> None:
    client = await Client.connect(server.port)
    for _ in range(20):
        await open_session(client)
    before = await settled(server)
    ids = [await open_session(client) for _ in range(count)]
    each_kb = (await settled(server) - before) / count
    for session in ids[: count // 2]:
        await client.ask(http(b"", {"mcp-session-id": session}, "DELETE"))
    await asyncio.sleep(3)  # the others reach their idle time
    alive = 0
    for session in ids:
        status, _, _ = await client.ask(legacy(session, 1, "ping"))
        alive += status != 404
    print(f"{count} idle sessions: {each_kb:.1f} KB each; {alive} left after DELETE or idle time")


async def growth(server: Server, warm: int = 20_000, measured: int = 40_000) -> None:
    raw = call("echo", text="hello")

    async def drive(requests: int) -> None:
        clients = [await Client.connect(server.port) for _ in range(8)]

        async def one(client: Client) -> None:
            for _ in range(requests // len(clients)):
                await client.ask(raw)

        await asyncio.gather(*map(one, clients))
        for client in clients:
            client.abort()

    await drive(warm)
    before = await settled(server)
    await drive(measured)
    print(f"growth over {measured} modern requests after {warm}: {await settled(server) - before:.0f} KB")


# --- abuse ------------------------------------------------------------------------------------------------------------


async def survived(server: Server, what: str, abuse: Callable[[], Awaitable[None]]) -> None:
    """Abuse it twice: the first time may make buffers that are kept, the second must not need more."""
    await abuse()
    before = await settled(server)
    began = time.monotonic()
    async with Bystander(server) as bystander:
        await abuse()
    client = await Client.connect(server.port)
    status, _, body = await client.ask(call("echo", text="alive"))
    assert status == 200
    assert b"alive" in body
    client.abort()
    seconds = time.monotonic() - began
    print(
        f"{what}: alive, memory {await settled(server) - before:+.0f} KB, {seconds:.1f} s, "
        f"longest call of another client {bystander.longest_s:.2f} s",
        flush=True,
    )


async def stop_reading(server: Server, count: int) -> None:
    async def one(_: int) -> None:
        client = await Client.connect(server.port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(call("flood"))
        await asyncio.sleep(6)
        client.abort()

    await many(count, one, count)


async def drip(server: Server, count: int) -> None:
    raw = call("echo", text="x" * 100)

    async def one(_: int) -> None:
        client = await Client.connect(server.port)
        try:
            for byte in raw[:6]:
                client.writer.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(1)
        except ConnectionError:
            pass
        client.abort()

    await many(count, one, count)


async def vanish(server: Server, count: int) -> None:
    raw = call("slow", seconds=5)

    async def one(number: int) -> None:
        client = await Client.connect(server.port)
        client.writer.write(raw if number % 2 else raw[:-10])
        await client.writer.drain()
        await asyncio.sleep(0.3)
        client.abort()

    await many(count, one, count)


async def dropped_sessions(server: Server, count: int) -> None:
    async def one(_: int) -> None:
        client = await Client.connect(server.port)
        await open_session(client)
        client.abort()

    await many(count, one, 20)
    await asyncio.sleep(3)


async def reused_ids(server: Server, count: int) -> None:
    client = await Client.connect(server.port)
    session = await open_session(client)
    slow = {"name": "slow", "arguments": {"seconds": 1}}

    async def one(_: int) -> int:
        mine = await Client.connect(server.port)
        answer = await mine.ask(legacy(session, 1, "tools/call", slow))
        mine.abort()
        return answer[0]

    statuses = await many(count, one, count)
    assert (statuses.count(200), statuses.count(409)) == (1, count - 1)


async def cancels(server: Server, count: int) -> None:
    client = await Client.connect(server.port)
    session = await open_session(client)

    async def start(number: int) -> None:
        mine = await Client.connect(server.port)
        name = "stubborn" if number % 10 == 0 else "slow"
        arguments = {} if name == "stubborn" else {"seconds": 30}
        status, _, body = await mine.ask(legacy(session, number, "tools/call", {"name": name, "arguments": arguments}))
        assert (status, body) == (200, b"")
        mine.abort()

    running = asyncio.gather(*(start(number) for number in range(count)))
    await asyncio.sleep(1)

    async def cancel(number: int) -> None:
        mine = await Client.connect(server.port)
        status, _, _ = await mine.ask(legacy(session, None, "notifications/cancelled", {"requestId": number}))
        assert status == 202
        mine.abort()

    await many(count, cancel, count)
    await running


async def huge_bodies(server: Server, count: int) -> None:
    async def one(_: int) -> None:
        client = await Client.connect(server.port)
        client.writer.write(http(b"x" * 1000, {"content-length": "1000000000"}))
        assert (await client.head())[0] == 413
        client.abort()

    await many(count, one)


async def odd_framing(server: Server, count: int) -> None:
    async def one(number: int) -> None:
        client = await Client.connect(server.port)
        raw = call("echo", id=1, text="a") + call("echo", id=2, text="b")
        step = 1 + number % 50
        for at in range(0, len(raw), step):
            client.writer.write(raw[at : at + step])
            await client.writer.drain()
        for _ in range(2):
            _, headers = await client.head()
            await client.reader.readexactly(int(headers["content-length"]))
        client.abort()

    await many(count, one)


async def idle(server: Server, count: int) -> None:
    """Connections that say nothing, and a tenth that say a byte now and then."""
    opened = await many(count, lambda _: Client.connect(server.port))
    await drip(server, max(1, count // 10))
    for client in opened:
        client.abort()


async def huge_subscriptions(server: Server, count: int) -> None:
    """The most that one stream is granted, on each of many until the server is full, and too much for one."""

    async def one(number: int) -> tuple[Client, int]:
        client = await Client.connect(server.port)
        uris = [f"note://{number}-{index}".ljust(100, "x") for index in range(10_000)]
        client.writer.write(modern(number, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}))
        status, _ = await client.head()
        assert status in (200, 503), status
        return client, status

    async def too_much(number: int) -> None:
        client = await Client.connect(server.port)
        uris = [f"note://{index}" for index in range(200_000)]
        status, _, _ = await client.ask(
            modern(number, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
        )
        assert status == 400, status
        client.abort()

    opened = await many(count, one, 4)
    assert sum(status == 200 for _, status in opened) == min(count, 10)
    await many(max(1, count // 10), too_much, 1)
    for client, _ in opened:
        client.abort()
    await asyncio.sleep(1)


async def vanished_askers(server: Server, count: int) -> None:
    """Legacy clients that go away while they are asked."""

    async def one(number: int) -> None:
        client = await Client.connect(server.port)
        params = {
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "load", "version": "1"},
        }
        _, headers, _ = await client.ask(legacy(None, 0, "initialize", params))
        session = headers["mcp-session-id"]
        await client.ask(legacy(session, None, "notifications/initialized"))
        client.writer.write(legacy(session, 1, "tools/call", {"name": "ask", "arguments": {}}))
        await client.head()
        await client.chunk()
        client.abort()

    await many(count, one, 20)
    await asyncio.sleep(5)


async def endless_progress(server: Server, count: int) -> None:
    """Calls that never stop talking: to clients that read, that do not, and that go."""

    def progress_of(number: int) -> bytes:
        params = {"name": "endless", "arguments": {}, "_meta": {**META, "progressToken": 1}}
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
        return http(body, {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "endless"})

    async def one(number: int) -> None:
        client = await Client.connect(server.port)
        client.writer.write(progress_of(number))
        if number % 3 == 0:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        elif number % 3 == 1:
            until = time.monotonic() + 4
            while time.monotonic() < until:
                await client.reader.read(1 << 16)
        await asyncio.sleep(1)
        client.abort()

    await many(count, one, count)


async def unread_streams(server: Server, count: int) -> None:
    """GET streams and calls whose clients do not read."""

    async def one(number: int) -> None:
        client = await Client.connect(server.port)
        session = await open_session(client)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        if number % 2:
            client.writer.write(http(b"", {"mcp-session-id": session, "accept": "text/event-stream"}, "GET"))
        else:
            client.writer.write(legacy(session, 1, "tools/call", {"name": "flood", "arguments": {}}))
        await asyncio.sleep(5)
        client.abort()

    await many(count, one, count)
    await asyncio.sleep(3)


class Bystander:
    """A client that behaves, while others do not: how long its calls take at most."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None
        self.longest_s = 0.0

    async def __aenter__(self) -> Bystander:
        self._task = asyncio.create_task(self._call())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _call(self) -> None:
        client = await Client.connect(self._server.port)
        while True:
            began = time.monotonic()
            status, _, _ = await client.ask(call("echo", text="mine"))
            assert status == 200
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            await asyncio.sleep(0.05)


async def ended_amid(server: Server) -> float:
    """Seconds from SIGTERM to the end, with idle, unread and talking connections and a call of a minute open."""
    opened = [await Client.connect(server.port) for _ in range(50)]
    for number, client in enumerate(opened):
        session = await open_session(client) if number % 5 in (0, 1) else None
        if number % 5 == 0:
            client.writer.write(http(b"", {"mcp-session-id": str(session), "accept": "text/event-stream"}, "GET"))
        elif number % 5 == 1:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(legacy(session, 1, "tools/call", {"name": "flood", "arguments": {}}))
        elif number % 5 == 2:
            client.writer.write(call("endless"))
        elif number % 5 == 3:
            client.writer.write(call("slow", seconds=60))
    await asyncio.sleep(1)
    began = time.monotonic()
    server.process.terminate()
    await asyncio.to_thread(server.process.wait, 60)
    for client in opened:
        client.abort()
    return time.monotonic() - began


async def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=["load", "abuse"])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full numbers, such as 0.1")
    parser.add_argument("--only", default="", help="abuses whose description holds this text")
    arguments = parser.parse_args()

    def scaled(count: int) -> int:
        return max(1, int(count * arguments.scale))

    if arguments.part == "load":
        for measure, count in ((streams, 1000), (sessions, 1000)):
            server = Server()
            await measure(server, scaled(count))
            server.close()
        server = Server()
        await growth(server, scaled(100_000), scaled(200_000))
        server.close()
        return
    server = Server()
    await vanish(server, scaled(200))  # warm, so that what the first abuse needs for itself is not counted as a leak
    abuses: list[tuple[str, Callable[[Server, int], Awaitable[None]], int]] = [
        ("clients that stop reading", stop_reading, 500),
        ("clients that send a byte per second", drip, 500),
        ("clients that vanish in mid-body and in mid-answer", vanish, 400),
        ("sessions opened and dropped", dropped_sessions, 10_000),
        ("requests with one id in flight", reused_ids, 100),
        ("cancellations at once, some ignored by their handler", cancels, 100),
        ("bodies that declare a gigabyte", huge_bodies, 100),
        ("pipelined and split requests", odd_framing, 200),
        ("idle connections, a tenth slow", idle, 1000),
        ("huge subscriptions", huge_subscriptions, 40),
        ("clients that vanish while they are asked", vanished_askers, 3000),
        ("calls of endless progress", endless_progress, 30),
        ("streams and calls that are not read", unread_streams, 200),
    ]
    for what, abuse, count in abuses:
        if arguments.only in what:
            await survived(server, f"{scaled(count)} {what}", functools.partial(abuse, server, scaled(count)))
    print(f"SIGTERM amid 50 connections of five kinds: ended after {await ended_amid(server):.1f} s", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
