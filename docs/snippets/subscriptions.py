"""Changes that a server sends and a client receives."""

# --8<-- [start:code]
from ferrule import Client, Context, MCPServer

app = MCPServer("stock")
BARS = {"brass": 3}


@app.resource("stock://metals/{metal}")
def bars(metal: str) -> dict[str, int] | None:
    return {"bars": BARS[metal]} if metal in BARS else None


@app.tool
async def take(metal: str, ctx: Context) -> int:
    """Take a bar."""
    BARS[metal] -= 1
    await ctx.notify_resource_updated(f"stock://metals/{metal}")  # outside a request: app.notify_resource_updated(uri)
    return BARS[metal]


# --8<-- [end:code]


# --8<-- [start:client]
async def watch(client: Client, seen: list[str]) -> None:
    async with client.listen(tools=True, uris=["stock://metals/brass"]) as changes:
        await client.call_tool("take", {"metal": "brass"})
        async for event in changes:
            if event.kind == "gap":  # the stream broke: something may have been missed, so look again
                continue
            if event.kind == "resource":
                found = await client.read_resource(event.uri)
                seen.append(found.contents[0].text)
                return
            if event.kind == "tools":
                await client.list_tools()


# --8<-- [end:client]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule import MCPError

    BARS["brass"] = 3
    seen: list[str] = []
    async with Client(app, mode=mode) as client:
        await watch(client, seen)
        assert seen == ['{"bars":2}']
        async with client.listen(uris=["stock://metals/"]) as below:  # everything under it
            await client.call_tool("take", {"metal": "brass"})
            assert (await anext(below)).uri == "stock://metals/brass"
    bare = MCPServer("bare")
    async with Client(bare, mode=mode) as client:
        if mode == "legacy":
            with pytest.raises(MCPError, match=r"Method not found"):
                async with client.listen(uris=["x://y"]):
                    pass
        else:
            async with client.listen(tools=True) as nothing:
                assert not nothing.granted
