"""What a time-out counts: what the peer does, from sending on; the cap counts everything. The same on every link.

On clocks that jump, so that seconds cost nothing and nothing depends on how busy the machine is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.protocol.errors import RequestTimeout
from ferrule.transports.memory import memory_pair
from tests.schedules.loops import run_seeded

LINKS = [
    *((backend, mode) for backend in ("asyncio", "trio") for mode in ("auto", "legacy")),
    ("asyncio", "http 2026-07-28"),
    ("asyncio", "http legacy"),
]


def app_of(answers_after_s: float, *, every_s: float = 0.5, times: int = 1) -> MCPServer:
    app = MCPServer("slow")

    @app.tool
    async def slow(ctx: Context) -> str:
        for number in range(times):
            await ctx.progress(number + 1)
            await anyio.sleep(every_s)
        await anyio.sleep(answers_after_s)
        return "done"

    return app


def timed(link: tuple[str, str], app: MCPServer, call: Callable[[Any], Awaitable[Any]]) -> tuple[Any, float]:
    """What a call gives or raises, and after how many seconds of the loop's clock."""
    backend, mode = link

    async def main() -> tuple[Any, float]:
        async with AsyncExitStack() as stack:
            target: Any = app
            if mode.startswith("http"):
                target = await stack.enter_async_context(serving(app))
            client = await stack.enter_async_context(Client(target, mode=mode.removeprefix("http ")))
            began = anyio.current_time()
            try:
                outcome: Any = (await call(client)).text
            except RequestTimeout as error:
                outcome = error
            return outcome, anyio.current_time() - began

    return run_seeded(backend, main, 0)


class serving:  # noqa: N801
    """An app on a free port of the loopback interface."""

    def __init__(self, app: MCPServer) -> None:
        self._app = app

    async def __aenter__(self) -> str:
        from ferrule.transports.hosting.uvicorn_server import HttpLimits, serve_http

        endpoint = self._app.asgi(loopback=True)
        bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.ensure_future(
            serve_http(
                endpoint,
                port=0,
                limits=HttpLimits(drain_s=2),
                on_drain=endpoint.drain,
                on_started=lambda host, port: bound.set_result(port),
            )
        )
        return f"http://127.0.0.1:{await bound}/mcp"

    async def __aexit__(self, *exc: object) -> None:
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)


async def _slow_callback(progress: float, total: float | None, message: str | None) -> None:
    await anyio.sleep(20)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("resets", [True, False])
def test_the_time_of_a_callback_is_not_the_peers(link: tuple[str, str], resets: bool) -> None:
    """It ended the call after 1.2 s on asyncio and never on trio: progress counts when it arrives, and an answer that
    has arrived is an answer."""

    async def call(client: Any) -> Any:
        requests = client._parts.requests
        requests.timeouts = replace(requests.timeouts, reset_on_progress=resets)
        return await client.call_tool("slow", timeout_s=1.2, on_progress=_slow_callback)

    outcome, took_s = timed(link, app_of(0.3), call)
    assert outcome == "done"
    assert 20 <= took_s < 22


@pytest.mark.parametrize("link", LINKS)
def test_the_cap_counts_a_callback_too(link: tuple[str, str]) -> None:
    """It bounds the whole call, callbacks included, and the error names it."""

    async def call(client: Any) -> Any:
        return await client.call_tool("slow", timeout_s=1.2, max_total_s=5, on_progress=_slow_callback)

    outcome, took_s = timed(link, app_of(0.3), call)
    assert isinstance(outcome, RequestTimeout)
    assert outcome.is_cap
    assert outcome.timeout_s == 5
    assert 5 <= took_s < 6.5


@pytest.mark.parametrize("link", LINKS)
def test_the_bound_that_ended_a_call_is_named(link: tuple[str, str]) -> None:
    """Progress every 0.5 s keeps a call with ``timeout_s=1`` alive; after 2.4 s the cap ends it, and saying "within
    1 s" would send people looking at the wrong option."""

    async def capped(client: Any) -> Any:
        return await client.call_tool("slow", timeout_s=1, max_total_s=2.4, on_progress=lambda *_: None)

    outcome, took_s = timed(link, app_of(0, times=20), capped)
    assert isinstance(outcome, RequestTimeout)
    assert outcome.timeout_s == 2.4
    assert "within 2.4 s in all (max_total_s" in str(outcome)
    assert 2.4 <= took_s < 3.9

    async def silent(client: Any) -> Any:
        return await client.call_tool("slow", timeout_s=1, max_total_s=20, on_progress=lambda *_: None)

    outcome, took_s = timed(link, app_of(60, times=3), silent)
    assert isinstance(outcome, RequestTimeout)
    assert not outcome.is_cap
    assert outcome.timeout_s == 1
    assert "max_total_s" not in str(outcome)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("options", [{"timeout_s": 3.0}, {"max_total_s": 3.0}])
def test_a_request_that_cannot_be_sent_times_out(backend: str, options: Any) -> None:
    """A peer that does not read holds up the sending, from the client as from the server; the time-out covers it."""

    async def nothing(*args: Any) -> None:
        return None

    async def main() -> float:
        ours, theirs = memory_pair(max_buffered_bytes=10)
        dispatcher = JSONRPCDispatcher(ours.read_stream, ours.write_stream, drain_s=0)
        async with anyio.create_task_group() as group:
            group.start_soon(dispatcher.run, nothing, nothing)
            await anyio.sleep(0)
            began = anyio.current_time()
            with pytest.raises(RequestTimeout):
                await dispatcher.send_raw_request("elicitation/create", {"long": "x" * 100}, options)
            took_s = anyio.current_time() - began
            await theirs.aclose()
        return took_s

    assert 3 <= run_seeded(backend, main, 0) <= 4.5
