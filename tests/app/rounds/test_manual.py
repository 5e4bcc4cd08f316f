"""Returning input requests by hand: both eras, and the only way on trio."""

from __future__ import annotations

import pytest

from ferrule import Context, MCPServer
from ferrule.app.rounds.manual import InputRequired
from ferrule.app.rounds.questions import elicit_question, roots_question
from tests.app.rounds.driving import Call, accept, always, both, outcome, push, served

pytestmark = [pytest.mark.anyio]


def by_hand(app: MCPServer) -> None:
    @app.tool
    async def body(ctx: Context) -> str | InputRequired:
        said = ctx.input_responses
        if ctx.input_state is None:
            return InputRequired({"a": elicit_question("first", int)}, state={"n": 1})
        if ctx.input_state["n"] == 1:
            answer = ctx.answer_to("a", elicit_question("first", int))
            asked = {
                "method": "elicitation/create",
                "params": {"message": "second", "requestedSchema": {"type": "object", "properties": {}}},
            }
            return InputRequired({"b": asked}, state={"n": 2, "first": answer.data})
        return f"{ctx.input_state['first']} {said['b']['action']}"


async def test_it_serves_both_eras():
    app = served()
    by_hand(app)
    assert await both(app, always(7)) == "7 accept"


@pytest.mark.usefixtures("any_backend")
async def test_it_works_on_any_loop():
    """On trio a body cannot be run again by the engine, but this form can."""
    app = served()
    by_hand(app)
    call = await (await Call(app).send()).send({"a": accept(7)})
    await call.send({"b": accept(1)})
    assert call.result["content"][0]["text"] == "7 accept"


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_a_modern_question_raises_with_the_alternative(anyio_backend):
    app = served()

    @app.tool
    async def body(ctx: Context) -> str:
        assert ctx.idempotency_key("x")
        problems = []
        for ask in (lambda: ctx.elicit("a", int), ctx.roots, lambda: ctx.step("s", list), ctx.gather):
            try:
                await ask()
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
        return "\n".join(problems)

    text = await outcome(Call(app).request())
    assert text.count("NotSupportedHere") == 4
    assert "InputRequired" in text


async def test_an_undeclared_capability_is_refused():
    app = served()
    by_hand(app)
    call = Call(app)
    call.capabilities = {}
    assert (await outcome(call.request())).startswith("-32021")


async def test_state_alone_sheds_load():
    """`requestState` without questions: the client comes back at once, perhaps to another instance."""
    app = served()

    @app.tool
    async def body(ctx: Context) -> str | InputRequired:
        return InputRequired(state=1) if ctx.input_state is None else f"resumed {ctx.input_state}"

    call = await Call(app).send()
    assert (call.requests, bool(call.state)) == ({}, True)
    await call.send()
    assert call.result["content"][0]["text"] == "resumed 1"
    assert await outcome(push(app, always(1))) == "resumed 1"


async def test_manual_rounds_are_limited():
    app = served(max_rounds=3)

    @app.tool
    async def body(ctx: Context) -> InputRequired:
        return InputRequired({"r": roots_question()})

    roots = {"roots": []}
    call = await (await Call(app).send()).send({"r": roots})
    assert await outcome(call.request({"r": roots})) == "-32602 too_many_rounds"
    assert await outcome(push(app, lambda method, params: roots)) == "-32602 too_many_rounds"


async def test_both_forms_may_be_mixed():
    """What was asked by the engine before is not asked again."""
    app = served()

    @app.tool
    async def body(ctx: Context) -> str | InputRequired:
        first = await ctx.elicit("first", int)
        if "b" not in ctx.input_responses:
            return InputRequired({"b": elicit_question("second", int)})
        return f"{first.data} {ctx.input_responses['b']['content']['value']}"

    call = await Call(app).send()
    await call.reply(accept(1))
    assert list(call.requests) == ["b"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


async def test_an_answer_that_is_missing_or_does_not_fit_is_none():
    """The function then repeats the question, and never gets a form that does not fit."""
    app = served()
    question = elicit_question("number", int)

    @app.tool
    async def body(ctx: Context) -> str | InputRequired:
        answer = ctx.answer_to("n", question)
        return InputRequired({"n": question}) if answer is None else f"{answer.action} {answer.data}"

    for responses in (None, {"other": accept(1)}, {"n": accept("many")}, {"n": {"action": "perhaps"}}):
        call = await Call(app).send(responses)
        assert list(call.requests) == ["n"]
    call = await Call(app).send({"n": accept(3)})
    assert call.result["content"][0]["text"] == "accept 3"
