"""Servers on real sockets, an issuer beside them, and requests written by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ferrule import Context, MCPServer
from ferrule.auth import DemoIssuer, IntrospectedTokens, JwtTokens, MemoryProvider, RegisteredClient, ResourceServer
from ferrule.auth.dpop_proof import make_proof
from ferrule.transports.hosting.uvicorn_server import serve_http
from ferrule.transports.http.aiohttp_backend import AiohttpClient
from ferrule.transports.http.backend import HttpClientOptions, HttpClientRequest
from tests.transports.asgi.support import legacy_headers, modern, modern_headers, request

RESOURCE_CLIENT = RegisteredClient("resource-server", "its-secret", grants=(), method="client_secret_basic")


class Relay:
    """An ASGI callable that is made after its port is known."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@asynccontextmanager
async def serving(app: Any, *, on_drain: Any = None) -> AsyncIterator[int]:
    """Served on a free loopback port until the block ends."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(
        serve_http(app, port=0, on_drain=on_drain, on_started=lambda host, port: bound.set_result(port))
    )
    try:
        await asyncio.wait([task, bound], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield bound.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


@dataclass
class Reply:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def challenge(self) -> str:
        return self.headers.get("www-authenticate", "")


@dataclass
class Protected:
    """A protected server and its issuer, both on sockets."""

    url: str
    issuer: DemoIssuer
    app: MCPServer[Any]
    resource_server: ResourceServer
    http: AiohttpClient
    now: list[float] = field(default_factory=list)

    async def send(self, method: str, url: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Reply:
        response = await self.http.open(HttpClientRequest(method, url, headers or {}, body))
        whole = b""
        while piece := await response.receive():
            whole += piece
        await response.aclose()
        return Reply(response.status, dict(response.headers), whole)

    def token(self, audience: str | None = None, **claims: Any) -> str:
        claims.setdefault("client_id", "some-client")
        claims.setdefault("scope", "mcp")
        return self.issuer.mint(audience or self.url, **claims)

    async def call(self, token: str | None, tool: str = "whoami", url: str | None = None, **headers: str) -> Reply:
        """A modern tools/call, by hand."""
        message = modern(1, "tools/call", {"name": tool, "arguments": {}})
        sent = {**modern_headers(message), **headers}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        return await self.send("POST", url or self.url, sent, json.dumps(message).encode())

    async def legacy(self, verb: str, token: str, session_id: str | None, message: Any = None) -> Reply:
        headers = {**legacy_headers(session_id), "authorization": f"Bearer {token}"}
        if verb != "POST":
            del headers["content-type"]
            headers["accept"] = "text/event-stream"
        return await self.send(verb, self.url, headers, b"" if message is None else json.dumps(message).encode())

    async def open_session(self, token: str) -> str:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        reply = await self.legacy("POST", token, None, request(1, "initialize", params))
        assert reply.status == 200, reply.body
        session_id = reply.headers["mcp-session-id"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.legacy("POST", token, session_id, note)).status == 202
        return session_id

    def proof(self, key: Any, token: str, method: str = "POST", url: str | None = None, **options: Any) -> str:
        options.setdefault("now", self.issuer.settings.clock())
        return make_proof(key, method, url or self.url, token=token, **options)


def text_of(reply: Reply) -> str:
    """The text of a tool's result."""
    return str(reply.json["result"]["content"][0]["text"])


def define_tools(app: MCPServer[Any]) -> None:
    """What the tests call."""

    @app.tool
    async def whoami(ctx: Context) -> str:
        """Who calls, and with which token."""
        return f"{ctx.principal.subject} {ctx.principal.token[-8:]} {ctx.headers['authorization'][-8:]}"

    @app.tool(scopes=["files:write"])
    async def write(ctx: Context) -> str:
        """Needs a scope."""
        return "written"

    @app.tool(allow=lambda principal: principal.subject == "root")
    async def shutdown() -> str:
        """Only for root."""
        return "down"

    @app.tool
    async def dynamic(ctx: Context) -> str:
        """A tool whose scope depends on its arguments."""
        ctx.require_scopes("files:read", "files:list")
        return "listed"


@asynccontextmanager
async def protected(
    make: Callable[[str, str], ResourceServer] | None = None, *, introspects: bool = False, **options: Any
) -> AsyncIterator[Protected]:
    """An issuer and a server that takes its tokens.

    Args:
        make: from the issuer's and the server's URL to the protection.
        introspects: judge tokens by introspection.
    """
    issuer_relay, server_relay = Relay(), Relay()
    async with serving(issuer_relay) as issuer_port, serving(server_relay) as server_port:
        issuer_url, url = f"http://127.0.0.1:{issuer_port}", f"http://127.0.0.1:{server_port}/mcp"
        issuer = DemoIssuer(issuer_url, MemoryProvider(clients=(RESOURCE_CLIENT,)))
        issuer_relay.app = issuer
        if make is not None:
            resource_server = make(issuer_url, url)
        elif introspects:
            tokens = IntrospectedTokens(issuer_url, f"{issuer_url}/introspect", "resource-server", "its-secret")
            resource_server = ResourceServer(tokens, resource=url, required_scopes=["mcp"], remember_s=0)
        else:
            resource_server = ResourceServer(JwtTokens(issuer_url), resource=url, required_scopes=["mcp"])
        app: MCPServer[Any] = MCPServer("protected", auth=resource_server)
        define_tools(app)
        endpoint = app.asgi(loopback=True, **options)
        server_relay.app = endpoint
        http = AiohttpClient(HttpClientOptions(proxy=None))
        try:
            yield Protected(url, issuer, app, resource_server, http)
        finally:
            await http.aclose()
            await endpoint.aclose()
