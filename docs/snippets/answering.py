"""A client that answers what servers ask."""

# --8<-- [start:code]
from pathlib import Path

from ferrule import Client
from ferrule.errors import SamplingRefused
from ferrule.forms import ServerQuestion
from ferrule.types import CreateMessageRequestParams, ElicitRequestParams


async def ask_user(params: ElicitRequestParams, question: ServerQuestion):
    """A mapping accepts with that content, None declines."""
    print(f"{question.server} asks: {params.message}")
    if params.mode == "url":
        return None  # show params.url to the user; never open it by yourself
    fields = params.requested_schema["properties"]
    return {name: field.get("default", "M") for name, field in fields.items()}


async def ask_model(params: CreateMessageRequestParams):
    """Text is the model's whole answer."""
    if params.max_tokens > 1000:
        raise SamplingRefused("That is more than this user pays for")
    return f"An answer to: {params.messages[-1].content.text}"


def make_client(target) -> Client:
    return Client(
        target,
        elicitation_handler=ask_user,
        elicitation_modes=("form", "url"),
        sampling_handler=ask_model,
        roots=lambda: [Path.cwd()],  # or a list of paths and file:// URIs
    )


# --8<-- [end:code]


# --8<-- [start:ready]
from ferrule.forms import ask_at_terminal, decline, fill_defaults

# ask_at_terminal: on stderr and stdin, one question at a time; a URL is shown, not opened
# fill_defaults:   accepts what has a default for every required field, declines the rest: for tests and batch jobs
# decline:         declines everything
HANDLERS = [ask_at_terminal, fill_defaults, decline]
# --8<-- [end:ready]


# --8<-- [start:hand]
from ferrule.errors import InputRequiredError


async def by_hand(target) -> str:
    """Modern servers only: get the questions as data, and go on with the answers whenever you have them."""
    async with Client(target, elicitation_handler=ask_user, max_rounds=0) as client:
        responses, state = None, None
        while True:
            try:
                done = await client.call_tool("order", input_responses=responses, request_state=state)
                return done.text
            except InputRequiredError as asked:
                state = asked.result.get("requestState")
                responses = {
                    key: {"action": "accept", "content": {"value": "M"}}
                    for key in asked.result.get("inputRequests") or {}
                }


# --8<-- [end:hand]


async def check(mode: str) -> None:
    """In both eras."""
    import warnings
    from typing import Literal

    import pytest

    from ferrule import Context, MCPError, MCPServer
    from ferrule.errors import InputNotProvided

    app = MCPServer("shop", store="memory:")

    @app.tool
    async def order(ctx: Context) -> str:
        size = await ctx.elicit("Which size?", Literal["S", "M"])
        return f"{size.action} {size.data}"

    @app.tool
    async def think(ctx: Context, max_tokens: int = 100) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (await ctx.sample("Why?", max_tokens=max_tokens)).content.text

    @app.tool
    async def where(ctx: Context) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return len(await ctx.roots())

    def client(**options) -> Client:
        return Client(app, mode=mode, **options)

    async with client(elicitation_handler=ask_user, sampling_handler=ask_model, roots=[Path.cwd()]) as able:
        assert (await able.call_tool("order")).text == "accept M"
        assert (await able.call_tool("think")).text == "An answer to: Why?"
        assert (await able.call_tool("where")).data == 1
        refusal = MCPError if mode == "legacy" else InputNotProvided
        with pytest.raises(refusal, match="That is more than this user pays for"):
            await able.call_tool("think", {"max_tokens": 5000})
    async with client(elicitation_handler=decline) as able:
        assert (await able.call_tool("order")).text == "decline None"
    async with client() as unable:
        if mode == "legacy":
            refused = await unable.call_tool("order")
            assert refused.text == "Tool `order` cannot be used: The client did not declare elicitation"
        else:
            with pytest.raises(MCPError, match=r"This request needs a client that declares elicitation \[-32021\]"):
                await unable.call_tool("order")
    if mode == "auto":
        assert await by_hand(app) == "accept M"

    async with client(elicitation_handler=lambda params: {"valeu": "M"}) as wrong:
        assert (await wrong.call_tool("order")).text == (
            "Tool `order` got no answer: The client answered elicitation/create 3 times with an invalid value: "
            "the field value is missing"
        )

    def broken(params):
        raise ValueError("no user is there")

    async with client(elicitation_handler=broken) as failing:
        if mode == "legacy":
            with pytest.raises(MCPError, match=r"Internal error \[-32603\]"):
                await failing.call_tool("order")
        else:
            with pytest.raises(InputNotProvided, match="the handler failed: ValueError"):
                await failing.call_tool("order")
    assert isinstance(make_client(app), Client)
    assert len(HANDLERS) == 3
