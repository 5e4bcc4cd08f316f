"""A body that only sends lets the event loop run, counted in turns; a thread without one steps the body itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer
from ferrule.kernel.concurrency import yielding
from ferrule.kernel.concurrency.yielding import (
    CALLS_PER_YIELD,
    MOVE,
    MOVED,
    Outcome,
    ThreadCall,
    call_in_thread,
    deadline,
    going_on,
    is_late,
    move_to_loop,
    request_thread,
    stepping_thread,
    until_moved,
    yield_to_loop,
)
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.testing.carriers import open_carrier
from ferrule.types import LATEST_MODERN_VERSION
from ferrule.wire.revisions import REVISIONS
from tests.kernel.harness import handshake, initialize, modern, note, request, serving

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


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("kind", TELLING)
async def test_the_event_loop_runs_while_a_body_only_sends(kind: str, mode: str, wanted: bool) -> None:
    """Also if no message is sent, since the peer does not want it; in process nothing waits by itself."""
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


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
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


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_body_that_only_sends_can_be_cancelled(kind: str, era: str) -> None:
    """Without a turn of the loop the cancellation would not reach it; the next call is answered."""
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


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
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


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
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


# -- the coroutine of a request, stepped by a thread that has no event loop -----------------------------------------


class Stepping:
    """A thread that runs a step, or does not."""

    loop = None

    def __init__(self, *, is_stepping: bool = True) -> None:
        self.is_stepping = is_stepping

    def move(self) -> None:
        raise NotImplementedError


def job(result: Any) -> ThreadCall:
    """A call whose outcome is given."""
    return ThreadCall(lambda: (result, None), lambda *_: None)


def end_of(work: Coroutine[Any, Any, Any], received: Any) -> Any:
    """Send something into a coroutine, which ends with that; return its result."""
    with pytest.raises(StopIteration) as stop:
        work.send(received)
    return stop.value.value


async def both(first: ThreadCall, second: ThreadCall) -> list[Outcome | None]:
    return [await call_in_thread(first), await call_in_thread(second)]


def test_jobs_are_yielded_and_their_outcomes_sent() -> None:
    first, second = job(1), job(2)
    work = both(first, second)
    assert work.send(None) is first
    assert work.send((1, None)) is second
    assert end_of(work, (2, None)) == [(1, None), (2, None)]


def test_a_moved_coroutine_gets_no_outcome() -> None:
    work = both(job(1), job(2))
    work.send(None)
    work.send(MOVED)
    assert end_of(work, (2, None)) == [None, (2, None)]


def test_only_a_step_of_the_thread_moves() -> None:
    """What an event loop runs with the context variables of such a request is there already."""

    def first_of(work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return work.send(None)
        except StopIteration:
            return None
        finally:
            work.close()

    assert stepping_thread() is None
    assert first_of(move_to_loop()) is None
    for thread, yields in ((Stepping(), MOVE), (Stepping(is_stepping=False), None)):
        token = request_thread.set(thread)
        try:
            assert first_of(move_to_loop()) is yields
        finally:
            request_thread.reset(token)


def test_a_part_is_stepped_until_it_ends() -> None:
    first, second = job(1), job(2)
    part: Any = until_moved(both(first, second))
    assert part.send(None) is first
    assert part.send((1, None)) is second
    assert end_of(part, (2, None)) == ([(1, None), (2, None)],)


def test_a_part_that_is_closed_closes_what_it_steps() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await call_in_thread(job(1))
        finally:
            ended.append("closed")

    part: Any = until_moved(work())
    part.send(None)
    part.close()
    assert ended == ["closed"]


async def moved(work: Coroutine[Any, Any, Any], *sent: Any) -> Any:
    """Step a coroutine with these outcomes, then let the event loop of the caller go on with it."""
    part: Any = until_moved(work)
    part.send(None)
    for each in sent:
        part.send(each)
    assert end_of(part, MOVED) is None
    return await going_on(work)


def test_an_event_loop_goes_on_with_a_part() -> None:
    async def work() -> Any:
        found: list[Any] = [await call_in_thread(job(1)), await call_in_thread(job(2))]
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0)
        except TimeoutError:
            found.append("late")
        return found

    assert asyncio.run(moved(work(), (1, None))) == [(1, None), None, "late"]


def test_a_cancellation_and_a_failure_reach_a_part_that_has_moved() -> None:
    ended: list[type[BaseException]] = []

    async def work() -> None:
        await call_in_thread(job(1))
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as error:
            ended.append(type(error))
            raise

    async def cancel() -> None:
        task = asyncio.ensure_future(moved(work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended == [asyncio.CancelledError]

    async def close() -> None:
        begun = work()
        begun.send(None)
        rest: Any = going_on(begun)
        rest.send(None)
        rest.close()

    asyncio.run(close())
    assert ended == [asyncio.CancelledError, GeneratorExit]

    async def failing() -> None:
        await call_in_thread(job(1))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(moved(failing()))


def test_a_request_is_late_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yielding, "monotonic", lambda: 100.0)
    assert not is_late()
    for ends_at, expected in ((99.0, True), (101.0, False)):
        token = deadline.set(ends_at)
        try:
            assert is_late() is expected
        finally:
            deadline.reset(token)
