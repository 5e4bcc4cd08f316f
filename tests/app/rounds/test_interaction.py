"""What `Context` offers a body that asks."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.rounds.questions import elicit_question
from ferrule.types import ElicitResult
from tests.app.rounds.driving import Call, Dispatch, accept, always, both, outcome, push, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return served()


async def test_a_page_is_asked_for_until_it_is_done(app):
    """Accepting is consent to open it, not completion (EL-13)."""
    state = {"visits": 0}

    @app.tool
    async def body(ctx: Context) -> str:
        async def done() -> bool:
            state["visits"] += 1
            return state["visits"] >= 2

        answer = await ctx.elicit_url("Sign in", "https://example.com/sign-in", done=done)
        return answer.action

    accepted = {"action": "accept"}
    call = await Call(app).send()
    (asked,) = call.requests.values()
    assert asked["params"] == {"mode": "url", "message": "Sign in", "url": "https://example.com/sign-in"}
    await call.reply(accepted)
    assert call.texts == ["Sign in"]
    assert call.result is None
    await call.reply(accepted)
    assert (call.result or {})["content"][0]["text"] == "accept"


async def test_legacy_pages_have_an_id(app):
    asked = []

    @app.tool
    async def body(ctx: Context) -> str:
        return (await ctx.elicit_url("Sign in", "https://example.com")).action

    def answer(method, params):
        asked.append(params)
        return {"action": "decline"}

    assert await outcome(push(app, answer)) == "decline"
    assert asked[0]["elicitationId"]


async def test_a_page_that_is_never_done_ends(app):
    @app.tool
    async def body(ctx: Context) -> str:
        async def never() -> bool:
            return False

        try:
            await ctx.elicit_url("x", "https://example.com", done=never)
        except TimeoutError:
            return "given up"
        return "no"

    assert await both(app, lambda method, params: {"action": "accept"}) == "given up"


async def test_sampling_passes_its_options_under_wire_names(app):
    @app.tool
    async def body(ctx: Context) -> str:
        message = await ctx.sample("hi", max_tokens=9, system_prompt="s", stop_sequences=("x",), temperature=0.5)
        return message.model

    call = await Call(app).send()
    (asked,) = call.requests.values()
    assert asked["method"] == "sampling/createMessage"
    assert {**asked["params"], "messages": None} == {
        "messages": None,
        "maxTokens": 9,
        "systemPrompt": "s",
        "stopSequences": ["x"],
        "temperature": 0.5,
    }
    await call.reply({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"})
    assert call.result["content"][0]["text"] == "m"


async def test_tools_for_the_model_need_their_own_capability(app):
    """SA-4: a client that offers sampling may not know tools."""

    @app.tool
    async def body(ctx: Context) -> str:
        return (await ctx.sample("hi", tools=[{"name": "t", "inputSchema": {"type": "object"}}])).model

    call = Call(app)
    call.capabilities = {"sampling": {}}
    assert (await outcome(call.request())).startswith("-32021")
    call.capabilities = {"sampling": {"tools": {}}}
    assert (await call.send()).requests


async def test_a_wish_for_context_goes_to_clients_that_declare_it(app):
    """SA-7: the client may ignore it, so it is no reason to fail."""

    @app.tool
    async def body(ctx: Context) -> str:
        return (await ctx.sample("hi", include_context="thisServer")).model

    for declared, said in (({}, None), ({"context": {}}, "thisServer")):
        call = Call(app)
        call.capabilities = {"sampling": declared}
        (asked,) = (await call.send()).requests.values()
        assert asked["params"].get("includeContext") == said


async def test_a_question_made_elsewhere(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.ask(elicit_question("a", int))).data)

    assert await both(app, always(3)) == "3"


async def test_gather_of_nothing(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.gather())

    assert await both(app, always(3)) == "[]"


async def test_nested_gathers_and_scopes_have_keys_of_their_own(app):
    @app.tool
    async def body(ctx: Context) -> str:
        async def pair() -> list[int | None]:
            return [one.data for one in await ctx.gather(ctx.elicit("a", int), ctx.elicit("a", int))]

        return str([await ctx.gather(pair(), pair()), await pair()])

    call = await Call(app).send()
    assert len(call.requests) == 4
    assert await both(app, always(3)) == "[[[3, 3], [3, 3]], [3, 3]]"


async def test_a_scope_needs_a_legal_name(app):
    @app.tool
    async def body(ctx: Context) -> str:
        with ctx.scope("a/b"):
            return "no"

    assert "RoundsError" in await outcome(push(app, always(1), dispatch=Dispatch()))


async def test_declined_forms_have_no_data(app):
    @app.tool
    async def body(ctx: Context) -> str:
        answer = await ctx.elicit("a", int)
        return f"{answer.accepted} {answer.data}"

    assert await both(app, lambda method, params: {**accept(1), "action": "decline"}) == "False None"


@pytest.mark.parametrize("tool", ["pages", "scopes"])
async def test_each_page_has_an_elicitation_id_of_its_own(tool: str) -> None:
    """2025-11-25: the id says later which page was completed; a page that is shown again keeps its own."""
    app: MCPServer[Any] = MCPServer("pages")
    visits = iter([False, True])

    async def done() -> bool:
        return next(visits)

    @app.tool
    async def pages(ctx: Context) -> str:
        await ctx.elicit_url("First", "https://example.com/1", done=done)
        await ctx.elicit_url("Second", "https://example.com/2")
        return "done"

    @app.tool
    async def scopes(ctx: Context) -> str:
        await ctx.elicit_url("First", "https://example.com/1", done=done)
        with ctx.scope("a"):
            await ctx.elicit_url("Second", "https://example.com/2")
        return "done"

    seen: list[tuple[str, str]] = []

    def answer(params: Any) -> ElicitResult:
        seen.append((params.message, params.elicitation_id))
        return ElicitResult("accept")

    async with Client(app, mode="2025-11-25", elicitation_handler=answer, elicitation_modes=["form", "url"]) as client:
        assert (await client.call_tool(tool)).text == "done"
    assert [message for message, _ in seen] == ["First", "First", "Second"]
    assert seen[0] == seen[1]
    assert seen[1][1] != seen[2][1]
