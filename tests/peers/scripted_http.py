"""A small HTTP/1.1 server whose every answer is written by the test: for what no well-behaved server does."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

Handler = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request, and the ways to answer it."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter):
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.writer = writer
        self.gone = asyncio.Event()
        self.streams = False

    @property
    def message(self) -> Any:
        """The body as JSON; ``{}`` without one."""
        return json.loads(self.body) if self.body else {}

    @property
    def rpc_method(self) -> str:
        return self.message.get("method", "")

    @property
    def id(self) -> Any:
        return self.message.get("id")

    async def respond(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        lines = {"content-length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)
        await self.writer.drain()

    async def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        await self.respond(status, json.dumps(value).encode(), {"content-type": "application/json", **(headers or {})})

    async def result(self, value: Any, headers: dict[str, str] | None = None) -> None:
        await self.json({"jsonrpc": "2.0", "id": self.id, "result": value}, headers=headers)

    async def error(self, code: int, data: Any = None, status: int = 200) -> None:
        error = {"code": code, "message": "no", **({} if data is None else {"data": data})}
        await self.json({"jsonrpc": "2.0", "id": self.id, "error": error}, status)

    async def stream(self, headers: dict[str, str] | None = None) -> None:
        """Begin an event stream."""
        self.streams = True
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
        self.writer.write(f"{head}{extra}\r\n".encode())
        await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()

    async def event(self, value: Any, id: str | None = None, retry: int | None = None) -> None:
        head = (f"id: {id}\n" if id is not None else "") + (f"retry: {retry}\n" if retry is not None else "")
        data = value if isinstance(value, str) else json.dumps(value)
        await self.raw(f"{head}data: {data}\n\n".encode())

    async def event_result(self, value: Any, id: str | None = None) -> None:
        await self.event({"jsonrpc": "2.0", "id": self.id, "result": value}, id=id)

    async def end(self) -> None:
        """End the event stream in good order."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        self.streams = False

    def drop(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


class ScriptedServer:
    """``async with ScriptedServer(handler) as server``; ``server.url`` is the endpoint.

    Attributes:
        seen: every request so far.
        open_connections: connections that are open now.
    """

    def __init__(self, handler: Handler, *, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.tls = tls
        self.seen: list[Exchange] = []
        self.open_connections = 0
        self.failures: list[BaseException] = []

    async def __aenter__(self) -> ScriptedServer:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if exc[0] is None and self.failures:
            raise self.failures[0]

    def count(self, method: str, rpc_method: str | None = None) -> int:
        return sum(x.method == method and (rpc_method is None or x.rpc_method == rpc_method) for x in self.seen)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            while True:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, ConnectionError):
                    return
                first, *lines = head.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                exchange = Exchange(method, path, headers, body, writer)
                self.seen.append(exchange)
                watcher = asyncio.ensure_future(self._watch(reader, exchange))
                try:
                    await self.handler(exchange)
                except (ConnectionError, asyncio.CancelledError):
                    raise
                except BaseException as error:
                    self.failures.append(error)
                    raise
                finally:
                    watcher.cancel()
                if exchange.streams or writer.is_closing():
                    return
        except ConnectionError:
            pass
        finally:
            self.open_connections -= 1
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader, exchange: Exchange) -> None:
        """Set ``gone`` when the client closes; what it sends meanwhile stays in the reader."""
        while not (reader.at_eof() or reader.exception() or exchange.writer.is_closing()):
            await asyncio.sleep(0.005)
        exchange.gone.set()
        exchange.writer.transport.abort()


INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "scripted", "version": "1"},
}
META = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
COMPLETE = {"resultType": "complete", "_meta": META}
CACHED = {**COMPLETE, "ttlMs": 0, "cacheScope": "private"}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **CACHED}


async def legacy_basics(exchange: Exchange, session: str | None = "s1") -> bool:
    """Answer what every legacy test needs: the handshake, notifications, DELETE; whether it was that."""
    if exchange.method == "DELETE":
        await exchange.respond(200)
    elif exchange.rpc_method == "server/discover":
        await exchange.error(-32601)
    elif exchange.rpc_method == "initialize":
        headers = {} if session is None else {"mcp-session-id": session}
        await exchange.result(INITIALIZED, headers)
    elif exchange.method == "POST" and exchange.id is None:
        await exchange.respond(202)
    else:
        return False
    return True


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition; half a minute at most."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
