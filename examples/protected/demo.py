"""The whole flow in one program and without a browser: authorization server, protected server and client.

Run it with ``scripts/demo --auth``. Each step shows what went over the wire, and the program checks what it shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from issuer import make_issuer
from server import make_server

from ferrule import Client, MCPError
from ferrule.auth import CallbackInteraction, DemoIssuer, MemoryStorage, OAuth
from ferrule.transports.hosting.uvicorn_server import serve_http
from ferrule.transports.http.aiohttp_backend import AiohttpClient
from ferrule.transports.http.backend import HttpClientOptions, HttpClientRequest

REDIRECT_URI = "http://127.0.0.1:33418/callback"


class Later:
    """An application that is made when its address is known."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        await self.app(scope, receive, send)


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """An application on a free port, until the block ends; gives its origin."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(
        serve_http(app, host="localhost", port=0, on_started=lambda host, port: bound.set_result(port))
    )
    try:
        yield f"http://localhost:{await bound}"
    finally:
        task.cancel()
        await asyncio.wait([task])


class Browser:
    """Replaces the user and their browser: visits the page and returns its response."""

    def __init__(self) -> None:
        self.visits: list[str] = []

    async def visit(self, url: str) -> str:
        """Consent."""
        self.visits.append(url)
        http = AiohttpClient(HttpClientOptions(proxy=None))
        try:
            response = await http.open(HttpClientRequest("GET", url))
            await response.aclose()
            return response.headers["location"]
        finally:
            await http.aclose()


def scope_of(url: str) -> str:
    """The scopes that an authorization request asks for."""
    from urllib.parse import parse_qs, urlsplit

    return parse_qs(urlsplit(url).query)["scope"][0]


def show(title: str, issuer: DemoIssuer, *lines: str) -> None:
    """One step of the demo, with the requests that the authorization server received in it."""
    print(f"\n{title}")
    for line in lines:
        print(f"    {line}")
    for request in issuer.log:
        print(f"    authorization server: {request}")
    issuer.log.clear()


async def walk(url: str, issuer: DemoIssuer) -> None:
    """Every step a client goes through."""
    http = AiohttpClient(HttpClientOptions(proxy=None))
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    refused = await http.open(HttpClientRequest("POST", url, headers, b"{}"))
    show(
        "A request without a token is refused, with the address to sign in", issuer, refused.headers["www-authenticate"]
    )
    assert refused.status == 401
    await refused.aclose()
    await http.aclose()

    browser, storage = Browser(), MemoryStorage()
    auth = OAuth(interaction=CallbackInteraction(REDIRECT_URI, browser.visit), storage=storage)
    async with Client(url, auth=auth) as client:
        tools = [tool.name for tool in await client.list_tools()]
        show("The client finds its way, registers, and its user consents", issuer, f"tools: {', '.join(tools)}")
        assert tools == ["count", "put", "whoami"]
        assert scope_of(browser.visits[0]) == "drawers:read offline_access"

        who = (await client.call_tool("whoami")).text
        show("The server knows who calls", issuer, who)
        assert who.startswith("ada, through client-")

        answer = await client.call_tool("put", {"drawer": "left", "parts": 2})
        asked = scope_of(browser.visits[1])
        show("A tool that needs more makes the client ask for it, and for nothing less than before", issuer, asked)
        assert answer.structured_content == {"result": 5} or answer.structured_content == 5
        assert set(asked.split()) == {"drawers:read", "drawers:write", "offline_access"}

        try:
            await client.call_tool("empty")
        except MCPError as error:
            show("A tool that is for others does not exist", issuer, str(error))
        else:
            raise SystemExit("a tool of the administrator was called by somebody else")

    issuer.settings.access_ttl_s = 1.0
    async with Client(url, auth=OAuth(storage=storage)) as client:
        assert await client.list_tools()
        show("Another client with the same storage needs no sign-in", issuer)
        assert len(browser.visits) == 2

    await expire(storage)
    async with Client(url, auth=OAuth(storage=storage)) as client:
        answers = await asyncio.gather(*(client.call_tool("count", {"drawer": "right"}) for _ in range(50)))
        refreshes = issuer.log.count("POST /token")
        show("The token has expired: fifty calls at once, one refresh", issuer, f"{len(answers)} answers")
        assert refreshes == 1


async def expire(storage: MemoryStorage) -> None:
    """Make the stored token an old one."""
    from dataclasses import replace

    from ferrule.auth.client.tokens import TokenSet

    for key, text in list(storage.entries().items()):
        tokens = TokenSet.from_json(text)
        if tokens is not None:
            await storage.set(key, replace(tokens, expires_at=1.0).to_json())


async def main() -> None:
    """Start both servers and run the steps."""
    if find_spec("joserfc") is None:
        raise SystemExit("What signs tokens is not installed: pip install 'ferrule[auth]'")
    issuer_place, server_place = Later(), Later()
    async with listening(issuer_place) as issuer_url, listening(server_place) as origin:
        issuer = issuer_place.app = make_issuer(issuer_url)
        url = f"{origin}/mcp"
        endpoint = make_server(issuer_url, url).asgi(loopback=True)
        server_place.app = endpoint
        print(f"authorization server {issuer_url}, protected server {url}")
        try:
            await walk(url, issuer)
        finally:
            await endpoint.aclose()
    print("\nNo browser was needed, no token was shown, and every step was checked.")


if __name__ == "__main__":
    asyncio.run(main())
