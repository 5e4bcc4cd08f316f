"""A gateway made of a configuration file, on a socket, in front of servers on sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ferrule import Client, Context, MCPServer
from ferrule.cli.gateway.application import GatewayApplication
from tests.auth.support import Relay, serving


def docs_server() -> MCPServer[Any]:
    """Three tools, a prompt and a resource."""
    app: MCPServer[Any] = MCPServer("docs", instructions="Read before you write.")

    @app.tool
    async def search(query: str) -> str:
        """Finds pages."""
        return f"found {query}"

    @app.tool
    async def write(page: str) -> str:
        """Writes a page."""
        return f"wrote {page}"

    @app.tool
    async def header(ctx: Context, name: str) -> str:
        """A header of the request."""
        return ctx.headers.get(name, "none")

    @app.prompt
    def summary() -> str:
        """Sums up."""
        return "Sum up."

    @app.resource("docs://start")
    def start() -> str:
        """The first page."""
        return "start"

    return app


@asynccontextmanager
async def served(*apps: MCPServer[Any]) -> AsyncIterator[list[str]]:
    """Return the URLs of servers on sockets of their own."""
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:
        urls: list[str] = []
        for app in apps:
            endpoint = app.asgi(loopback=True)
            stack.push_async_callback(endpoint.aclose)
            urls.append(f"http://127.0.0.1:{await stack.enter_async_context(serving(endpoint))}/mcp")
        yield urls


def write_file(path: Path, servers: dict[str, Any], **gateway: Any) -> Path:
    """Write a configuration as a whole, so that no reader sees half of it."""
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps({"mcpServers": servers, **({"gateway": gateway} if gateway else {})}))
    scratch.replace(path)
    return path


class Running:
    """A running gateway.

    Attributes:
        app: the application.
        url: its endpoint.
    """

    def __init__(self, app: GatewayApplication, url: str) -> None:
        self.app, self.url = app, url

    def client(self, view: str = "", **options: Any) -> Client:
        """A client of the gateway, or of one of its views."""
        return Client(f"{self.url}/{view}".rstrip("/"), **options)


@asynccontextmanager
async def running(path: Path, **options: Any) -> AsyncIterator[Running]:
    """Return the gateway of a configuration file."""
    options = {"open_s": 60.0, "moment_s": 60.0, **options}  # on a busy machine the servers are slow, not away
    relay = Relay()
    async with serving(relay) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        app = GatewayApplication(str(path), http=True, base_url=url, **options)
        endpoint = relay.app = app.asgi(loopback=True)
        try:
            yield Running(app, url)
        finally:
            await endpoint.aclose()


async def names(client: Client) -> list[str]:
    """The names of the tools that a client sees."""
    return sorted(tool.name for tool in await client.list_tools())
