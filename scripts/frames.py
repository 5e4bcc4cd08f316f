"""Count the Python calls of one ``tools/call``, from the bytes of the request to those of the answer.

``scripts/frames.py`` prints one line for each way into a server: stdio and HTTP, in both eras. `figures.py` prints the
same numbers in its table. Each entry into a Python frame counts, the resumption of a coroutine included; the functions
of asyncio and of this script are left out. The fifth call is counted, since the first ones make what is made once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import FrameType
from typing import Any

from ferrule import MCPServer
from ferrule.types import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from ferrule.wire.codec import decode, encode

Exchange = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends one message and returns the answer; ``None`` for a notification."""

CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "frames", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CLIENT = {"capabilities": {}, "clientInfo": {"name": "frames", "version": "1"}}
WARM_UP = 4


def make_app() -> MCPServer:
    """Return a server with one async tool."""
    app = MCPServer("frames", version="1")

    @app.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return app


class Counter:
    """Counts the entries into frames of the package while it is switched on."""

    def __init__(self) -> None:
        self.calls = 0

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/ferrule/" in frame.f_code.co_filename.replace(os.sep, "/"):
            self.calls += 1

    def __enter__(self) -> Counter:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def message(id: int, *, is_modern: bool) -> dict[str, Any]:
    """Return a ``tools/call`` request."""
    params = {**CALL, "_meta": ENVELOPE} if is_modern else CALL
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


@contextlib.asynccontextmanager
async def over_stdio() -> AsyncGenerator[Exchange]:
    """Serve over two pipes as `serve_stdio` does."""
    from ferrule.kernel.runner import serve_dual_era_loop
    from ferrule.transports.stdio.server import stdio_streams

    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()
    loop = asyncio.get_running_loop()
    answers: asyncio.Queue[bytes] = asyncio.Queue()
    loop.add_reader(from_server, lambda: answers.put_nowait(os.read(from_server, 65536)))
    app = make_app()
    reading, writing = stdio_streams(stdin, stdout)

    async def serve() -> None:
        async with app.lowlevel.lifespan() as state:
            await serve_dual_era_loop(app.lowlevel, reading, writing, lifespan_state=state)

    async def exchange(sent: dict[str, Any]) -> Any:
        os.write(to_server, encode(sent) + b"\n")
        if "id" not in sent:
            return None
        return decode(await answers.get())

    task = asyncio.ensure_future(serve())
    try:
        yield exchange
    finally:
        os.close(to_server)
        await task
        loop.remove_reader(from_server)
        os.close(from_server)
        await reading.aclose()
        await writing.aclose()


@contextlib.asynccontextmanager
async def over_http() -> AsyncGenerator[Exchange]:
    """Serve by calling the ASGI application, without a socket."""
    endpoint: Any = make_app().asgi()
    session_id = b""

    async def exchange(sent: dict[str, Any]) -> Any:
        nonlocal session_id
        body = encode(sent)
        is_modern = "_meta" in sent.get("params", {})
        headers = [
            (b"host", b"127.0.0.1:8000"),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-length", str(len(body)).encode()),
        ]
        if is_modern:
            names = ((b"mcp-method", b"tools/call"), (b"mcp-name", b"add"))
            headers += [(b"mcp-protocol-version", LATEST_MODERN_VERSION.encode()), *names]
        elif session_id:
            version = LATEST_HANDSHAKE_VERSION.encode()
            headers += [(b"mcp-protocol-version", version), (b"mcp-session-id", session_id)]
        parts: list[dict[str, Any]] = []
        has_body = False

        async def receive() -> dict[str, Any]:
            nonlocal has_body
            if has_body:
                await asyncio.Event().wait()  # the client stays connected
            has_body = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(part: dict[str, Any]) -> None:
            parts.append(part)

        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": headers}
        await endpoint({**scope, "http_version": "1.1", "client": ("127.0.0.1", 5), "state": {}}, receive, send)
        session_id = dict(parts[0]["headers"]).get(b"mcp-session-id", session_id)
        data = b"".join(part.get("body", b"") for part in parts[1:])
        lines = [line[6:] for line in data.splitlines() if line.startswith(b"data: ")]
        return decode(lines[-1] if lines else data) if data else None

    try:
        yield exchange
    finally:
        await endpoint.aclose()


async def count(ways: Callable[[], contextlib.AbstractAsyncContextManager[Exchange]], *, is_modern: bool) -> int:
    """Return the calls of one ``tools/call``.

    Raises:
        RuntimeError: the answer is not the sum.
    """
    async with ways() as exchange:
        if not is_modern:
            params = {"protocolVersion": LATEST_HANDSHAKE_VERSION, **CLIENT}
            await exchange({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            await exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for id in range(1, WARM_UP + 1):
            await exchange(message(id, is_modern=is_modern))
        counter, sent = Counter(), message(WARM_UP + 1, is_modern=is_modern)
        with counter:
            answer = await exchange(sent)
        if answer["result"]["content"] != [{"type": "text", "text": "3"}]:
            raise RuntimeError(f"the call failed: {answer}")
        return counter.calls


def frames() -> dict[str, int]:
    """Return the calls of one ``tools/call`` by transport and era."""
    return {
        f"{name}, {era}": asyncio.run(count(way, is_modern=era == "modern"))
        for name, way in (("stdio", over_stdio), ("HTTP", over_http))
        for era in ("modern", "legacy")
    }


def main() -> None:
    """See the module."""
    for name, calls in frames().items():
        print(f"{name:16} {calls:4}")


if __name__ == "__main__":
    main()
