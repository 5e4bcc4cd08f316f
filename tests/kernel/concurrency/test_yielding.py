"""A body that only tells lets the event loop turn: counted in turns, not in seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer
from ferrule.kernel.concurrency.yielding import CALLS_PER_YIELD, yield_to_loop
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.testing.carriers import open_carrier
from ferrule.types import LATEST_MODERN_VERSION
from ferrule.wire.revisions import REVISIONS
from tests.kernel.harness import handshake, initialize, modern, note, request, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

CALLS = 40 * CALLS_PER_YIELD

TELLING: dict[str, Callable[[Context, int], Awaitable[Any]]] = {
    "progress": lambda ctx, n: ctx.progress(n, CALLS, "x" * 100),
    "log": lambda ctx, n: ctx.info(f"line {n}"),
    "notify": lambda ctx, n: ctx.notify("notifications/message", {"level": "info", "data": n}),
    "tools changed": lambda ctx, n: ctx.notify_tools_changed(),
    "prompts changed": lambda ctx, n: ctx.notify_prompts_changed(),
    "resources changed": lambda ctx, n: ctx.notify_resources_changed(),
    "resource updated": lambda ctx, n: ctx.notify_resource_updated(f"r://{n}"),
    "status": lambda ctx, n: ctx.set_status(f"at {n}"),
    "read": lambda ctx, n: ctx.read_resource("r://quick"),
    "call": lambda ctx, n: ctx.call_tool("quick"),
    "close the stream": lambda ctx, n: ctx.close_stream(),
    "outside of the request": lambda ctx, n: ctx.session.connection.notify("notifications/tools/list_changed"),
}


class Turns:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            await anyio.sleep(0)
            self.count += 1


def telling(calls: float = CALLS, started: list[bool] | None = None) -> tuple[MCPServer[Any], Turns, list[int]]:
    """A server whose tool makes many calls of one kind; how many turns that took."""
    app: MCPServer[Any] = MCPServer("tells")
    turns = Turns()
    took: list[int] = []

    @app.tool
    async def quick() -> str:
        return "quick"

    @app.resource("r://quick")
    async def resource() -> str:
        return "quick"

    @app.tool
    async def tell(kind: str, ctx: Context) -> str:
        before, made = turns.count, 0
        if started is not None:
            started.append(True)
        try:
            while made < calls:
                made += 1
                await TELLING[kind](ctx, made)
        finally:
            took.append(turns.count - before)
        return "told"

    return app, turns, took


def enough(took: list[int]) -> bool:
    return took[0] >= CALLS / CALLS_PER_YIELD - 3  # in which order trio runs what can run is random


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("kind", TELLING)
async def test_the_event_loop_runs_while_a_body_only_sends(kind: str, mode: str, wanted: bool) -> None:
    """Also where nobody wants to hear it, so that nothing is sent; in process nothing ever waits by itself."""
    app, turns, took = telling()
    options: dict[str, Any] = {"log_handler": lambda _: None, "progress_handler": lambda *_: None} if wanted else {}
    async with Client(app, mode=mode, **options) as client, anyio.create_task_group() as group:
        group.start_soon(turns.run)
        result = await client.call_tool("tell", {"kind": kind})
        group.cancel_scope.cancel()
    assert result.text == "told"
    assert enough(took), took


async def call(carrier: Any, kind: str, **meta: Any) -> None:
    params = {"name": "tell", "arguments": {"kind": kind}}
    await carrier.send(modern(1, "tools/call", params, meta={"progressToken": 1, **meta}), {})


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("carrier", ["direct", "memory", "bytes", "asgi"])
async def test_the_loop_turns_on_every_carrier(carrier: str, reads: bool) -> None:
    """With a client that reads, and with one that has closed its end."""
    app, turns, took = telling()
    async with open_carrier(carrier, app.lowlevel, REVISIONS[LATEST_MODERN_VERSION]) as opened:
        async with anyio.create_task_group() as group:
            group.start_soon(turns.run)
            await call(opened, "progress")
            with anyio.fail_after(30):
                if not reads:
                    await opened.close()
                while not took:
                    if reads:
                        await opened.receive()
                    else:
                        await anyio.sleep(0)
            group.cancel_scope.cancel()
    assert enough(took) or not reads, took


@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_body_that_only_sends_can_be_cancelled(kind: str, era: str) -> None:
    """It would never hear of it otherwise; the call after it is answered."""
    app, _, took = telling(float("inf"), started := [])
    async with serving(app.lowlevel, serve_dual_era_loop, buffer=float("inf")) as peer:
        params = {"name": "tell", "arguments": {"kind": kind}, "_meta": {"progressToken": 1}}
        if era == "legacy":
            await handshake(peer)
            peer.send(request(1, "tools/call", params))
        else:
            peer.send(modern(1, "tools/call", params, meta=params["_meta"]))
        with anyio.fail_after(30):
            while not started:
                await anyio.sleep(0)
        peer.send(note("notifications/cancelled", {"requestId": 1}))
        with anyio.fail_after(30):
            while not took:
                await anyio.sleep(0)


@pytest.mark.parametrize("version", ["legacy", "modern"])
async def test_a_server_whose_body_only_sends_can_be_stopped(version: str) -> None:
    """A shutdown is a cancellation, too; nothing else ends the drain before its time."""
    app, _, took = telling(float("inf"))
    async with serving(app.lowlevel, serve_dual_era_loop, buffer=float("inf"), drain_s=0) as peer:
        params = {"name": "tell", "arguments": {"kind": "progress"}, "_meta": {"progressToken": 1}}
        if version == "legacy":
            await peer.result(initialize(0))
            peer.send(request(1, "tools/call", params))
        else:
            peer.send(modern(1, "tools/call", params, meta=params["_meta"]))
        await peer.receive()
    assert took


async def test_every_so_many_calls_are_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request counts its own calls, so that a body that runs again yields at the same places."""

    class Counter:
        calls = 0

    async def turn() -> None:
        turns.append(True)

    turns: list[bool] = []
    monkeypatch.setattr("anyio.lowlevel.checkpoint", turn)
    request, other = Counter(), Counter()
    await yield_to_loop(other)
    for made in range(1, 5 * CALLS_PER_YIELD):
        await yield_to_loop(request)
        assert len(turns) == made // CALLS_PER_YIELD
