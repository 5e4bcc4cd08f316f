"""One server inside another."""

# --8<-- [start:code]
from ferrule import Client, MCPServer

SEEN: list[str] = []


async def audit(ctx, call_next):
    if ctx.method == "tools/call":
        SEEN.append(ctx.params["name"])
    return await call_next(ctx)


stock = MCPServer("stock", middleware=[audit])


@stock.tool
def count(metal: str) -> int:
    """How many bars."""
    return {"brass": 3, "steel": 8}[metal]


@stock.resource("stock://all")
def everything() -> str:
    return "brass steel"


@stock.resource("stock://metals/{metal}")
def one(metal: str) -> str:
    return metal


app = MCPServer("works")
app.mount(stock, prefix="stock")


@app.tool
def open_hours() -> str:
    """When we are there."""
    return "8 to 5"


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras, now and after a change."""
    import pytest

    from ferrule.errors import RegistrationError

    SEEN.clear()
    async with Client(app, mode=mode) as client:
        assert sorted(tool.name for tool in await client.list_tools()) == ["open_hours", "stock_count"]
        assert (await client.call_tool("stock_count", {"metal": "steel"})).data == 8
        assert SEEN == ["count"]
        assert [str(found.uri) for found in await client.list_resources()] == ["stock://stock/all"]
        assert (await client.read_resource("stock://stock/metals/brass")).contents[0].text == "brass"
        stock.disable(tool="count")
        assert sorted(tool.name for tool in await client.list_tools()) == ["open_hours"]
        stock.enable(tool="count")
    for guest, prefix, why in (
        (app, None, "'works' cannot be mounted in itself"),
        (stock, "a b", "The prefix 'a b' is not 1 to 64 of: letters, digits, '_', '-'"),
        (stock, "stock", "There is already a tool 'stock_count'; remove it first"),
    ):
        with pytest.raises(RegistrationError) as caught:
            app.mount(guest, prefix=prefix)
        assert str(caught.value) == why
