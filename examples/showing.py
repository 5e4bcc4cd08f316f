"""What `python examples/NAME.py` does: serve as the arguments say, or show the server at work.

This is the frame around the examples and not what they teach; your own server ends with ``app.run("stdio")``.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ferrule import Client, MCPServer, StdioServer
from ferrule.transports.hosting.uvicorn_server import serve_http

START_LIMIT_S = 30.0


def main(app: MCPServer[Any], show: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Serve over ``stdio`` or ``http`` if an argument says so; else call ``show`` with a client of each era.

    Args:
        show: calls the server and prints what it says.
        options: of the clients, such as their handlers.
    """
    description = sys.modules["__main__"].__doc__
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transport", nargs="?", choices=["stdio", "http"], help="serve; without it: show")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    if arguments.transport == "stdio":
        app.run("stdio")
    elif arguments.transport == "http":
        app.run("http", port=arguments.port)
    else:
        asyncio.run(_show(app, show, options))


async def _show(app: MCPServer[Any], show: Callable[[Client], Awaitable[None]], options: dict[str, Any]) -> None:
    """Show the legacy era over stdio, as desktop hosts use it, and the modern era over HTTP."""
    process = StdioServer(sys.executable, [sys.argv[0], "stdio"])
    async with Client(process, mode="legacy", **options) as client:
        print(f"{client.protocol_version} over stdio", flush=True)
        await show(client)
    async with listening(app.asgi(loopback=True)) as origin, Client(f"{origin}/mcp", **options) as client:
        print(f"{client.protocol_version} over HTTP", flush=True)
        await show(client)


@asynccontextmanager
async def listening(endpoint: Any) -> AsyncIterator[str]:
    """An ASGI application on a free port until the block ends; gives its origin."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve_http(endpoint, port=0, on_started=lambda _, port: bound.set_result(port)))
    await asyncio.wait([bound, serving], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield f"http://127.0.0.1:{bound.result() if bound.done() else await serving}"
    finally:
        serving.cancel()
        await asyncio.wait([serving])


@asynccontextmanager
async def process_listening(*command: str) -> AsyncIterator[str]:
    """Start a server as a process with its port as the last argument; yield its origin and end it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, str(port))
    try:
        async with asyncio.timeout(START_LIMIT_S):
            while True:
                if process.returncode is not None:
                    raise SystemExit(f"the server ended with code {process.returncode} before it listened")
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
