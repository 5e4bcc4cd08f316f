"""A raw HTTP/1.1 client, and a server on a real socket whose tools the tests can hold."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from ferrule import Context, MCPServer
from ferrule.transports.hosting.uvicorn_server import HttpLimits, serve_http
from tests.transports.asgi.support import LEGACY, legacy_headers, modern, modern_headers, request

LIMITS = HttpLimits(drain_s=3)
SHORT_LIMITS = HttpLimits(head_timeout_s=0.3, body_timeout_s=0.5, write_timeout_s=0.5, drain_s=3)
"""For tests of these limits alone: others fail with them on a busy machine."""


class Steered:
    """A server whose tools the test can hold."""

    def __init__(self) -> None:
        self.app = MCPServer("steered", version="1")
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.drained = asyncio.Event()
        self.log: list[str] = []
        self.slow_calls = 0
        self.blocked: list[str] = []
        self.unblock = threading.Event()

        @self.app.tool
        async def echo(text: str) -> str:
            """Give it back."""
            return text

        @self.app.tool
        async def slow(ctx: Context) -> str:
            """Wait to be released."""
            self.slow_calls += 1
            self.started.set()
            try:
                await self.release.wait()
            finally:
                self.log.append("finally")
            return "slow"

        @self.app.tool
        async def flood(ctx: Context) -> str:
            """Say more than any buffer holds."""
            try:
                for number in range(1000):
                    await ctx.notify(
                        "notifications/message", {"level": "info", "data": "x" * 100_000, "logger": str(number)}
                    )
            finally:
                self.log.append("finally")
            return "flooded"

        @self.app.tool
        def block() -> str:
            """Block a thread until `unblock` is set."""
            self.blocked.append("blocked")
            assert self.unblock.wait(60)
            return "blocked"

    async def begun(self, slow_calls: int) -> None:
        """Wait until so many calls of ``slow`` have begun."""
        async with asyncio.timeout(60):
            while self.slow_calls < slow_calls:
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def serving(self, limits: HttpLimits = LIMITS, **options: Any) -> AsyncIterator[int]:
        """Served on a free port until the block ends."""
        given: dict[str, Any] = {"loopback": True, "disconnect_grace_s": 0.0, **options}
        self.endpoint = endpoint = self.app.asgi(**given)

        async def drain() -> None:
            await endpoint.drain()
            self.drained.set()

        bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(
            serve_http(
                endpoint,
                port=0,
                limits=limits,
                on_drain=drain,
                on_started=lambda host, port: bound.set_result(port),
            )
        )
        try:
            yield await asyncio.wait_for(bound, 30)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


class Client:
    """A raw HTTP/1.1 client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    opened: ClassVar[list[Client]] = []

    @classmethod
    async def connect(cls, port: int) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        cls.opened.append(client)
        return client

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        raw = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).decode()
        first, *lines = raw.strip().split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value.strip() for name, value in pairs}

    async def chunk(self) -> bytes:
        size = int(await asyncio.wait_for(self.reader.readline(), 30), 16)
        data = await asyncio.wait_for(self.reader.readexactly(size + 2), 30)
        return data[:-2]

    async def body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while part := await self.chunk():
                parts.append(part)
            return b"".join(parts)
        return await asyncio.wait_for(self.reader.readexactly(int(headers.get("content-length", 0))), 30)

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        await self.send(data)
        status, headers = await self.head()
        return status, headers, await self.body(headers)

    async def ended(self) -> bytes:
        """What still comes until the server closes."""
        return await asyncio.wait_for(self.reader.read(), 30)

    def abort(self) -> None:
        self.writer.transport.abort()


def http(headers: dict[str, str], body: bytes, verb: str = "POST", path: str = "/mcp") -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if "content-length" not in headers and "transfer-encoding" not in headers:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def post(message: dict[str, Any], path: str = "/mcp") -> bytes:
    return http(modern_headers(message), json.dumps(message).encode(), path=path)


def tool(name: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    return modern(id, "tools/call", {"name": name, "arguments": arguments})


async def assert_alive(port: int) -> None:
    client = await Client.connect(port)
    status, _, body = await client.ask(post(tool("echo", text="alive")))
    assert (status, json.loads(body)["result"]["content"][0]["text"]) == (200, "alive")
    client.writer.close()


async def open_session(port: int) -> str:
    """The legacy handshake over a socket."""
    client = await Client.connect(port)
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = json.dumps(request(0, "initialize", params)).encode()
    status, headers, _ = await client.ask(http(legacy_headers(version=None), body))
    assert status == 200
    session = headers["mcp-session-id"]
    initialized = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    assert (await client.ask(http(legacy_headers(session), initialized)))[0] == 202
    client.writer.close()
    return session
