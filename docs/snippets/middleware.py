"""Middleware: ready-made, and your own."""

# --8<-- [start:code]
from ferrule import Client, MCPServer
from ferrule.middleware import LogRequests, MaskErrors, RateLimit, Timing, TimingOf

TIMES: list[TimingOf] = []

app = MCPServer(
    "stock",
    middleware=[  # outermost first
        LogRequests(),  # one line per request on the logger "ferrule.requests"
        Timing(TIMES.append),  # a record per request, for your metrics
        RateLimit(100, per_s=60),  # per principal, else session, else address
        MaskErrors(),  # a reference instead of the text of an unexpected exception
    ],
)


@app.tool
def count(metal: str) -> int:
    return {"brass": 3, "steel": 8}[metal]


# --8<-- [end:code]


# --8<-- [start:own]
from dataclasses import replace


async def no_gold(ctx, call_next):
    """Looks at every request and notification; `ctx.request_id` is None for the latter."""
    if ctx.method == "tools/call" and ctx.params.get("arguments", {}).get("metal") == "gold":
        arguments = {**ctx.params["arguments"], "metal": "brass"}
        ctx = replace(ctx, params={**ctx.params, "arguments": arguments})
    return await call_next(ctx)


app.lowlevel.middleware.append(no_gold)  # innermost; the list may change while the server runs
# --8<-- [end:own]


# --8<-- [start:cache]
from ferrule.middleware import CacheResults

ASKED: list[str] = []
rates_cache = CacheResults(60, tools=["rate"], scope="public")
bank = MCPServer("bank", middleware=[rates_cache])  # last in the list, so that the others see every request


@bank.tool
async def rate(currency: str) -> float:
    """A slow service would be asked here."""
    ASKED.append(currency)
    return 1.08


async def rates_changed() -> None:
    await rates_cache.forget(bank, "rate")


# --8<-- [end:cache]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule import MCPError

    TIMES.clear()
    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("count", {"metal": "gold"})).data == 3
    called = next(time for time in TIMES if time.method == "tools/call")
    assert (called.name, called.outcome) == ("count", "ok")

    ASKED.clear()
    async with Client(bank, mode=mode) as client:
        for _ in range(3):
            assert (await client.call_tool("rate", {"currency": "USD"})).data == 1.08
        await rates_changed()
        await client.call_tool("rate", {"currency": "USD"})
    assert ASKED == ["USD", "USD"]

    small = MCPServer("small", middleware=[RateLimit(1, per_s=60)])

    @small.tool
    def ping() -> str:
        return "pong"

    async with Client(small, mode=mode) as client:
        await client.call_tool("ping")
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ping")
    assert str(caught.value) == "Too many requests; try again later [429]"
    assert 0 < caught.value.data["retryAfterMs"] <= 60_000

    async def fails(ctx, call_next):
        if ctx.method == "tools/call":
            raise RuntimeError("a secret")
        return await call_next(ctx)

    app2 = MCPServer("masked", middleware=[MaskErrors(), fails])
    app2.tool(ping)
    async with Client(app2, mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ping")
    assert caught.value.code == -32603
    assert set(caught.value.data) == {"reference"}
