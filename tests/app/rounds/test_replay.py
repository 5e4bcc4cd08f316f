"""The modern era's rounds: every rule and every trap of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.rounds.errors import AmbiguousKey, InvalidAnswer, NonDeterminismError, QuestionExpired, StepFailed
from tests.app.rounds.driving import Call, Dispatch, accept, always, both, outcome, push, served, settings_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return served()


async def settled(passes: int = 30) -> None:
    """Let everything happen that can."""
    for _ in range(passes):
        await asyncio.sleep(0)


# -- rounds ------------------------------------------------------------------------------------------------------------


async def test_a_question_ends_the_round_and_the_retry_goes_on(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return f"{(await ctx.elicit('a', int)).data} {(await ctx.elicit('b', int)).data}"

    call = await Call(app).send()
    assert call.texts == ["a"]
    assert (await call.reply(accept(1))).texts == ["b"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


async def test_all_parked_questions_form_one_round(app):
    """Whether they came from gather, a task group or ctx.gather."""

    @app.tool
    async def body(ctx: Context) -> str:
        async def ask(text: str) -> int | None:
            return (await ctx.elicit(text, int)).data

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask("a")), group.create_task(ask("b"))]
        got = [task.result() for task in tasks]
        got += await asyncio.gather(ask("c"), ask("d"))
        return str(got + await ctx.gather(ask("e"), ask("e")))

    call = await Call(app).send()
    assert call.texts == ["a", "b"]
    assert (await call.reply(accept(1))).texts == ["c", "d"]
    assert (await call.reply(accept(2))).texts == ["e", "e"]
    await call.reply(accept(3))
    assert call.result["content"][0]["text"] == "[1, 1, 2, 2, 3, 3]"


async def test_partial_answers_are_kept_and_the_rest_is_asked_again(app):
    """Missing answers give a fresh request, not an error; those given are final."""

    @app.tool
    async def body(ctx: Context) -> str:
        answers = await ctx.gather(*(ctx.elicit(text, int, key=text) for text in "ab"))
        return str([answer.data for answer in answers])

    call = await Call(app).send()
    key_a, key_b = call.requests
    await call.send({key_a: accept(1)})
    assert list(call.requests) == [key_b]
    await call.send({key_a: accept(9), key_b: accept(2), "extra": accept(3)})
    assert call.result["content"][0]["text"] == "[1, 2]"


async def test_answers_to_nothing_are_ignored(app):
    """Only outstanding keys are taken: a client cannot answer a question before it was asked."""

    @app.tool
    async def body(ctx: Context) -> str:
        first = await ctx.elicit("a", int, key="a")
        return f"{first.data} {(await ctx.elicit('b', int, key='b')).data}"

    call = await Call(app).send({"a": accept(7), "b": accept(8)})
    assert list(call.requests) == ["a"]
    await call.send({"a": accept(1), "b": accept(8)})
    assert list(call.requests) == ["b"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


async def test_changed_text_asks_again(app):
    """Consent does not carry over to another text under the same key."""
    texts = iter(["pay 1", "pay 1000", "pay 1000"])

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit(next(texts), bool, key="consent")).data)

    call = await Call(app).send()
    await call.reply(accept(True))
    assert call.texts == ["pay 1000"]
    await call.reply(accept(False))
    assert call.result["content"][0]["text"] == "False"


async def test_an_answer_that_came_with_a_changed_text_is_dropped(app):
    """The client answered what it saw, which is not what is asked now."""
    texts = iter(["old", "old", "new", "new"])

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.elicit("first", int)
        return str((await ctx.elicit(next(texts), int, key="k")).data)

    call = await (await Call(app).send()).reply(accept(0))
    assert call.texts == ["old"]
    await call.send({})
    assert call.texts == ["old"]
    await call.reply(accept(1))
    assert call.texts == ["new"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "2"


async def test_finishing_without_asking_again_is_legal(app):
    """A branch of the world may have changed."""
    asks = iter([True, False])

    @app.tool
    async def body(ctx: Context) -> str:
        if next(asks):
            await ctx.elicit("a", int)
        return "done"

    call = await (await Call(app).send()).reply(accept(1))
    assert call.result["content"][0]["text"] == "done"


async def test_idle_rounds_end_the_call(app):
    """A client that comes back without answers would loop for ever."""

    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    call = await (await (await Call(app).send()).send({})).send({})
    assert await outcome(call.request({})) == "-32602 diverged"


async def test_rounds_are_capped():
    app = served(max_rounds=3)

    @app.tool
    async def body(ctx: Context) -> str:
        while True:
            await ctx.elicit("more", int)

    call = await Call(app).send()
    await call.reply(accept(1))
    assert await outcome(call.request(dict.fromkeys(call.requests, accept(1)))) == "-32602 too_many_rounds"


async def test_concurrent_roots_are_one_question(app):
    """Three branches that want the roots ask once, in both eras."""

    @app.tool
    async def body(ctx: Context) -> str:
        found = await asyncio.gather(ctx.roots(), ctx.roots(), ctx.roots())
        return str([[root.uri for root in roots] for roots in found])

    roots = {"roots": [{"uri": "file:///a"}]}
    call = await Call(app).send()
    assert len(call.requests) == 1
    await call.reply(roots)
    dispatch = Dispatch()
    pushed = await push(app, lambda method, params: roots, dispatch=dispatch)
    assert dispatch.asked == ["roots/list"]
    assert pushed["content"][0]["text"] == call.result["content"][0]["text"]


async def test_an_ambiguous_key_is_refused_in_both_eras(app):
    """Whose answer would it be?"""

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await asyncio.gather(ctx.elicit("a", int), ctx.elicit("a", int))
        except AmbiguousKey as error:
            return type(error).__name__
        return "asked"

    assert await both(app, always(1)) == "AmbiguousKey"


@pytest.mark.parametrize("cure", ["key", "scope", "gather"])
async def test_ambiguity_is_cured(app, cure):
    @app.tool
    async def body(ctx: Context) -> str:
        async def scoped(name: str) -> Any:
            with ctx.scope(name):
                return await ctx.elicit("a", int)

        if cure == "key":
            found = await asyncio.gather(*(ctx.elicit("a", int, key=key) for key in "xy"))
        elif cure == "scope":
            found = await asyncio.gather(scoped("x"), scoped("y"))
        else:
            found = await ctx.gather(ctx.elicit("a", int), ctx.elicit("a", int))
        return str([one.data for one in found])

    assert await both(app, always(4)) == "[4, 4]"


async def test_gather_raises_the_first_failure_by_index_after_all_ended(app):
    """Which failure is seen must not depend on timing."""
    ended: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def branch(index: int) -> None:
            for _ in range(3 - index):
                await ctx.elicit("again", int)
            ended.append(index)
            raise ValueError(str(index))

        try:
            await ctx.gather(*(branch(index) for index in range(3)))
        except ValueError as error:
            return f"{error} of {sorted(ended)[:3]}"
        return "no failure"

    ended.clear()
    assert await outcome(push(app, always(1))) == "0 of [0, 1, 2]"
    ended.clear()
    assert (await outcome(Call(app).finish(always(1)))).startswith("0 of")


async def test_branches_are_reenacted_not_shortcut(app):
    """Who was answered first stays first in every later round."""

    @app.tool
    async def body(ctx: Context) -> str:
        order: list[str] = []

        async def branch(name: str) -> None:
            await ctx.elicit(name, int, key=name)
            order.append(name)

        await asyncio.gather(branch("a"), branch("b"))
        await ctx.elicit("end", int, key="end")
        return "".join(order)

    call = await Call(app).send()
    await call.send({"b": accept(1)})
    await call.send({"a": accept(1)})
    assert list(call.requests) == ["end"]
    await call.reply(accept(1))
    assert call.result["content"][0]["text"] == "ba"


# -- suspension --------------------------------------------------------------------------------------------------------


async def test_finally_runs_each_round_and_can_tell(app):
    """Suspension looks like cancellation; `ctx.suspending` tells the two apart."""
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


async def test_replaying_tells_until_the_body_has_caught_up(app):
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


async def test_a_body_that_asks_for_ever_while_unwinding_is_answered_without(app, caplog):
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
        while not call.dispatch.early or "it is parked" not in caplog.text:
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
    """Progress is no activity, or a busy heartbeat would never let the round end; nor does it outlive the round."""
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
    """A store that takes until it is told."""

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
    """Nobody waits for it; a task that waits for ever would be a leak."""
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
    """In both eras: nobody would hear the answer."""
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
    """What the docs say to users: code outside a step runs once per round."""
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


# -- steps -------------------------------------------------------------------------------------------------------------


async def test_a_step_runs_once_however_many_rounds(app):
    effects: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.elicit("a", int)
        done = await ctx.step("charge", lambda what: effects.append(what) or {"id": 7}, "card")
        await ctx.elicit("b", int)
        await ctx.elicit("c", int)
        return str(done)

    assert await outcome(Call(app).finish(always(1))) == "{'id': 7}"
    assert effects == ["card"]


async def test_other_arguments_than_recorded_diverge(app):
    """Charging another amount is another effect: neither silently skipped nor run."""
    amounts = iter([10, 20])
    charged: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.step("charge", charged.append, next(amounts))
        return str(await ctx.elicit("a", int))

    call = await Call(app).send()
    assert await outcome(call.request(dict.fromkeys(call.requests, accept(1)))) == "-32602 diverged"
    assert charged == [10]


async def test_a_renamed_step_is_not_run_before_the_old_one_was_replayed(app):
    """A deployment that renames a step must not charge twice."""
    names = iter(["charge", "charge_card"])
    charged: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.step(next(names), charged.append, "x")
        return str(await ctx.elicit("a", int))

    call = await Call(app).send()
    assert await outcome(call.request(dict.fromkeys(call.requests, accept(1)))) == "-32602 diverged"
    assert charged == ["x"]


@pytest.mark.parametrize("limit", ["wait_for", "timeout", "cancel"])
async def test_a_step_that_the_body_did_not_wait_for_is_never_waited_for(app, limit):
    """The time-out happened: a replay that hands out the result shows the user both outcomes."""
    effects: list[str] = []

    async def slow() -> str:
        await asyncio.sleep(0.02)
        effects.append("charged")
        return "paid"

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            if limit == "wait_for":
                outcome = await asyncio.wait_for(ctx.step("pay", slow), 0.001)
            elif limit == "timeout":
                async with asyncio.timeout(0.001):
                    outcome = await ctx.step("pay", slow)
            else:
                paying = asyncio.ensure_future(ctx.step("pay", slow))
                await settled()
                paying.cancel()
                outcome = await paying
        except (TimeoutError, asyncio.CancelledError):
            outcome = "late"
        first = (await ctx.elicit(f"It is {outcome}, go on?", bool)).data
        last = await ctx.step("note", lambda: outcome)
        await ctx.elicit(f"It is {last}, is that right?", bool)
        return f"{outcome} {last} {first}"

    assert await both(app, always(True)) == "late late True"
    assert effects == ["charged", "charged"], "once per era"


async def test_what_came_after_a_time_out_comes_after_it_again(app):
    """Branches side by side: the answer that came later must not overtake the time-out in the replay."""

    @app.tool
    async def body(ctx: Context) -> str:
        seen = "paid"

        async def pays() -> None:
            nonlocal seen
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ctx.step("pay", asyncio.sleep, 0.02), 0.01)
                return
            seen = "late"

        async def asks() -> str:
            await ctx.elicit("Go on?", bool)
            found = seen
            return await ctx.step("note", lambda: found)

        _, noted = await ctx.gather(pays(), asks())
        await ctx.elicit("Right?", bool)
        return noted

    call = await Call(app).send()
    assert call.texts == ["Go on?"]
    assert (await call.reply(accept(True))).texts == ["Right?"]
    await call.reply(accept(True))
    assert call.result["content"][0]["text"] == "late"


async def test_a_body_that_waits_where_it_did_not_before_diverges(app):
    rounds: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        rounds.append(1)
        paying = asyncio.ensure_future(ctx.step("pay", asyncio.sleep, 0.001))
        await settled(2)
        if len(rounds) == 1:
            paying.cancel()
            await asyncio.wait([paying])
            await ctx.elicit("Go on?", bool)
        await paying
        return "paid"

    call = await Call(app).send()
    assert await outcome(call.request(dict.fromkeys(call.requests, accept(True)))) == "-32602 diverged"


async def test_a_body_that_does_not_wait_for_a_recorded_step_diverges(app):
    """The time-out that is new in a later round: the round before went on with the result."""
    rounds: list[int] = []

    @app.tool
    async def body(ctx: Context, ask_again: bool) -> str:
        rounds.append(1)
        paying = asyncio.ensure_future(ctx.step("pay", lambda: "paid"))
        if len(rounds) % 2:
            await paying
            await ctx.elicit("It is paid, go on?", bool)
        await settled(2)
        paying.cancel()
        await asyncio.wait([paying])
        if ask_again:
            await ctx.elicit("It is not paid, go on?", bool)
        return "not paid"

    for ask_again in (False, True):
        call = await Call(app, ask_again=ask_again).send()
        assert await outcome(call.request(dict.fromkeys(call.requests, accept(True)))) == "-32602 diverged"


async def test_a_new_step_after_everything_was_replayed_runs(app):
    """The guard holds only until the body has caught up."""
    charged: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.step("first", charged.append, "1")
        answer = await ctx.elicit("a", int)
        await ctx.step("second", charged.append, "2")
        return str(answer.data)

    assert await outcome(Call(app).finish(always(1))) == "1"
    assert charged == ["1", "2"]


async def test_a_failed_step_fails_the_same_in_every_round(app):
    """Else the body would take the other way in the next round."""
    tries: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def fails() -> None:
            tries.append(1)
            raise OSError("no network")

        try:
            await ctx.step("send", fails)
        except StepFailed as error:
            answer = await ctx.elicit(f"failed: {error.error}", int)
            return f"{error.name} {error.error} {answer.data}"
        return "sent"

    assert await both(app, always(1)) == "send OSError: no network 1"
    assert len(tries) == 2  # once per era


async def test_a_step_ends_although_the_body_fails_or_is_cancelled(app):
    """An effect that was begun is waited for and recorded."""
    effects: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def slow() -> None:
            await asyncio.sleep(0.01)
            effects.append("done")

        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError("beside")

        await asyncio.gather(ctx.step("slow", slow), fail())
        return "no"

    assert "ValueError" in await outcome(Call(app).request())
    assert effects == ["done"]
    assert "ValueError" in await outcome(push(app, always(1)))


async def test_a_pushed_step_ends_although_the_call_is_cancelled_twice(app):
    effects: list[str] = []
    gate = asyncio.Event()

    @app.tool
    async def body(ctx: Context) -> str:
        async def slow() -> None:
            await gate.wait()
            effects.append("done")

        await ctx.step("slow", slow)
        return "no"

    task = asyncio.ensure_future(push(app, always(1)))
    for _ in range(2):
        await settled()
        task.cancel()
    await settled()
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert effects == ["done"]


async def test_questions_and_steps_inside_a_step_are_refused(app):
    """A step is atomic: it could not be replayed if it asked."""

    @app.tool
    async def body(ctx: Context) -> str:
        async def asks() -> None:
            await ctx.elicit("a", int)

        async def steps() -> None:
            await ctx.step("inner", list)

        problems = []
        for name, function in (("asks", asks), ("steps", steps)):
            try:
                await ctx.step(name, function)
            except StepFailed as error:
                problems.append(error.error.split(":")[0])
        return " ".join(problems)

    assert await both(app, always(1)) == "NotSupportedHere NotSupportedHere"


async def test_a_step_that_raises_a_cancellation_of_its_own_has_failed(app):
    """It is no cancellation of the call."""

    @app.tool
    async def body(ctx: Context) -> str:
        async def cancels() -> None:
            raise asyncio.CancelledError

        try:
            await ctx.step("x", cancels)
        except StepFailed as error:
            return error.error
        return "no"

    assert await both(app, always(1)) == "CancelledError"


async def test_a_result_is_json_from_the_first_round_on(app):
    """What differs between rounds would lead the body astray: tuples, integer keys, not-a-number, bytes."""

    @app.tool
    async def body(ctx: Context) -> str:
        made = await ctx.step("x", lambda: {"t": (1, 2), "k": {1: "a"}, "n": float("nan"), "b": b"\0"})
        await ctx.elicit("a", int)
        return str(made)

    expected = "{'t': [1, 2], 'k': {'1': 'a'}, 'n': None, 'b': 'AA=='}"
    assert await both(app, always(1)) == expected


async def test_a_result_without_a_json_form_is_a_failed_step(app):
    """The effect took place, so that it is recorded and not tried again."""
    runs: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.step("x", lambda: runs.append(1) or object())
        except StepFailed:
            return f"failed {(await ctx.elicit('a', int)).data}"
        return "no"

    assert await outcome(Call(app).finish(always(1))) == "failed 1"
    assert runs == [1]


async def test_the_same_step_in_two_branches_at_once_is_ambiguous(app):
    @app.tool
    async def body(ctx: Context) -> str:
        async def run() -> None:
            await ctx.step("x", asyncio.sleep, 0)

        try:
            await asyncio.gather(run(), run())
        except AmbiguousKey:
            return "ambiguous"
        return "no"

    assert await both(app, always(1)) == "ambiguous"


async def test_a_divergence_can_be_caught_but_nothing_ran(app):
    """Even a body that goes on has not charged twice."""
    names = iter(["one", "two"])
    charged: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.step(next(names), charged.append, "x")
        except NonDeterminismError:
            return "noticed"
        return str(await ctx.elicit("a", int))

    call = await (await Call(app).send()).reply(accept(1))
    assert call.result["content"][0]["text"] == "noticed"
    assert charged == ["x"]


# -- answers -----------------------------------------------------------------------------------------------------------


async def test_a_misfit_is_asked_again_and_the_third_is_the_authors(app):
    """In both eras, and as often."""

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("a", int)).data)
        except InvalidAnswer as error:
            return type(error).__name__

    call = await Call(app).send()
    for _ in range(2):
        await call.reply(accept("no number"))
        assert call.texts == ["a"]
    await call.reply(accept("no number"))
    assert call.result["content"][0]["text"] == "InvalidAnswer"
    dispatch = Dispatch()
    assert await outcome(push(app, always("no"), dispatch=dispatch)) == "InvalidAnswer"
    assert dispatch.asked == ["a"] * 3


async def test_two_misfits_and_a_fit_are_an_answer(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit("a", int)).data)

    call = await Call(app).send()
    for value in ("x", None, 5):
        await call.reply(accept(value))
    assert call.result["content"][0]["text"] == "5"


async def test_an_invalid_answer_is_recorded(app):
    """The body that went on after it must not be asked the same again in the next round."""

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.elicit("a", int)
        except InvalidAnswer:
            return f"instead {(await ctx.elicit('b', int)).data}"
        return "no"

    call = await Call(app).send()
    for _ in range(3):
        await call.reply(accept("x"))
    assert call.texts == ["b"]
    await call.reply(accept(1))
    assert call.result["content"][0]["text"] == "instead 1"


@pytest.mark.parametrize("raw", [{}, {"action": "accept", "content": None}, {"action": 5}, {"result": accept(1)}])
async def test_malformed_answers_are_misfits(app, raw):
    """Also one wrapped as a JSON-RPC result would be (T72)."""

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit("a", int)).data)

    call = await (await Call(app).send()).reply(raw)
    assert call.texts == ["a"]


@pytest.mark.parametrize("raw", [None, 5, "x", []])
async def test_answers_that_are_no_objects_are_invalid_params(app, raw):
    """The request itself is malformed then."""

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit("a", int)).data)

    call = await Call(app).send()
    assert (await outcome(call.request(dict.fromkeys(call.requests, raw)))).startswith("-32602 Invalid params")


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_refusals_are_values(app, action):
    @app.tool
    async def body(ctx: Context) -> str:
        answer = await ctx.elicit("a", int)
        return f"{answer.action} {answer.data}"

    assert await both(app, lambda method, params: {"action": action}) == f"{action} None"


@pytest.mark.parametrize("answered", [True, False])
async def test_a_question_expires(app, answered):
    """Counted from the first time it was asked, by the clock of the operator."""
    now = [1000.0]
    settings_of(app).clock = lambda: now[0]

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("a", int, timeout_s=30)).data)
        except QuestionExpired:
            return f"expired {(await ctx.elicit('b', int)).data}"

    call = await Call(app).send()
    now[0] += 20
    await call.send({})
    assert call.texts == ["a"]
    now[0] += 11
    await call.send(dict.fromkeys(call.requests, accept(1)) if answered else {})
    assert call.texts == ["b"]
    now[0] += 100
    await call.reply(accept(2))  # the expiry is recorded, not judged again
    assert call.result["content"][0]["text"] == "expired 2"


async def test_a_changed_question_has_its_time_anew(app):
    """What was asked before is another question, with its own misfits and its own time."""
    now = [1000.0]
    settings_of(app).clock = lambda: now[0]
    texts = iter(["old", "new", "new"])

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit(next(texts), int, key="k", timeout_s=30)).data)

    call = await Call(app).send()
    now[0] += 20
    await call.send({})
    assert call.texts == ["new"]
    now[0] += 20
    await call.reply(accept(5))
    assert call.result["content"][0]["text"] == "5"


async def test_whoever_was_left_parked_is_released_at_once(app):
    """A body that waits in its clean-up for a branch that asks must not hold the reply for the grace."""
    settings_of(app).grace_s = 60

    @app.tool
    async def body(ctx: Context) -> str:
        asking = asyncio.ensure_future(ctx.elicit("a", int))
        try:
            return str((await asyncio.shield(asking)).data)
        finally:
            await asyncio.wait([asking])

    async with asyncio.timeout(30):
        assert await outcome(Call(app).finish(always(1))) == "1"


async def test_an_undeclared_capability_raises_at_the_call(app):
    """In the modern era, uncaught, it is the -32021 answer; it is checked in every round (T74)."""

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.elicit("a", int)
        return str((await ctx.sample("b")).model)

    call = Call(app)
    call.capabilities = {"elicitation": {}}
    await call.send()
    assert (await outcome(call.request(dict.fromkeys(call.requests, accept(1))))).startswith("-32021")
    call.capabilities = {"sampling": {}}
    assert (await outcome(call.request({}))).startswith("-32021")


# -- the rest ----------------------------------------------------------------------------------------------------------


async def test_what_is_random_or_timed_is_equal_in_every_round(app):
    seen: list[Any] = []

    @app.tool
    async def body(ctx: Context) -> str:
        seen.append((ctx.started_at, ctx.random().random(), ctx.random().random(), ctx.idempotency_key("charge")))
        await ctx.elicit("a", int)
        return "done"

    await Call(app).finish(always(1))
    first, second = seen
    assert first == second
    await Call(app).send()
    assert seen[-1][3] != first[3]


async def test_a_tool_called_by_a_tool_is_part_of_the_call(app):
    """Its questions are the caller's."""

    @app.tool
    async def inner(ctx: Context) -> int | None:
        return (await ctx.elicit("inner", int)).data

    @app.tool
    async def body(ctx: Context) -> str:
        outer = (await ctx.elicit("outer", int)).data
        return f"{outer} {(await ctx.call_tool('inner')).content[0].text}"

    assert await both(app, always(3)) == "3 3"


async def test_a_fault_of_the_engine_is_an_answer_and_not_a_hang(app, monkeypatch, caplog):
    """The body waits for the supervisor; a supervisor that died would leave it there."""
    from ferrule.app.rounds.replay import ReplayRounds

    def broken(*_: Any, **__: Any) -> bool:
        raise RuntimeError("a fault")

    monkeypatch.setattr(ReplayRounds, "_hand_out", broken)

    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    assert (await outcome(Call(app).request())).startswith("-32603")
    assert "a fault" in caplog.text


async def test_the_property_of_the_engine_is_not_a_shortcut(monkeypatch, caplog):
    """A property that a shortcut passes proves nothing: an answered question that returns at once must fail it."""
    import random

    from ferrule.app.rounds.replay import ReplayRounds
    from tests.properties.test_one_body import compare_in_order

    original = ReplayRounds._park

    async def shortcut(self: ReplayRounds, parked: Any) -> Any:
        entry = self._due.pop(parked.key, None)
        if entry is None:
            return await original(self, parked)
        entry.consumed = True
        self._must_replay.discard(parked.key)
        self._fresh.discard(parked.key)
        self._used_new_answer = True
        self.journal.outstanding.pop(parked.key, None)
        return self._read(parked, entry)

    monkeypatch.setattr(ReplayRounds, "_park", shortcut)
    caplog.set_level(logging.CRITICAL, "ferrule")
    failures = 0
    for seed in range(60):
        random.seed(seed)
        try:
            async with asyncio.timeout(30):
                await compare_in_order(seed)
        except (AssertionError, TimeoutError):
            failures += 1
    assert failures


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
