"""One session before has one session behind, over every transport: lists, calls, changes and logs are of one piece."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from ferrule import Client, Context, Header, MCPError, MCPServer, Server, StdioServer
from ferrule.client.gateway.proxy import proxy
from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.hosting.uvicorn_server import serve_http
from tests.client.session_program import make_server

pytestmark = pytest.mark.anyio

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = [MODERN, LEGACY]


@asynccontextmanager
async def http(server: Server[Any]) -> AsyncIterator[str]:
    """The URL of a server on a free port."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    endpoint = HttpEndpoint(server, HttpOptions(loopback=True))
    serving = asyncio.ensure_future(
        serve_http(endpoint, port=0, on_drain=endpoint.drain, on_started=lambda host, port: bound.set_result(port))
    )
    try:
        yield f"http://127.0.0.1:{await asyncio.wait_for(bound, 30)}/mcp"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def behind(carrier: str, tmp_path: Path, *eras: str) -> AsyncIterator[Any]:
    """A target whose sessions differ."""
    if carrier == "stdio":
        program = str(Path(__file__).parents[1] / "session_program.py")
        env = {"PYTHONPATH": str(Path(__file__).parents[3])}
        yield StdioServer(sys.executable, (program, str(tmp_path / "starts"), *eras), env=env)
    else:
        async with http(make_server(eras)) as url:
            yield url


@asynccontextmanager
async def before(carrier: str, server: Server[Any]) -> AsyncIterator[Any]:
    """A target that is the proxy."""
    if carrier == "memory":
        yield server
    else:
        async with http(server) as url:
            yield url


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("front", ["memory", "http"])
@pytest.mark.parametrize("carrier", ["stdio", "http"])
async def test_calls_lists_and_subscriptions_share_one_session(
    carrier: str, front: str, era: str, tmp_path: Path
) -> None:
    """A list has the tool that a call has added, and the update of a resource reaches its subscriber."""
    async with behind(carrier, tmp_path) as target, before(front, proxy(target, mode="legacy")) as reached:
        async with Client(reached, mode=era, cache=False, elicitation_handler=lambda asked: None) as client:
            assert len(await client.list_tools()) == 3
            async with client.listen(tools=True, uris=["note://1"]) as changes:
                with anyio.fail_after(30):
                    await client.call_tool("grow")
                    assert (await anext(changes)).kind == "tools"
                    assert len(await client.list_tools()) == 4
                    await client.call_tool("touch")
                    event = await anext(changes)
                    while event.kind == "tools":
                        event = await anext(changes)
                    assert (event.kind, event.uri) == ("resource", "note://1")
            pids = {(await client.call_tool("ask")).text for _ in range(3)}
            assert len(pids) == 1
        if carrier == "stdio":
            starts = (tmp_path / "starts").read_text().split()
            assert len(starts) == 2  # the first learned what the server is, and ended before the other began
            assert pids == {starts[1]}


@pytest.mark.parametrize("carrier", ["stdio", "http"])
async def test_legacy_clients_do_not_share_a_session(carrier: str, tmp_path: Path) -> None:
    """What one has grown the other does not see."""
    async with behind(carrier, tmp_path) as target, before("http", proxy(target, mode="legacy")) as reached:
        async with Client(reached, mode=LEGACY) as one, Client(reached, mode=LEGACY) as other:
            await one.call_tool("grow")
            assert (len(await one.list_tools()), len(await other.list_tools())) == (4, 3)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("carrier", ["stdio", "http"])
async def test_log_messages_go_to_the_client_of_the_call(carrier: str, era: str, tmp_path: Path) -> None:
    """Also those of a modern server, and over a pipe, where a message does not name its call."""

    async def ask(url: str, name: str) -> None:
        def take(message: Any) -> None:
            heard[name].append(message.data)

        async with Client(url, mode=era, log_handler=take, log_level="info") as client:
            for number in range(3):
                await client.call_tool("ask", {name: number})

    heard: dict[str, list[Any]] = {"a": [], "b": [], "c": []}
    async with behind(carrier, tmp_path, MODERN) as target, before("http", proxy(target, mode=MODERN)) as reached:
        async with anyio.create_task_group() as group:
            for name in heard:
                group.start_soon(ask, reached, name)
    assert heard == {name: [{name: number} for number in range(3)] for name in heard}


@pytest.mark.parametrize("era", ERAS)
async def test_an_ended_backend_session_is_opened_again_with_its_settings(era: str, tmp_path: Path) -> None:
    """The subscriptions of the client are sent to the new process."""
    async with behind("stdio", tmp_path) as target:
        front = proxy(target, mode="legacy")
        async with Client(front, mode=era, cache=False) as client, client.listen(uris=["note://1"]) as changes:
            first = (await client.call_tool("ask")).text
            os.kill(int(first), signal.SIGKILL)
            with anyio.fail_after(30):
                second = first
                while second == first:
                    try:
                        second = (await client.call_tool("ask")).text
                    except MCPError:  # the call that finds it dead
                        await anyio.sleep(0.05)
                await client.call_tool("touch")
                event = await anext(changes)
            assert (event.kind, event.uri) == ("resource", "note://1")


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_headers_repeat_are_repeated_behind(era: str) -> None:
    """A tool that was never listed as well: the server refuses the first try, and the tools are read."""
    app = MCPServer("regions")

    @app.tool
    async def where(region: Annotated[str, Header("Region")]) -> str:
        """Where."""
        return region

    async with http(app.lowlevel) as url, Client(proxy(url), mode=era) as client:
        assert (await client.call_tool("where", {"region": "eu"})).text == "eu"


@pytest.mark.parametrize("era", ERAS)
async def test_tasks_of_the_same_era_pass(era: str) -> None:
    """Started, asked in, and answered through the proxy."""
    app = MCPServer("jobs")

    @app.tool(task="required")
    async def job(ctx: Context) -> str:
        """Do it."""
        return f"done {(await ctx.elicit('Really?', bool)).data}"

    def answer(asked: Any) -> dict[str, bool]:
        return {"value": True}

    async with Client(proxy(app, mode=era), mode=era, elicitation_handler=answer) as client:
        handle = await client.start_tool("job")
        assert handle.task_id
        assert (await handle.result(timeout_s=20)).text == "done True"
