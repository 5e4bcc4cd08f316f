"""Versions of tools, side by side."""

from __future__ import annotations

# --8<-- [start:code]
from dataclasses import dataclass

from ferrule import Client, MCPServer

app = MCPServer("shop", version="2.0")


@dataclass
class Price:
    amount: float
    currency: str


@app.tool("price", tags={"v1"}, annotations={"readOnlyHint": True})
def price_v1(article: str) -> float:
    """Price of an article in euros. Deprecated, will be removed on 2027-01-31: use price_v2."""
    return price(article).amount


@app.tool("price_v2", annotations={"readOnlyHint": True})
def price(article: str, currency: str = "EUR") -> Price:
    """Price of an article, in the currency that you name."""
    return Price(9.5, currency)


def end_v1() -> None:
    """Take the old version away while the server runs; clients that listen are notified."""
    app.disable(tag="v1")


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("price", {"article": "ring"})).data == 9.5
        assert (await client.call_tool("price_v2", {"article": "ring"}, result_type=Price)).data == Price(9.5, "EUR")
        end_v1()
        assert [tool.name for tool in await client.list_tools()] == ["price_v2"]
        app.enable(tag="v1")
