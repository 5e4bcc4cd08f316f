"""A gateway: one server made of others."""

# --8<-- [start:code]
from ferrule import proxy, run

# Either era on either side: an old stdio server becomes a modern HTTP one, and the reverse.
gateway = proxy("uvx some-old-server", timeout_s=60)

if __name__ == "__main__":
    run(gateway, "http", port=8000)
# --8<-- [end:code]


# --8<-- [start:own]
from ferrule import Client, Context, MCPServer

inner = MCPServer("stock")


@inner.tool
async def count(metal: str) -> int:
    return {"brass": 3, "steel": 8}[metal]


outer = MCPServer("shop")


@outer.tool
async def total(ctx: Context) -> int:
    """A server that uses another one: a client is a value like any other."""
    async with Client(inner) as client:
        return sum([(await client.call_tool("count", {"metal": metal})).data for metal in ("brass", "steel")])


# --8<-- [end:own]


async def check(mode: str) -> None:
    """Each era before, each era behind."""
    import pytest

    from ferrule import MCPError

    for behind in ("legacy", "auto"):
        async with Client(proxy(inner, mode=behind), mode=mode) as client:
            assert client.server_info.name == "stock"
            assert (await client.call_tool("count", {"metal": "steel"})).data == 8
            with pytest.raises(MCPError, match="Unknown tool: sell"):
                await client.call_tool("sell")
    async with Client(outer, mode=mode) as client:
        assert (await client.call_tool("total")).data == 11
    with pytest.raises(Exception, match="no such program"):
        async with Client(proxy("no-such-program"), mode=mode):
            pass
