"""Rounds of the modern era: steps run once and are replayed in order."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ferrule import Context
from ferrule.app.rounds.errors import AmbiguousKey, NonDeterminismError, StepFailed
from ferrule.app.rounds.journal import Entry
from ferrule.app.rounds.replay import ReplayRounds
from tests.app.rounds.driving import Call, accept, always, both, outcome, push, settings_of, settled

pytestmark = pytest.mark.anyio


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


async def test_a_step_that_raises_a_cancellation_has_failed(app):
    """It is not a cancellation of the call."""

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
    """A body that continues after it has not charged twice."""
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


async def test_new_steps_beside_a_replay_run_after_it(app):
    """They may depend on anything else than the rounds; all of them begin before the next question is asked."""
    rounds: list[int] = []
    ran: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        rounds.append(1)

        async def asks() -> None:
            for text in ("one", "two", "three"):
                await ctx.elicit(text, int, key=text)

        async def works(name: str) -> str:
            if len(rounds) == 3:
                return await ctx.step(name, lambda: ran.append(name) or name)
            return ""

        return str(await ctx.gather(asks(), works("a"), works("b")))

    call = await Call(app).send()
    for text in ("two", "three"):
        await call.reply(accept(1))
        assert call.texts == [text]
    assert ran == ["a", "b"]


def test_a_replay_waits_as_long_as_a_time_out_of_the_body_has_waited(app):
    """It abandoned a step then, and does so again; the longest counts, and what steps returned does not."""
    rounds: Any = object.__new__(ReplayRounds)
    rounds.settings = settings_of(app)
    rounds.settings.replay_wait_s = 2
    rounds._due = {}
    assert rounds._patience_s() == 2
    kinds: list[Any] = [("answer", 900.0), ("step", 800.0), ("abandoned", 5.0), ("abandoned", 7.5), ("in_doubt", 600.0)]
    rounds._due = {str(at): Entry(at, kind, "", value) for at, (kind, value) in enumerate(kinds)}
    assert rounds._patience_s() == 9.5
