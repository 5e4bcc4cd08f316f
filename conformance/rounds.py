"""The multi-round fixtures of the suite: each body asks through `Context` and knows no era.

One asks by hand: the scenario ``input-required-result-ignore-extra-params`` makes a first call that already brings
answers, and wants it done. `Context.elicit` would ask: to it an answer counts only for a question that a sealed state
says was asked, in these words, for these arguments. A function that returns `InputRequired` decides which answers it
takes, and this tool takes any that fits.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fixtures import form

from ferrule import Context, InputRequired, MCPServer
from ferrule.app.rounds.questions import elicit_question

app = MCPServer("rounds")

NAME = form(name={"type": "string"})
OK = form(ok={"type": "boolean"})


def said(answer: Any, field: str) -> Any:
    """A field of an accepted form."""
    return answer.data[field] if answer.accepted else None


@app.tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequired:
    """Asks for a name by hand, then greets."""
    question = elicit_question("What is your name?", NAME)
    answer = ctx.answer_to("user_name", question)
    return InputRequired({"user_name": question}) if answer is None else f"Hello, {said(answer, 'name')}!"


@app.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the client's model for a capital."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"The model said: {answer.text}"


@app.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    return f"Roots: {[root.uri for root in await ctx.roots(key='client_roots')]}"


@app.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for a confirmation and keeps a state."""
    return f"state-ok: {said(await ctx.elicit('Please confirm', OK, key='confirm'), 'ok')}"


@app.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks three things at once."""
    name, _, _ = await asyncio.gather(
        ctx.elicit("What is your name?", NAME, key="user_name"),
        ctx.sample("Write a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"Name, greeting and roots received: {said(name, 'name')}"


@app.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks two things, one after the other."""
    name = await ctx.elicit("What is your name?", NAME, key="step1")
    color = await ctx.elicit("What is your favourite colour?", form(color={"type": "string"}), key="step2")
    return f"{said(name, 'name')} likes {said(color, 'color')}"


@app.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Keeps a state that must come back unchanged."""
    await ctx.elicit("Please confirm", OK, key="confirm")
    return "The state is intact"


@app.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks only for what the client declared."""
    questions: list[Any] = []
    if ctx.client_capabilities.elicitation is not None:
        questions.append(ctx.elicit("What is your name?", NAME, key="user_name"))
    if ctx.client_capabilities.sampling is not None:
        questions.append(ctx.sample("Write a greeting", max_tokens=50, key="greeting"))
    await asyncio.gather(*questions)
    return "Everything that could be asked was answered"


@app.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs the sampling capability."""
    return (await ctx.sample("Are you there?", key="there")).model


@app.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks the user while it streams, which must not become a request on the stream."""
    await ctx.progress(1, 2)
    return f"Answered {said(await ctx.elicit('What is your name?', NAME, key='user_name'), 'name')}"


@app.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the client first."""
    answer = await ctx.elicit("What is the context?", form(context={"type": "string"}), key="user_context")
    return f"Use this context: {said(answer, 'context')}"
