"""Resources and templates."""

# --8<-- [start:code]
from ferrule import Client, MCPServer

app = MCPServer("stock", page_size=50)
STOCK_MM = {"brass": 3000, "steel": 8000}


@app.resource("stock://all", mime_type="text/plain")
def everything() -> str:
    """What is in stock."""
    return "\n".join(STOCK_MM)


@app.resource("stock://metals/{metal}")
def one(metal: str) -> dict[str, int] | None:
    """One metal; None means that there is no such resource."""
    return {"length_mm": STOCK_MM[metal]} if metal in STOCK_MM else None


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule import MCPError

    async with Client(app, mode=mode) as client:
        assert (await client.read_resource("stock://all")).contents[0].text == "brass\nsteel"
        assert (await client.read_resource("stock://metals/brass")).contents[0].text == '{"length_mm":3000}'
        with pytest.raises(MCPError) as caught:
            await client.read_resource("stock://metals/gold")
        assert caught.value.code in (-32002, -32602)
