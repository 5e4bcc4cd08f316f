"""One body for both eras."""

# --8<-- [start:code]
from ferrule import Client, Context, MCPServer, ToolError

app = MCPServer("shop", store="memory:")
LOG: list[str] = []


def charge(cents: int, key: str) -> str:
    LOG.append(f"charge {cents}")
    return f"paid {cents}"


@app.tool
async def order(ctx: Context) -> str:
    """Order a shirt."""
    LOG.append("body")  # once per round
    try:
        size = await ctx.elicit("Which size?", str)  # ask first
        consent = await ctx.elicit(f"Charge 9 euros for size {size.data}?", bool)
        if not consent.data:
            raise ToolError("Not charged.")
        return await ctx.step("charge", charge, 900, ctx.idempotency_key("charge"), once=True)  # take effect last
    finally:
        if not ctx.suspending:
            LOG.append("end")  # once per call


# --8<-- [end:code]


# --8<-- [start:branches]
@app.tool
async def survey(ctx: Context) -> list[str]:
    """Two questions at once: one round, in any order of the answers."""
    first, second = await ctx.gather(
        ctx.elicit("Your name?", str),
        ctx.elicit("Your town?", str),
    )
    return [first.data, second.data]


@app.tool
async def each(names: list[str], ctx: Context) -> list[bool]:
    """The same question in a loop: its occurrence counts. In branches give each a key or a scope."""
    answers = []
    for name in names:
        with ctx.scope(name):
            answers.append((await ctx.elicit("Invite?", bool)).data)
    return answers


# --8<-- [end:branches]


# --8<-- [start:hand]
from ferrule import InputRequired
from ferrule.questions import elicit_question


@app.tool
async def by_hand(ctx: Context) -> str | InputRequired:
    """The same without replay: return the question, keep a state, look at the answers."""
    if "size" not in ctx.input_responses:
        return InputRequired({"size": elicit_question("Which size?", str)}, state={"asked": 1})
    answer = ctx.input_responses["size"]
    return f"{answer['content']['value']}, asked {ctx.input_state['asked']} time"


# --8<-- [end:hand]


# --8<-- [start:test]
async def run_in_both(app: MCPServer) -> list[str]:
    """The cheapest test of a body that asks: both eras give the same."""

    def answer(params):
        name, field = next(iter(params.requested_schema["properties"].items()))
        return {name: True if field["type"] == "boolean" else "M"}

    said = []
    for mode in ("legacy", "2026-07-28"):
        async with Client(app, mode=mode, elicitation_handler=answer) as client:
            said.append((await client.call_tool("order", raise_on_error=True)).text)
    return said


# --8<-- [end:test]


async def check(mode: str) -> None:
    """What the page says of rounds, effects and ends."""

    def answer(params):
        name, field = next(iter(params.requested_schema["properties"].items()))
        return {name: True if field["type"] == "boolean" else "M"}

    LOG.clear()
    assert await run_in_both(app) == ["paid 900", "paid 900"]
    assert LOG == ["body", "charge 900", "end", "body", "body", "body", "charge 900", "end"]
    async with Client(app, mode=mode, elicitation_handler=answer) as client:
        assert (await client.call_tool("survey")).data == ["M", "M"]
        assert (await client.call_tool("each", {"names": ["ada", "bob"]})).data == [True, True]
        assert (await client.call_tool("by_hand")).text == "M, asked 1 time"
