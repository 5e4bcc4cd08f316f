"""How often, and how much."""

# --8<-- [start:code]
from ferrule import MCPServer
from ferrule.middleware import AccessRequest, Quota, Usage


def price(request: AccessRequest) -> int:
    """Each picture costs ten; everything else one."""
    if request.name != "paint":
        return 1
    count = (request.arguments or {}).get("count", 1)  # as the client sent it: nothing has checked it yet
    return 10 * max(1, count) if type(count) is int else 10


app = MCPServer(
    "studio",
    store="memory:",  # "redis://…" or "sqlite:///…" counts for all workers together
    middleware=[
        Quota(100, window_s=60, per="subject", cost=price),  # 100 tokens a minute for each user
        Quota(10_000, window_s=86_400, per=("tenant", "tool")),  # and a bucket for each tool of each tenant
    ],
)


@app.tool
def paint(count: int = 1) -> str:
    return "picture " * count


# --8<-- [end:code]


# --8<-- [start:after]
def by_size(usage: Usage) -> int:
    return usage.result_bytes // 10_000 + round(usage.duration_s)


measured = MCPServer("measured", middleware=[Quota(1000, window_s=3600, cost_after=by_size)])
# --8<-- [end:after]


@measured.tool
def export() -> str:
    return "x" * 400_000


async def check(mode: str) -> None:
    """In both eras; buckets are of this process."""
    from types import SimpleNamespace

    for sent, cost in ((-5, 10), ("many", 10), (None, 10), (3, 30)):
        assert price(SimpleNamespace(name="paint", arguments={"count": sent})) == cost
    import pytest

    from ferrule import Client, MCPError

    app.lowlevel.middleware[:] = [Quota(100, window_s=60, cost=price)]
    async with Client(app, mode=mode) as client:
        await client.call_tool("paint", {"count": 9})
        with pytest.raises(MCPError) as refused:
            await client.call_tool("paint", {"count": 2})
        assert str(refused.value) == "The quota is used up; try again later [429]"
        assert 0 < refused.value.data["retryAfterMs"] <= 6000
        await client.call_tool("paint", {"count": 1})
        with pytest.raises(MCPError) as refused:
            await client.call_tool("paint", {"count": 20})
        assert str(refused.value) == "This request costs more than the whole quota [429]"
    async with Client(measured, mode=mode) as client:
        await client.call_tool("export")
