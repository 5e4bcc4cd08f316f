"""Rounds of the modern era: answers that fit, do not fit, are refused or come too late."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import Context
from ferrule.app.rounds.errors import InvalidAnswer, QuestionExpired
from tests.app.rounds.driving import Call, Dispatch, accept, always, both, outcome, push, settings_of

pytestmark = pytest.mark.anyio


async def test_a_misfit_is_asked_again_and_the_third_raises(app):
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
    """Also an answer that is wrapped like a JSON-RPC result."""

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


async def test_waiting_callers_are_released_at_once(app):
    """A body whose clean-up waits for a branch with a question must not delay the reply by the grace period."""
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
    """In the modern era, uncaught, it becomes the error -32021; it is checked in every round."""

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
