"""The methods of `Context` that ask questions."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.rounds.errors import StepFailed
from ferrule.app.rounds.interaction import InteractionMixin
from ferrule.app.rounds.questions import elicit_question
from ferrule.types import ElicitResult
from tests.app.rounds.driving import Call, Dispatch, accept, always, both, outcome, push, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return served()


async def test_the_user_is_sent_to_a_page_until_it_is_done(app):
    """Accepting is consent to open it, not completion."""
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


async def test_the_result_of_done_is_recorded(app):
    """It is a fact from outside: asked again in a later round, it would lead the body another way."""
    visits: list[int] = []
    charged: list[str] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def done() -> bool:
            visits.append(len(visits))
            return len(visits) % 3 == 0

        await ctx.elicit_url("Sign in", "https://example.com/sign-in", done=done)
        amount = (await ctx.elicit("Amount?", int)).data
        await ctx.step("charge", charged.append, f"{amount}")
        again = (await ctx.elicit("Once more?", int)).data
        return f"{amount} {again}"

    def answer(method: str, params: Any) -> Any:
        return {"action": "accept"} if params.get("mode") == "url" else accept(7)

    assert await both(app, answer) == "7 7"
    assert charged == ["7", "7"], "once per era"
    assert len(visits) == 6, "three visits per era, and no visit is judged twice"


async def test_done_that_raises_fails_the_same_in_every_round(app):
    failures = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def done() -> bool:
            failures.append(1)
            raise ConnectionError("the provider is away")

        try:
            await ctx.elicit_url("Sign in", "https://example.com/sign-in", done=done)
        except StepFailed as error:
            await ctx.elicit("Later?", int)
            return error.error
        return "no"

    def answer(method: str, params: Any) -> Any:
        return {"action": "accept"} if params.get("mode") == "url" else accept(7)

    assert await both(app, answer) == "ConnectionError: the provider is away"
    assert len(failures) == 2, "once per era"


async def test_a_step_inside_done_is_part_of_it(app):
    """The answer of `done` is what is recorded; a question there is refused as in a step."""

    @app.tool
    async def body(ctx: Context, asks: bool = False) -> str:
        async def done() -> bool:
            return await ctx.step("look", lambda: True) and (not asks or bool(await ctx.elicit("And?", int)))

        try:
            answer = await ctx.elicit_url("Sign in", "https://example.com/sign-in", done=done)
        except StepFailed as error:
            return error.error.split(":")[0]
        await ctx.step("look", lambda: True)
        return answer.action

    def answer(method: str, params: Any) -> Any:
        return {"action": "accept"}

    assert await both(app, answer) == "accept"
    assert await both(app, answer, asks=True) == "NotSupportedHere"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_withdrawn_call_does_not_wait_for_done(app, era):
    """It may poll for minutes; it takes no effect, so that there is nothing to save."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.tool
    async def body(ctx: Context) -> str:
        async def done() -> bool:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return True

        return (await ctx.elicit_url("Sign in", "https://example.com/sign-in", done=done)).action

    accepted = {"action": "accept"}
    if era == "legacy":
        running = asyncio.ensure_future(push(app, lambda method, params: accepted))
    else:
        call = await Call(app).send()
        running = asyncio.ensure_future(call.request(dict.fromkeys(call.requests, accepted)))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


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
    """A client that offers sampling may not know tools."""

    @app.tool
    async def body(ctx: Context) -> str:
        return (await ctx.sample("hi", tools=[{"name": "t", "inputSchema": {"type": "object"}}])).model

    call = Call(app)
    call.capabilities = {"sampling": {}}
    assert (await outcome(call.request())).startswith("-32021")
    call.capabilities = {"sampling": {"tools": {}}}
    assert (await call.send()).requests


async def test_a_wish_for_context_goes_to_clients_that_declare_it(app):
    """The client may ignore it, so it is no reason to fail."""

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


async def test_nested_gathers_and_scopes_have_separate_keys(app):
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
async def test_each_page_has_its_own_elicitation_id(tool: str) -> None:
    """2025-11-25: the id names the completed page later; a page that is shown again keeps its own."""
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


def test_every_method_that_waits_may_be_called_from_a_thread() -> None:
    """`Context.from_thread` has to run it, and the decorated method says so where it was forgotten."""
    waiting = {
        name: method
        for name, method in vars(InteractionMixin).items()
        if not name.startswith("_") and inspect.iscoroutinefunction(inspect.unwrap(method))
    }
    assert {"ask", "elicit", "gather", "step", "set_status"} <= set(waiting)
    assert [name for name, method in waiting.items() if not hasattr(method, "__wrapped__")] == []


@pytest.mark.parametrize("asks_first", [False, True])
async def test_a_call_that_is_no_task_has_no_task(asks_first):
    """Without support nothing happens, before and after a question."""
    app = served()

    @app.tool
    async def body(ctx: Context) -> str:
        if asks_first:
            await ctx.elicit("a", int)
        await ctx.set_status("working")
        return f"{ctx.task_id} {await ctx.begin_task()} {ctx.task_id}"

    assert await both(app, always(1)) == "None None None"


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25", "2025-06-18"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ElicitResult("accept", content={"confirm": True}), "True"),
        (ElicitResult("accept", content={"confirm": False}), "False"),
        (ElicitResult("decline"), "False"),
        (ElicitResult("cancel"), "False"),
    ],
)
async def test_a_confirmation_is_yes_or_no(mode: str, answer: ElicitResult, expected: str) -> None:
    """Only an explicit yes is one."""
    app = MCPServer("s")
    asked: list[Any] = []

    @app.tool
    async def drop(ctx: Context) -> str:
        return str(await ctx.confirm("Delete note 3?"))

    async def handler(params: Any, _: Any) -> ElicitResult:
        asked.append(params)
        return answer

    async with Client(app, mode=mode, elicitation_handler=handler) as client:
        assert (await client.call_tool("drop")).text == expected
    assert [params.message for params in asked] == ["Delete note 3?"]
    assert list(asked[0].requested_schema["properties"]) == ["confirm"]


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25", "2025-06-18"])
async def test_a_choice_has_labels(mode: str) -> None:
    """As ``oneOf`` with titles, and in 2025-06-18 as ``enumNames``."""
    app = MCPServer("s")
    seen: list[Any] = []

    @app.tool
    async def pick(ctx: Context) -> str:
        return str([await ctx.choose("Size?", {"s": "Small", "l": "Large"}), await ctx.choose("Again?", ["a", "b"])])

    async def handler(params: Any, _: Any) -> ElicitResult:
        field = params.requested_schema["properties"]["choice"]
        seen.append([each["title"] for each in field["oneOf"]] if "oneOf" in field else field.get("enumNames"))
        return ElicitResult("accept", content={"choice": "l"}) if len(seen) == 1 else ElicitResult("decline")

    async with Client(app, mode=mode, elicitation_handler=handler) as client:
        assert (await client.call_tool("pick")).text == "['l', None]"
    assert seen == [["Small", "Large"], None]


async def test_without_a_user_nothing_is_confirmed() -> None:
    """A program that fills in defaults does not delete."""
    from ferrule.forms import fill_defaults

    app = MCPServer("s")

    @app.tool
    async def drop(ctx: Context) -> str:
        return str(await ctx.confirm("Delete?"))

    @app.tool
    async def pick(ctx: Context) -> str:
        return str(await ctx.choose("Size?", []))

    async with Client(app, elicitation_handler=fill_defaults) as client:
        assert (await client.call_tool("drop")).text == "False"
        assert (await client.call_tool("pick")).is_error
