"""A body that raises a ``BaseException`` by itself: an error for its peer in every era and over every carrier, without
an effect on other requests. The definition is in `ferrule.kernel.concurrency.cancellation`."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import pytest

from ferrule import Client, Context, Depends, MCPServer
from ferrule.testing.carriers import Carrier, open_carrier
from ferrule.types import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from ferrule.wire.revisions import REVISIONS
from tests.kernel.harness import initialize, modern, note, request

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


async def own_task() -> None:
    """A task of the body's own, cancelled and then awaited."""
    task = asyncio.ensure_future(asyncio.sleep(100))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def own_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def gathered() -> None:
    await asyncio.gather(own_future(), asyncio.sleep(0))


async def raised() -> None:
    raise asyncio.CancelledError


async def raised_after_waiting() -> None:
    await anyio.sleep(0)
    raise asyncio.CancelledError


async def own_cancel() -> None:
    """The body cancels its own task; the next wait ends with it."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def group_and_raise() -> None:
    """Until Python 3.12 the count of cancellations stays raised after a group that failed and was handled."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("x")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    except* ValueError:
        pass
    await own_future()


async def generator_exit() -> None:
    await anyio.sleep(0)
    raise GeneratorExit


async def system_exit() -> None:
    sys.exit(2)


async def system_exit_after_waiting() -> None:
    await anyio.sleep(0)
    sys.exit("usage: …")


async def keyboard_interrupt() -> None:
    await anyio.sleep(0)
    raise KeyboardInterrupt


class Odd(BaseException):
    """Of the author's own."""


async def odd() -> None:
    raise Odd("odd")


ON_ASYNCIO: list[Callable[[], Awaitable[None]]] = [own_task, own_future, gathered, own_cancel, group_and_raise]
ANYWHERE: list[Callable[[], Awaitable[None]]] = [
    raised,
    raised_after_waiting,
    generator_exit,
    system_exit,
    system_exit_after_waiting,
    keyboard_interrupt,
    odd,
]
WAYS = [*ON_ASYNCIO, *ANYWHERE]


def exiting(way: Callable[[], Awaitable[None]]) -> MCPServer[Any]:
    """One server with the same body as every component, and a tool that is well."""
    app: MCPServer[Any] = MCPServer("exits")

    @app.tool
    async def well() -> str:
        return "well"

    @app.tool
    async def plain() -> str:
        await way()
        return "no"

    @app.tool(timeout_s=100)
    async def timed() -> str:
        await way()
        return "no"

    @app.tool(max_concurrent=1)
    async def bounded() -> str:
        await way()
        return "no"

    async def depended() -> str:
        await way()
        return "no"

    @app.tool
    async def depends(value: Annotated[str, Depends(depended)]) -> str:
        return value

    @app.tool
    async def after_a_step(ctx: Context) -> str:
        await way()
        return "no"

    @app.tool
    async def nested(ctx: Context) -> str:
        await ctx.call_tool("plain")
        return "no"

    @app.resource("exit://here")
    async def here() -> str:
        await way()
        return "no"

    @app.resource("exit://{name}/there")
    async def there(name: str) -> str:
        await way()
        return "no"

    @app.prompt
    async def prompt(word: str) -> str:
        await way()
        return "no"

    @app.complete(prompt, "word")
    async def complete(typed: str) -> list[str]:
        await way()
        return []

    return app


TOOLS = ["plain", "timed", "bounded", "depends", "nested"]
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    *(("tools/call", {"name": name, "arguments": {}}) for name in TOOLS),
    ("resources/read", {"uri": "exit://here"}),
    ("resources/read", {"uri": "exit://a/there"}),
    ("prompts/get", {"name": "prompt", "arguments": {"word": "a"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "word", "value": "a"}},
    ),
]


class Peer:
    """A client of either era, over any carrier."""

    def __init__(self, carrier: Carrier, is_modern: bool) -> None:
        self.carrier = carrier
        self.is_modern = is_modern
        self._id = 10

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        message = modern(self._id, method, params) if self.is_modern else request(self._id, method, params)
        with anyio.fail_after(PATIENCE_S):
            await self.carrier.send(message, {})
            while True:
                answer = await self.carrier.receive()
                if answer.get("id") == self._id:
                    return answer


@asynccontextmanager
async def peer_of(app: MCPServer[Any], carrier: str, era: str) -> AsyncIterator[Peer]:
    version = LATEST_MODERN_VERSION if era == "modern" else LATEST_HANDSHAKE_VERSION
    async with open_carrier(carrier, app.lowlevel, REVISIONS[version]) as opened:
        if era == "legacy":
            await opened.send(initialize(0, version), {})
            await opened.receive()
            await opened.send(note("notifications/initialized"), {})
        yield Peer(opened, era == "modern")
        await opened.close()


def check(method: str, answer: dict[str, Any]) -> None:
    if method == "tools/call":
        assert answer["result"]["isError"] is True, answer
    else:
        assert answer["error"] == {"code": -32603, "message": "Internal error"}, answer


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("carrier", ["direct", "memory", "bytes", "asgi"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_exception_of_a_body_fails_only_its_own_request(
    way: Callable[[], Awaitable[None]], carrier: str, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each request gets a response, the log one line, and the server continues."""
    async with peer_of(exiting(way), carrier, era) as peer:
        for method, params in REQUESTS:
            caplog.clear()
            with caplog.at_level(logging.ERROR):
                answer = await peer.ask(method, params)
            check(method, answer)
            assert any(record.exc_info for record in caplog.records), (method, params)
        well = await peer.ask("tools/call", {"name": "well", "arguments": {}})
        assert well["result"]["content"] == [{"type": "text", "text": "well"}]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("carrier", ["direct", "memory", "bytes", "asgi"])
@pytest.mark.parametrize("way", ANYWHERE, ids=lambda way: way.__name__)
async def test_the_same_on_trio(
    way: Callable[[], Awaitable[None]], carrier: str, era: str, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """There asyncio's ``CancelledError`` is an exception like any other."""
    async with peer_of(exiting(way), carrier, era) as peer:
        for method, params in REQUESTS:
            caplog.clear()
            with caplog.at_level(logging.ERROR):
                answer = await peer.ask(method, params)
            check(method, answer)
            assert any(record.exc_info for record in caplog.records), (method, params)
        well = await peer.ask("tools/call", {"name": "well", "arguments": {}})
        assert well["result"]["content"] == [{"type": "text", "text": "well"}]


EXITS = [asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt, Odd]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("kind", EXITS)
async def test_a_sync_tool_in_its_thread_fails_in_the_same_way(
    kind: type[BaseException], mode: str, any_backend: str
) -> None:
    """Also a dependency that runs in a thread, a step and a branch of a gather."""
    app: MCPServer[Any] = MCPServer("threads", mask_errors=False)

    @app.tool
    def sync() -> str:
        raise kind

    def read() -> str:
        raise kind

    @app.tool
    def depends(value: Annotated[str, Depends(read, thread=True)]) -> str:
        return value

    @app.tool
    def depends_on_the_loop(value: Annotated[str, Depends(read)]) -> str:
        return value

    async with Client(app, mode=mode) as client:
        for name in ("sync", "depends", "depends_on_the_loop"):
            result = await client.call_tool(name)
            assert result.is_error
            assert kind.__name__ in result.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("kind", EXITS)
async def test_a_step_and_a_branch_fail_in_the_same_way(kind: type[BaseException], mode: str) -> None:
    """A step runs in a task of its own, and so do branches: what leaves those would end the event loop."""
    app: MCPServer[Any] = MCPServer("steps", mask_errors=False)
    seen: list[str] = []

    async def leave() -> None:
        raise kind

    @app.tool
    async def step(ctx: Context) -> str:
        try:
            return await ctx.step("leave", leave)
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    @app.tool
    async def sync_step(ctx: Context) -> str:
        def leave() -> None:
            raise kind

        return await ctx.step("leave", leave)

    @app.tool
    async def branch(ctx: Context) -> str:
        await ctx.gather(leave(), anyio.sleep(0))
        return "no"

    async with Client(app, mode=mode) as client:
        for name in ("step", "sync_step", "branch"):
            result = await client.call_tool(name)
            assert result.is_error
            assert kind.__name__ in result.text
    assert seen == ["StepFailed"]
