"""Rounds of the modern era: how a suspended body ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from tests.app.rounds.driving import Call, accept, always, both, outcome, settings_of, settled

pytestmark = pytest.mark.anyio


async def test_finally_runs_in_each_round_and_sees_the_suspension(app):
    """Suspension is a cancellation for the body; `ctx.suspending` distinguishes them."""
    seen: list[bool] = []

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.elicit("a", int)
        finally:
            seen.append(ctx.suspending)
        return "done"

    await Call(app).finish(always(1))
    assert seen == [True, False]


async def test_replaying_is_true_until_the_body_has_caught_up(app):
    seen: list[bool] = []

    @app.tool
    async def body(ctx: Context) -> str:
        seen.append(ctx.replaying)
        await ctx.elicit("a", int)
        seen.append(ctx.replaying)
        await ctx.elicit("b", int)
        seen.append(ctx.replaying)
        return "done"

    await Call(app).finish(always(1))
    assert seen == [False, False, False, True, False, False]


async def test_a_gather_that_collects_exceptions_does_not_go_on(app):
    """The suspended children must not be taken for results."""
    went_on: list[Any] = []

    @app.tool
    async def body(ctx: Context) -> str:
        found = await asyncio.gather(ctx.elicit("a", int), ctx.elicit("b", int), return_exceptions=True)
        went_on.append(found)
        return str([getattr(one, "data", one) for one in found])

    assert await outcome(Call(app).finish(always(1))) == "[1, 1]"
    assert len(went_on) == 1


async def test_a_body_that_swallows_its_suspension_cannot_answer_instead(app):
    """The reply is decided out of band."""

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("a", int)).data)
        except asyncio.CancelledError:
            return "I was cancelled"

    assert await outcome(Call(app).finish(always(1))) == "1"


async def test_a_body_that_raises_while_it_unwinds_cannot_fail_instead(app, caplog):
    @app.tool
    async def body(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("a", int)).data)
        except asyncio.CancelledError as error:
            raise ValueError("clean-up failed") from error

    assert await outcome(Call(app).finish(always(1))) == "1"
    assert "after its suspension" in caplog.text


async def test_a_body_that_never_stops_asking_does_not_delay_the_reply(app, caplog):
    """`while True: try: ask() except BaseException: continue` must not hold the reply."""

    test_is_over: list[bool] = []
    asked: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        while True:
            try:
                asked.append(1)
                return str((await ctx.elicit("a", int)).data)
            except BaseException:
                if test_is_over:
                    raise

    call = Call(app)
    serving = asyncio.ensure_future(call.request())
    try:
        while not call.dispatch.early or "waits for ever" not in caplog.text:
            await asyncio.sleep(0.005)
        (early,) = call.dispatch.early
        assert early.result_type == "input_required"
        assert not serving.done()
        assert "did not end" in caplog.text
        before = len(asked)
        await settled()
        assert len(asked) == before  # parked for good: it burns no processor
    finally:
        test_is_over.append(True)
        serving.cancel()
        await asyncio.wait([serving])
    call.state, call.requests = early.request_state, dict(early.input_requests)
    assert (await call.reply(accept(3))).result["content"][0]["text"] == "3"


async def test_an_early_error_goes_out_too(app):
    """The reply may be an error: rounds over their cap."""
    settings_of(app).max_rounds = 1
    test_is_over: list[bool] = []

    @app.tool
    async def body(ctx: Context) -> str:
        while True:
            try:
                await ctx.elicit("a", int)
            except BaseException:
                if test_is_over:
                    raise

    call = Call(app)
    serving = asyncio.ensure_future(call.request())
    while not call.dispatch.early:
        await asyncio.sleep(0.005)
    assert call.dispatch.early[0].reason == "too_many_rounds"
    test_is_over.append(True)
    serving.cancel()
    await asyncio.wait([serving])


async def test_every_context_call_is_cancelled_after_suspension(app):
    """Nothing may be said any more for a round that is over."""
    reached: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("a", int)).data)
        except asyncio.CancelledError:
            calls = {
                "elicit": lambda: ctx.elicit("b", int),
                "sample": lambda: ctx.sample("b"),
                "roots": ctx.roots,
                "step": lambda: ctx.step("s", reached.append, "step ran"),
                "gather": lambda: ctx.gather(ctx.elicit("c", int)),
                "progress": lambda: ctx.progress(1),
                "log": lambda: ctx.info("x"),
                "notify": lambda: ctx.notify("notifications/x"),
                "read": lambda: ctx.read_resource("data://x"),
                "call": lambda: ctx.call_tool("body"),
            }
            for name, make in calls.items():
                try:
                    await make()
                except asyncio.CancelledError:
                    continue
                reached.append(name)
            raise

    assert await outcome(Call(app).finish(always(1))) == "1"
    assert reached == []


async def test_a_heartbeat_beside_a_question_does_not_hold_the_round(app):
    """Progress is not activity, or a busy heartbeat would never let the round end; nor does it outlive the round."""
    beats: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def beat() -> None:
            while True:
                beats.append(1)
                await ctx.progress(len(beats))
                await asyncio.sleep(0)

        tasks.append(asyncio.create_task(beat()))
        try:
            return str((await ctx.elicit("a", int)).data)
        finally:
            if not ctx.suspending:
                tasks[-1].cancel()

    assert await outcome(Call(app).finish(always(1))) == "1"
    await settled()
    assert [task.done() for task in tasks] == [True, True]
    assert beats


async def test_a_short_timeout_around_a_question_ends_one_way_or_the_other(app):
    """The time-out may expire while the round ends; the call must neither hang nor leave the task marked."""
    counts: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.001):
                return str((await ctx.elicit("a", int)).data)
        except TimeoutError:
            return "timed out"

    async def request(call: Call, responses: Any = None) -> None:
        await call.send(responses)
        task = asyncio.current_task()
        assert task is not None
        counts.append(task.cancelling())

    for _ in range(50):
        call = Call(app)
        await asyncio.create_task(request(call))
        for _ in range(3):
            if call.result is not None:
                break
            await asyncio.create_task(request(call, dict.fromkeys(call.requests, accept(1))))
        assert (call.result or {})["content"][0]["text"] in ("1", "timed out")
    assert set(counts) == {0}


async def test_a_timeout_that_expires_in_the_very_moment_leaves_no_mark(app):
    """The count at the time of our cancellation may hold a time-out's, which is taken back before the body ends."""

    @app.tool
    async def body(ctx: Context) -> str:
        async with asyncio.timeout(None) as limit:
            asking = asyncio.ensure_future(ctx.elicit("a", int))
            await asyncio.sleep(0)
            if not ctx.replaying:  # expire while the supervisor counts its passes
                limit.reschedule(asyncio.get_running_loop().time())
            try:
                return str((await asking).data)
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
                raise
        return ""

    async def request(call: Call) -> int:
        with contextlib.suppress(Exception):
            await call.send()
        task = asyncio.current_task()
        return 0 if task is None else task.cancelling()

    assert await asyncio.create_task(request(Call(app))) == 0


async def test_a_real_cancellation_during_a_question_is_not_a_suspension(app):
    """The client went away while the body computes beside its question."""
    seen: list[str] = []
    gate = asyncio.Event()

    @app.tool
    async def body(ctx: Context) -> str:
        async def busy() -> None:
            await ctx.step("slow", gate.wait)

        try:
            await asyncio.gather(busy(), ctx.elicit("a", int))
        except asyncio.CancelledError:
            seen.append("suspending" if ctx.suspending else "cancelled")
            raise
        return "no"

    task = asyncio.ensure_future(Call(app).request())
    await settled()
    task.cancel()
    await settled()
    assert not task.done()  # a step is running, and is waited for
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


class SlowBlobs:
    """A store whose writes wait until the test releases them."""

    def __init__(self) -> None:
        self.called, self.go = asyncio.Event(), asyncio.Event()
        self.kept: dict[str, bytes] = {}

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        self.called.set()
        await self.go.wait()
        self.kept[key] = value

    async def get(self, key: str) -> bytes | None:
        return self.kept.get(key)


async def test_a_real_cancellation_while_the_state_is_sealed_stands(app):
    """The store is slow, and the client goes away in that moment."""
    blobs = SlowBlobs()
    settings_of(app).blobs = blobs
    settings_of(app).state = replace(settings_of(app).state, inline_bytes=10)

    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    task = asyncio.ensure_future(Call(app).request())
    await blobs.called.wait()
    task.cancel()
    await settled()
    blobs.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_body_that_ends_while_the_state_is_sealed_still_gives_the_round(app):
    """The round was decided; losing the reply would lose the call."""
    blobs = SlowBlobs()
    settings_of(app).blobs = blobs
    settings_of(app).state = replace(settings_of(app).state, inline_bytes=10)
    go_on = asyncio.Event()
    asks = iter([True, False])

    @app.tool
    async def body(ctx: Context) -> str:
        asking = asyncio.ensure_future(ctx.elicit("a", int))
        if next(asks):
            await go_on.wait()
            return "too early"
        return str((await asking).data)

    call = Call(app)
    task = asyncio.ensure_future(call.send())
    await blobs.called.wait()
    go_on.set()
    await settled()
    assert not task.done()
    blobs.go.set()
    await task
    assert call.texts == ["a"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "2"


async def test_an_orphan_question_is_released_when_the_body_returns(app):
    """No task awaits it; a task that waits for ever would be a leak."""
    tasks: list[asyncio.Task[Any]] = []

    @app.tool
    async def body(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.elicit("a", int)))
        await asyncio.sleep(0)
        return "done"

    assert await outcome(Call(app).request()) == "done"
    await settled()
    assert tasks[0].cancelled()


async def test_an_orphan_cannot_ask_after_the_call_has_ended(app):
    """In both eras, since no answer could be delivered."""
    late: list[Any] = []

    @app.tool
    async def body(ctx: Context) -> str:
        started = ctx.started_at  # the engine exists

        async def orphan() -> None:
            await settled(5)
            for ask in (lambda: ctx.elicit("a", int), lambda: ctx.step("s", list), lambda: ctx.gather()):
                try:
                    await ask()
                except Exception as error:
                    late.append(type(error).__name__)

        task = asyncio.create_task(orphan())
        late.append(task)
        return "done" if started else ""

    assert await both(app, always(1)) == "done"
    await settled()
    assert [each for each in late if isinstance(each, str)] == ["NotSupportedHere"] * 6


async def test_an_unawaited_task_runs_every_round(app):
    """As the pages describe: code outside a step runs once per round."""
    runs: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def aside() -> None:
            runs.append(1)

        task = asyncio.create_task(aside())
        await ctx.elicit("a", int)
        await task
        return "done"

    await Call(app).finish(always(1))
    assert len(runs) == 2


async def test_an_unawaited_step_is_waited_for_and_runs_once(app):
    """A round that ended without it would charge again."""
    effects: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def charge() -> str:
            await asyncio.sleep(0.01)
            effects.append("charged")
            return "ok"

        task = asyncio.create_task(ctx.step("charge", charge))
        answer = await ctx.elicit("a", int)
        return f"{await task} {answer.data}"

    assert await outcome(Call(app).finish(always(1))) == "ok 1"
    assert effects == ["charged"]


@pytest.mark.parametrize("passes", range(24))
async def test_a_step_that_begins_while_the_round_ends_is_recorded_or_not_run(app, passes):
    """Whatever pass of the loop it begins in: a step that ran and was forgotten would run again."""
    effects: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def late() -> None:
            for _ in range(passes):
                await asyncio.sleep(0)
            await ctx.step("charge", charge)

        async def charge() -> None:
            await asyncio.sleep(0)
            effects.append("charged")

        answer, _ = await asyncio.gather(ctx.elicit("a", int), late())
        return str(answer.data)

    assert await outcome(Call(app).finish(always(1))) == "1"
    assert effects == ["charged"]


async def test_a_sync_tool_in_a_thread_asks(app):
    """`ctx.from_thread(ctx.elicit, …)` works in both eras, and its thread ends with the round."""
    threads: list[threading.Thread] = []

    @app.tool
    def body(ctx: Context) -> str:
        threads.append(threading.current_thread())
        first = ctx.from_thread(ctx.elicit, "a", int)
        return f"{first.data} {ctx.from_thread(ctx.elicit, 'b', int).data}"

    assert await both(app, always(5)) == "5 5"
    assert len(threads) == 4


async def test_a_sync_tool_cannot_mistake_suspension_for_a_failure(app):
    """`concurrent.futures.CancelledError` is an Exception: a body would catch it and go on in the wrong way."""
    wrong: list[Any] = []

    @app.tool
    def body(ctx: Context) -> str:
        try:
            return str(ctx.from_thread(ctx.elicit, "a", int).data)
        except Exception as error:
            wrong.append(error)
            return "fallback"

    assert await outcome(Call(app).finish(always(5))) == "5"
    assert wrong == []


async def test_a_sync_tool_sees_that_its_round_is_over(app):
    """`ctx.cancelled` is what a loop in a thread looks at."""
    seen = threading.Event()

    @app.tool
    def body(ctx: Context) -> str:
        if not ctx.replaying and not ctx.request.params.input_responses:
            asking = threading.Thread(target=lambda: None)
            asking.start()

        async def ask_beside() -> None:
            tasks.append(asyncio.ensure_future(ctx.elicit("a", int)))

        tasks: list[Any] = []
        ctx.from_thread(ask_beside)
        deadline = time.monotonic() + 30
        while not ctx.cancelled and time.monotonic() < deadline:
            time.sleep(0.001)
        if ctx.cancelled:
            seen.set()
        return "late"

    call = await Call(app).send()
    assert call.texts == ["a"]
    assert await asyncio.to_thread(seen.wait, 5)


async def _fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("x")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("within", [None, 100.0])
async def test_a_group_that_failed_before_a_question_is_no_cancellation(mode: str, within: float | None) -> None:
    """Until Python 3.12 the count of cancellations stays raised after it; the round ends as any other."""
    app: MCPServer[Any] = MCPServer("groups")

    @app.tool(timeout_s=within)
    async def ask(ctx: Context) -> str:
        first = await ctx.elicit("First?", str)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_fail())
        except* ValueError:
            pass
        second = await ctx.elicit("Second?", str)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_fail())
                group.create_task(asyncio.sleep(10))
        except* ValueError:
            pass
        third = await ctx.elicit("Third?", str)
        return f"{first.data} {second.data} {third.data}"

    task = asyncio.current_task()
    assert task is not None
    async with Client(app, mode=mode, elicitation_handler=lambda params: {"value": params.message[:-1]}) as client:
        for _ in range(2):
            result = await client.call_tool("ask")
            assert result.text == "First Second Third"
            assert task.cancelling() == 0
