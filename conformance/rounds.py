"""The multi-round fixtures of the suite on the authoring API: each body asks through `Context` and knows no era.

    python conformance/rounds.py --port 3002      serves http://localhost:3002/mcp

Every check of the ``input-required-result-*`` scenarios passes, with one exception by design: a retry that brings
answers but not the ``requestState`` it was given (``ignore-extra-params``, a warning of the suite) is asked again. An
answer counts only for a question that a sealed state says was asked, in these words.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ferrule import Context, MCPServer

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONTEXT = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}

app = MCPServer("ferrule-conformance-rounds", version="1.0.0")


def said(answer: Any, field: str) -> Any:
    return None if answer.data is None else answer.data[field]


@app.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks for a name, then greets."""
    return f"Hello, {said(await ctx.elicit('What is your name?', NAME, key='user_name'), 'name')}!"


@app.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the client's model for a capital."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"The model said: {answer.model}"


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
    color = await ctx.elicit("What is your favourite colour?", COLOR, key="step2")
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
    """Asks the user while it streams."""
    await ctx.progress(1, 2)
    return f"Answered {said(await ctx.elicit('What is your name?', NAME, key='user_name'), 'name')}"


@app.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the client first."""
    return f"Use this context: {said(await ctx.elicit('What is the context?', CONTEXT, key='user_context'), 'context')}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=3002)
    app.run("http", host="localhost", port=parser.parse_args().port)
