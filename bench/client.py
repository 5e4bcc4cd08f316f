"""What a plain tool call costs a client, over that of a raw loop: ``python bench/client.py [--rounds N] [--calls N]``.

A stub answers every call with the same result, in a process of its own, so that only the client is measured: CPU of
this process per call, with the fast path (``fast``) and without (``general``), beside a raw loop on asyncio streams
with one prepared request and one decode (``raw``). The candidates take turns; the table has medians.
Compare the ratios of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

VERSION = "2026-07-28"
ARGUMENTS = {"text": "hello world"}
RESULT = {
    "content": [{"type": "text", "text": "hello world"}],
    "structuredContent": {"result": "hello world"},
    "resultType": "complete",
}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}
REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": ARGUMENTS, "_meta": META},
}
Call = Callable[[], Awaitable[Any]]


# --- the stub -------------------------------------------------------------------------------------------------------


def answer(body: bytes) -> bytes:
    """Return the response to a request."""
    message = json.loads(body)
    method, result = message.get("method"), RESULT
    if method == "server/discover":
        result = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, "resultType": "complete"}
    elif method == "tools/list":
        result = {"tools": [], "resultType": "complete"}
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()


def serve_stdio() -> None:
    """Answer lines."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        out.write(answer(line) + b"\n")
        out.flush()


class HttpStub(asyncio.Protocol):
    """Answers POSTs."""

    def connection_made(self, transport: Any) -> None:
        """Take the connection."""
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        """Answer what is complete."""
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            head = self.data[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.data) < end + 4 + size:
                return
            body, self.data = self.data[end + 4 : end + 4 + size], self.data[end + 4 + size :]
            sent = answer(body)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent)
            self.transport.write(head + sent)


async def serve_http(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(HttpStub, "127.0.0.1", port)
    await server.serve_forever()


@dataclass
class Echoed:
    """The result of the server in this process; like that of the stub."""

    result: str


# --- the candidates -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def raw_http(port: int) -> AsyncIterator[Call]:
    """Asyncio streams, one prepared request, one decode."""
    body = json.dumps(REQUEST).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {VERSION}\r\nmcp-method: tools/call\r\n"
        f"mcp-name: echo\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    sent = head.encode() + body

    async def call() -> Any:
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        found = await reader.readuntil(b"\r\n\r\n")
        at = found.index(b"content-length: ") + 16
        read = await reader.readexactly(int(found[at : found.index(b"\r", at)]))
        idle.append((reader, writer))
        return decode(read)

    yield call
    for _, writer in idle:
        writer.close()


@asynccontextmanager
async def raw_stdio() -> AsyncIterator[Call]:
    """Asyncio streams, one prepared request, one decode; one process for each caller."""
    sent = json.dumps(REQUEST).encode() + b"\n"
    idle: list[asyncio.subprocess.Process] = []
    started: list[asyncio.subprocess.Process] = []

    async def call() -> Any:
        if idle:
            process = idle.pop()
        else:
            process = await asyncio.create_subprocess_exec(*STDIO, stdin=-1, stdout=-1)
            started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sent)
        line = await process.stdout.readline()
        idle.append(process)
        return decode(line)

    yield call
    for process in started:
        process.kill()
        await process.wait()


@asynccontextmanager
async def in_process(mode: str, *, fast_path: bool) -> AsyncIterator[Call]:
    """`Client.call_tool` with a server in this process; both on the same path."""
    from ferrule import MCPServer

    app: MCPServer[Any] = MCPServer("echo", fast_path=fast_path)

    @app.tool
    async def echo(text: str) -> Echoed:
        return Echoed(text)

    async with client(app, fast_path=fast_path, mode=mode) as call:
        yield call


@asynccontextmanager
async def client(target: Any, *, fast_path: bool, mode: str = "auto") -> AsyncIterator[Call]:
    """`Client.call_tool`."""
    from ferrule import Client

    async with Client(target, fast_path=fast_path, mode=mode) as connected:

        async def call() -> Any:
            return (await connected.call_tool("echo", ARGUMENTS)).structured_content

        yield call
        assert connected.call_counts.general == 0 or not fast_path


def decode(data: bytes) -> Any:
    """Return the structured result in an answer."""
    import msgspec

    return msgspec.json.decode(data)["result"]["structuredContent"]


async def cost_us(candidate: AbstractAsyncContextManager[Call], callers: int, calls: int) -> float:
    """Return the CPU of this process per call in microseconds."""
    async with candidate as call:

        async def several(times: int) -> None:
            for _ in range(times):
                assert await call() == RESULT["structuredContent"]

        await several(30)
        await asyncio.gather(*(several(3) for _ in range(callers)))
        before = time.process_time()
        await asyncio.gather(*(several(calls // callers) for _ in range(callers)))
        return (time.process_time() - before) / (calls // callers * callers) * 1e6


STDIO = [sys.executable, os.path.abspath(__file__), "--stub", "stdio"]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="What a plain tool call costs a client.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--stub", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stub == "stdio":
        serve_stdio()
        return
    if options.stub:
        asyncio.run(serve_http(int(options.stub)))
        return

    from ferrule import StdioServer

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stub = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--stub", str(port)])
    url, process = f"http://127.0.0.1:{port}/mcp", StdioServer(STDIO[0], STDIO[1:])
    rows: dict[tuple[str, int], dict[str, Callable[[], AbstractAsyncContextManager[Call]]]] = {}
    for callers in (1, 16):
        rows["stdio", callers] = {
            **({"raw": raw_stdio} if callers == 1 else {}),
            "fast": lambda: client(process, fast_path=True),
            "general": lambda: client(process, fast_path=False),
        }
        rows["HTTP", callers] = {
            "raw": lambda: raw_http(port),
            "fast": lambda: client(url, fast_path=True),
            "general": lambda: client(url, fast_path=False),
        }
    for callers in (1, 16):
        rows["in process, server included", callers] = {
            "fast": lambda: in_process("auto", fast_path=True),
            "general": lambda: in_process("auto", fast_path=False),
        }
        rows["in process, handshake era", callers] = {
            "fast": lambda: in_process("legacy", fast_path=True),
            "general": lambda: in_process("legacy", fast_path=False),
        }
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        print("| transport, callers | raw, µs | fast | general |\n|---|---:|---:|---:|")
        for (transport, callers), candidates in rows.items():
            found: dict[str, list[float]] = {name: [] for name in candidates}
            for _ in range(options.rounds):
                for name, make in candidates.items():
                    found[name].append(asyncio.run(cost_us(make(), callers, options.calls)))
            medians = {name: statistics.median(values) for name, values in found.items()}
            base = medians.get("raw")
            cells = [
                f"{medians[name]:.0f}" + (f" ({medians[name] / base:.1f}x)" if base and name != "raw" else "")
                if name in medians
                else "–"
                for name in ("raw", "fast", "general")
            ]
            print(f"| {transport}, {callers} | {' | '.join(cells)} |")
    finally:
        stub.kill()
        stub.wait()


if __name__ == "__main__":
    main()
