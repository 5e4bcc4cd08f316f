"""Results used again, and a limit over all workers."""

# --8<-- [start:code]
from ferrule import Client, MCPServer
from ferrule.middleware import CacheResults, RateLimit

ASKED: list[str] = []

kept = CacheResults(60, tools=["price"], resources=["rates://*"], scope="public")

app = MCPServer(
    "exchange",
    store="memory:",  # "sqlite:///exchange.db" or "redis://…": for all workers
    middleware=[RateLimit(100, per_s=60), kept],  # outermost first: a kept answer counts, too
)


@app.tool
async def price(metal: str) -> float:
    """Asks a slow service."""
    ASKED.append(metal)
    return {"brass": 6.5, "steel": 1.1}[metal]


@app.tool
async def set_price(metal: str, value: float) -> str:
    await kept.forget(app, "price")  # whatever the arguments
    return f"{metal} costs {value}"


# --8<-- [end:code]


async def check(mode: str) -> None:
    """The service is asked once per question, and again after a change."""
    ASKED.clear()
    async with Client(app, mode=mode) as client:
        await client.call_tool("set_price", {"metal": "brass", "value": 7})
        for metal in ("brass", "brass", "steel"):
            assert (await client.call_tool("price", {"metal": metal})).data > 0
        assert ASKED == ["brass", "steel"]
        await client.call_tool("set_price", {"metal": "brass", "value": 7})
        await client.call_tool("price", {"metal": "brass"})
    assert ASKED == ["brass", "steel", "brass"]
