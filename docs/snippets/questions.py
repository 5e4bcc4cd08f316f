"""Asking the user, and taking effect once."""

# --8<-- [start:code]
from typing import Literal

from ferrule import Client, Context, MCPServer, ToolError

app = MCPServer("shop", store="memory:")
CHARGES: list[int] = []


def charge(cents: int) -> str:
    CHARGES.append(cents)
    return f"charge {len(CHARGES)}"


@app.tool
async def order(product: str, ctx: Context) -> str:
    """Order a product."""
    size = await ctx.elicit(f"Which size of {product}?", Literal["S", "M"])
    if not size.accepted:
        raise ToolError("Nothing was ordered: no size was chosen.")
    consent = await ctx.elicit("Charge 9 euros?", bool)
    if not consent.data:
        raise ToolError("Nothing was ordered: the charge was refused.")
    return await ctx.step("charge", charge, 900, once=True)


# --8<-- [end:code]


# --8<-- [start:client]
def answer(params):
    """Called for each question; the plain value is the form's content, in either era."""
    name, field = next(iter(params.requested_schema["properties"].items()))
    return {name: True if field.get("type") == "boolean" else "M"}


# --8<-- [end:client]


async def check(mode: str) -> None:
    """One charge per call in both eras."""
    before = len(CHARGES)
    async with Client(app, mode=mode, elicitation_handler=answer) as client:
        done = await client.call_tool("order", {"product": "shirt"}, raise_on_error=True)
        assert done.text.startswith("charge")
    assert len(CHARGES) == before + 1
