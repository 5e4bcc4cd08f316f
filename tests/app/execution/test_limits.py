"""Time-outs and concurrency limits per tool."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.execution.limits import Limits, limited
from ferrule.kernel.concurrency.spawner import is_asyncio
from tests.app.rounds.driving import Call, accept, always, outcome, push, served, settled
from tests.app.support import call, text_of
from tests.loop_clock import LoopClock

pytestmark = [pytest.mark.anyio]


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_run_that_takes_too_long_is_an_error_for_the_model(is_sync):
    app = MCPServer("x")
    release = anyio.Event()

    if is_sync:

        @app.tool("slow", timeout_s=0.02)
        def slow_sync(ctx: Context) -> str:
            ctx.from_thread(release.wait)
            return "late"
    else:

        @app.tool("slow", timeout_s=0.02)
        async def slow() -> str:
            await release.wait()
            return "late"

    result = await call(app, "slow")
    assert result["isError"] is True
    assert text_of(result) == "`slow` did not finish within 0.02 s"
    release.set()


async def test_the_time_of_a_question_does_not_count():
    """A person may take a minute where the tool may take a second."""
    app, clock = served(), LoopClock()

    @app.tool(timeout_s=10)
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit("a", int)).data)

    async def later(method, params):
        await clock.advance(60)
        return accept(1)

    assert await outcome(push(app, later)) == "1"
    assert await outcome(Call(app).finish(always(1))) == "1"


class Runs:
    """Counts the runs of a tool at the same time."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def body(self) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        await anyio.sleep(0)
        self.running -= 1
        return "x"


@pytest.mark.usefixtures("any_backend")
async def test_more_runs_than_allowed_wait_their_turn():
    app = MCPServer("x")
    runs = Runs()
    app.tool(max_concurrent=2)(runs.body)
    async with anyio.create_task_group() as group:
        for _ in range(9):
            group.start_soon(call, app, "body")
    assert (runs.most, runs.running) == (2, 0)


@pytest.mark.usefixtures("any_backend")
async def test_the_copies_of_a_mounted_tool_share_its_limit():
    """What the limit protects is behind the function, under whichever names it is called."""
    part, app = MCPServer("part"), MCPServer("x")
    runs = Runs()
    part.tool(max_concurrent=2)(runs.body)
    app.mount(part, prefix="one")
    app.mount(part, prefix="two")
    async with anyio.create_task_group() as group:
        for _ in range(4):
            for server, name in ((app, "one_body"), (app, "two_body"), (part, "body")):
                group.start_soon(call, server, name)
    assert (runs.most, runs.running) == (2, 0)


@pytest.mark.usefixtures("any_backend")
async def test_a_place_goes_to_a_call_in_another_event_loop():
    """The servers that share a tool may run in threads of their own; an event of asyncio is not for other threads."""
    go, limits = anyio.Event(), Limits(max_concurrent=1)
    assert limits.concurrency is not None

    async def body(is_first: bool) -> bool:
        if is_first:
            await go.wait()
        return is_first

    bounded = limited("work", body, limits)

    async def first() -> None:
        assert await bounded(is_first=True)

    async def other() -> Any:
        return await bounded(is_first=False)

    backend = "asyncio" if is_asyncio() else "trio"
    found: list[bool] = []

    async def in_thread() -> None:
        found.append(await anyio.to_thread.run_sync(lambda: anyio.run(other, backend=backend)))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(in_thread)
            while not limits.concurrency.waiting:
                await anyio.sleep(0.01)
            go.set()
    assert found == [False]
    assert await other() is False


async def test_a_call_whose_event_loop_has_ended_takes_no_place():
    """A loop that is closed with open calls ends them without a word."""
    limits, go = Limits(max_concurrent=1), asyncio.Event()
    assert limits.concurrency is not None
    bounded = limited("work", go.wait, limits)
    first = asyncio.ensure_future(bounded())
    await settled()

    def abandon() -> Any:
        loop = asyncio.new_event_loop()
        task: Any = asyncio.ensure_future(bounded(), loop=loop)
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        task._log_destroy_pending = False
        return [task]

    abandoned = await asyncio.to_thread(abandon)
    assert limits.concurrency.waiting == 1
    go.set()
    async with asyncio.timeout(30):
        assert await first
        assert await bounded()
    abandoned.clear()  # its coroutine is closed now
    gc.collect()
    assert (limits.concurrency.running, limits.concurrency.waiting) == (0, 0)


@pytest.mark.usefixtures("any_backend")
async def test_a_cancelled_wait_gives_its_place_back():
    app = MCPServer("x")
    release = anyio.Event()

    @app.tool(max_concurrent=1)
    async def body() -> str:
        await release.wait()
        return "x"

    async with anyio.create_task_group() as group:
        group.start_soon(call, app, "body")
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await call(app, "body")
        release.set()
    assert text_of(await call(app, "body")) == "x"


async def test_a_place_given_to_a_cancelled_call_is_not_lost():
    """The cancellation is on its way when the place comes."""
    app = MCPServer("x")
    waiting: list[asyncio.Task[object]] = []
    go = asyncio.Event()

    @app.tool(max_concurrent=1)
    async def body() -> str:
        if waiting:
            await go.wait()
            waiting.pop().cancel()
        return "x"

    waiting.append(asyncio.create_task(asyncio.sleep(0)))
    first = asyncio.create_task(call(app, "body"))
    await settled()
    second = asyncio.create_task(call(app, "body"))
    waiting[:] = [second]
    await settled()
    go.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    async with asyncio.timeout(30):
        assert text_of(await call(app, "body")) == "x"


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"max_concurrent": 0}, {"timeout_s": float("nan")}])
def test_limits_that_cannot_be_are_refused(options):
    with pytest.raises(ValueError):
        MCPServer("x").tool(**options)(lambda: None)


async def test_the_wait_for_an_answer_pauses_the_timeout_of_a_calling_tool() -> None:
    """At any depth: the time-out of each tool around the question is paused."""
    app: MCPServer[Any] = MCPServer("deep", mask_errors=False)
    clock = LoopClock()

    @app.tool(timeout_s=10)
    async def inner(ctx: Context) -> str:
        return str((await ctx.elicit("Name?", str)).data)

    @app.tool(timeout_s=10)
    async def outer(ctx: Context) -> str:
        return "".join(block.text or "" for block in (await ctx.call_tool("inner")).content)

    async def answer(_: Any) -> Any:
        await clock.advance(60)
        return {"value": "ann"}

    async with Client(app, mode="legacy", elicitation_handler=answer) as client:
        assert (await client.call_tool("outer")).text == "ann"


async def test_a_cancelled_timeout_keeps_nothing_of_its_call() -> None:
    """Its timer stays in the heap of the loop; with the call's context it would keep the request until its time."""
    kept: ContextVar[Any] = ContextVar("kept")
    seen: list[weakref.ref[Any]] = []

    class Request:
        """Something that belongs to one call."""

    @limited_to(3600)
    async def work() -> None:
        request = Request()
        seen.append(weakref.ref(request))
        kept.set(request)

    async def call_it() -> None:
        request = Request()  # as middleware sets it, before the time-out begins
        seen.append(weakref.ref(request))
        kept.set(request)
        del request
        await work()

    # As long as an earlier timer runs, the loop does not look for those that are cancelled.
    earlier = asyncio.get_running_loop().call_later(1800, lambda: None)
    for _ in range(3):
        await asyncio.create_task(call_it())
    await asyncio.sleep(0)
    earlier.cancel()
    assert len(seen) == 6
    assert [each() for each in seen] == [None] * 6


def limited_to(timeout_s: float) -> Any:
    return lambda function: limited("work", function, Limits(timeout_s=timeout_s))
