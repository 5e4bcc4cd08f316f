"""The WebSocket transport of docs/how-to/write-a-transport.md: both sides over a real socket."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn

from ferrule import Client, Context, MCPError, MCPServer, Server
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.errors import ConnectionClosed
from tests.modules import load_file

websockets = pytest.importorskip("websockets")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "websocket"

RESOURCE = "http://127.0.0.1/mcp"

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """`websockets` and uvicorn run on asyncio."""
    return "asyncio"


def load(name: str) -> Any:
    """Return a module of the example."""
    return load_file(FOLDER / f"{name}.py", f"example_websocket_{name}")


connect = load("client").connect
WebSocketEndpoint = load("server").WebSocketEndpoint


@asynccontextmanager
async def serving(server: MCPServer[Any] | Server[Any], **options: Any) -> AsyncGenerator[str]:
    """Serve over WebSocket on a free port of loopback; yield the URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    endpoint = WebSocketEndpoint(server, **options)
    config = uvicorn.Config(endpoint, log_level="warning", ws_max_size=100_000, timeout_graceful_shutdown=2)
    host = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.serve, [listening])
        while not host.started:
            await anyio.sleep(0.005)
        try:
            yield f"ws://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            host.should_exit = True


def make_app(**options: Any) -> MCPServer[Any]:
    """Return a server with tools that add, report progress, ask a question, and wait."""
    app = MCPServer("over-websocket", **options)

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def count(ctx: Context) -> str:
        for step in range(3):
            await ctx.progress(step + 1, 3)
        return ctx.transport.kind

    @app.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Who?", str)).data)

    @app.tool
    async def change(ctx: Context) -> None:
        await ctx.notify_tools_changed()

    @app.tool
    async def sender(ctx: Context) -> str:
        address = ctx.transport.client
        return f"{address and address[0]} {ctx.transport.is_network} {ctx.headers.get('x-test')}"

    return app


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_both_eras_work_over_it(mode: str) -> None:
    """Calls, progress and facts of the transport; the kernel does the rest."""
    steps: list[float] = []
    async with (
        serving(make_app()) as url,
        connect(url, headers={"x-test": "yes"}) as connection,
        Client(connection, mode=mode) as client,
    ):
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        counted = await client.call_tool("count", on_progress=lambda done, *_: steps.append(done))
        assert counted.text == "websocket"
        assert (await client.call_tool("sender")).text == "127.0.0.1 True yes"
    assert steps == [1, 2, 3]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_server_asks_over_it(mode: str) -> None:
    """In the legacy era a request the other way, in the modern one a result that is answered by another call."""

    async def answer(*_: Any) -> dict[str, Any]:
        return {"value": "Ada"}

    async with (
        serving(make_app()) as url,
        connect(url) as connection,
        Client(connection, mode=mode, elicitation_handler=answer) as client,
    ):
        assert (await client.call_tool("ask")).text == "Ada"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_changes_reach_the_client(mode: str) -> None:
    """The kernel forwards what the server publishes; the transport only carries it."""
    async with (
        serving(make_app()) as url,
        connect(url) as connection,
        Client(connection, mode=mode) as client,
        client.listen(tools=True) as changes,
    ):
        await client.call_tool("change")
        with anyio.fail_after(30):
            async for _ in changes:
                break


async def test_only_its_own_web_pages_may_connect() -> None:
    """A browser lets any page open a WebSocket to any host, with the page's ``Origin``."""
    async with serving(make_app(), allowed_origins=["https://ours.example"]) as url:
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            async with connect(url, headers={"origin": "https://evil.example"}):
                pass
        assert refused.value.response.status_code == 403
        async with connect(url, headers={"origin": "https://ours.example"}) as connection, Client(connection) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


async def test_a_protected_server_is_protected_here_too() -> None:
    """The server has the protection; its components get the principal."""
    auth = ResourceServer(StaticTokens({"t0ken": {"subject": "ada", "scopes": ["add"]}}), resource=RESOURCE)
    app = MCPServer("protected", auth=auth)

    @app.tool(scopes="add")
    async def who(ctx: Context) -> str:
        return str(ctx.principal.subject)

    @app.tool(scopes="admin")
    async def reset() -> None:
        raise AssertionError

    async with serving(app) as url:
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            async with connect(url):
                pass
        assert refused.value.response.status_code == 401
        assert "resource_metadata=" in refused.value.response.headers["www-authenticate"]
        async with connect(url, headers={"authorization": "Bearer t0ken"}) as connection, Client(connection) as client:
            assert (await client.call_tool("who")).text == "ada"
            with pytest.raises(MCPError, match="scope"):
                await client.call_tool("reset")


async def test_what_cannot_be_read_is_answered_and_the_next_message_works() -> None:
    """JSON-RPC 2.0, 5.1: -32700 with a null id."""
    async with serving(make_app()) as url, websockets.connect(url, subprotocols=["mcp"]) as raw:
        await raw.send("{")
        assert json.loads(await raw.recv())["error"]["code"] == -32700
        await raw.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        assert json.loads(await raw.recv()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    """The bound is the ASGI server's (`ws_max_size`); the call learns that there is no answer."""
    async with serving(make_app()) as url, connect(url) as connection, Client(connection, mode="legacy") as client:
        with pytest.raises(ConnectionClosed):
            await client.call_tool("add", {"a": 1, "b": "x" * 200_000})


async def test_a_connection_ends_at_its_age() -> None:
    """The token that opened it may have been withdrawn meanwhile."""
    async with serving(make_app(), max_age_s=0.0) as url, websockets.connect(url) as raw:
        with pytest.raises(websockets.exceptions.ConnectionClosedOK):
            await raw.recv()
