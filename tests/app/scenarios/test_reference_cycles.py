"""What a request leaves behind: nothing that only the cyclic garbage collector finds.

A server lets that collector look rarely (`ferrule.transports.hosting.collector`), so a cycle for each request that ends
by an error or by a cancellation would keep hundreds of megabytes of requests that are over. Errors are what makes
cycles: their tracebacks hold frames, and a frame that still has the error in a variable holds the error.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.types import LATEST_HANDSHAKE_VERSION
from tests.transports.asgi.support import (
    get_call,
    legacy_call,
    modern,
    modern_call,
    open_session,
    request,
    running,
)

pytestmark = pytest.mark.anyio

ROUNDS = 5


async def left_behind(way: Callable[[int], Awaitable[Any]]) -> Counter[str]:
    """What of ours is found in cycles after a few runs of ``way``; its first run makes what stays and is left out.

    Counted twice if something is found: what an earlier test released late is found once, a cycle of ``way`` each time.
    """
    await way(ROUNDS)
    await anyio.sleep(0.01)
    found = await _found_in_cycles(way)
    return found & await _found_in_cycles(way) if found else found


async def _found_in_cycles(way: Callable[[int], Awaitable[Any]]) -> Counter[str]:
    for _ in range(10):  # what earlier tests left goes bit by bit: it has finalizers, and threads that end
        if not gc.collect():
            break
        await anyio.sleep(0.01)
    gc.disable()
    flags = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for number in range(ROUNDS):
            await way(number)
        await anyio.sleep(0.01)
        gc.collect()
        kinds = (type(found) for found in gc.garbage)
        return Counter(kind.__qualname__ for kind in kinds if kind.__module__.startswith("ferrule."))
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()


def make_app() -> MCPServer[Any]:
    """Tools that end in every way."""
    app: MCPServer[Any] = MCPServer("cycles")

    @app.tool
    async def plain(text: str = "") -> str:
        return text

    @app.tool
    async def suspend() -> str:
        await anyio.sleep(0)
        return "done"

    @app.tool
    async def slow(ctx: Context) -> str:
        await ctx.notify("notifications/message", {"level": "info", "data": "begun"})
        await anyio.sleep(60)
        return "slept"

    @app.tool
    async def refuse() -> str:
        await anyio.sleep(0)
        raise MCPError("no", code=-32050)

    @app.tool
    async def fail() -> str:
        await anyio.sleep(0)
        raise ValueError("broken")

    @app.tool
    async def leave() -> str:
        raise SystemExit(2)

    @app.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", bool)).action

    @app.tool
    async def ask_and_fail(ctx: Context) -> str:
        await ctx.elicit("Sure?", bool)
        raise ValueError("broken")

    @app.tool
    async def ask_briefly(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", bool, timeout_s=0.001)).action

    @app.tool
    async def step(ctx: Context) -> str:
        async def broken() -> None:
            raise ValueError("broken")

        with contextlib.suppress(Exception):
            await ctx.step("broken", broken)
        await ctx.gather(ctx.step("also", broken), ctx.step("too", broken))
        return "stepped"

    return app


@pytest.mark.parametrize("name", ["plain", "suspend", "slow", "ask", "refuse", "fail", "leave", "step"])
async def test_a_modern_request_over_http_leaves_no_cycle(name: str) -> None:
    """Answered, refused, failed, asking, or cancelled because its client went."""
    endpoint = make_app().asgi(loopback=True, disconnect_grace_s=0.0)
    asking = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}

    async def way(number: int) -> None:
        message = modern(number, "tools/call", {"name": name, "arguments": {}}, **asking)
        async with running(modern_call(endpoint, message)) as call:
            await call.until(lambda answer: answer.status)

    assert not await left_behind(way)


async def test_a_subscription_leaves_no_cycle() -> None:
    """Its client goes, or it is ended."""
    endpoint = make_app().asgi(loopback=True, disconnect_grace_s=0.0)

    async def way(number: int) -> None:
        async with running(
            modern_call(endpoint, modern(number, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        ) as call:
            await call.message_count(1)

    assert not await left_behind(way)


@pytest.mark.parametrize(
    "name", ["plain", "suspend", "slow", "ask", "ask_briefly", "ask_and_fail", "refuse", "fail", "leave", "step"]
)
async def test_a_legacy_session_over_http_leaves_no_cycle(name: str) -> None:
    """Its calls end by an error, a time-out, a cancellation, a client that goes; then the session is deleted."""
    endpoint = make_app().asgi(loopback=True, disconnect_grace_s=0.0)

    async def way(number: int) -> None:
        session = await open_session(endpoint, capabilities={"elicitation": {}})
        message = request(1, "tools/call", {"name": name, "arguments": {}})
        async with running(get_call(endpoint, session)), running(legacy_call(endpoint, message, session)) as call:
            await call.until(lambda answer: answer.status)
            if name == "slow":
                cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
                await legacy_call(endpoint, cancelled, session).run()
                await call.until(lambda answer: answer.complete)
            delete = get_call(endpoint, session)
            delete.scope["method"] = "DELETE"
            await delete.run()

    assert not await left_behind(way)


@contextlib.asynccontextmanager
async def client_of(mode: str) -> AsyncIterator[Client]:
    async def answer(params: Any, question: Any) -> Any:
        await anyio.sleep(0)
        return {"value": True}

    async with Client(make_app(), mode=mode, elicitation_handler=answer, cache=False) as client:
        yield client


@pytest.mark.parametrize("mode", ["auto", LATEST_HANDSHAKE_VERSION])
@pytest.mark.parametrize(
    "name", ["plain", "suspend", "slow", "ask", "ask_and_fail", "refuse", "fail", "leave", "step", "missing"]
)
async def test_a_call_in_process_leaves_no_cycle(name: str, mode: str) -> None:
    """On both sides: the client's errors come from the same place."""
    async with client_of(mode) as client:

        async def way(number: int) -> None:
            with anyio.move_on_after(0.01 if name == "slow" else 10), contextlib.suppress(Exception):
                await client.call_tool(name, {})

        assert not await left_behind(way)
