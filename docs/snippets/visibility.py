"""Showing and hiding components."""

# --8<-- [start:code]
from ferrule import Client, MCPServer

app = MCPServer("works")


@app.tool(tags=["admin"])
def drain() -> str:
    """Drain the tank."""
    return "drained"


@app.tool(tags=["admin", "slow"])
def inspect() -> str:
    """Inspect the tank."""
    return "fine"


@app.tool
def level() -> int:
    """How full the tank is."""
    return 70


app.disable(tag="admin")  # neither listed nor served
app.enable(tool="inspect")
# --8<-- [end:code]


# --8<-- [start:seasonal]
def open_season() -> None:
    """At run time; clients that listen are notified."""

    @app.tool
    def prune() -> str:
        """Prune the vines."""
        return "pruned"


def close_season() -> None:
    app.remove_tool("prune")


# --8<-- [end:seasonal]


async def check(mode: str) -> None:
    """In both eras; a hidden tool does not exist."""
    import pytest

    from ferrule import MCPError

    async with Client(app, mode=mode) as client:
        assert sorted(tool.name for tool in await client.list_tools()) == ["inspect", "level"]
        with pytest.raises(MCPError) as caught:
            await client.call_tool("drain")
        assert str(caught.value) == "Unknown tool: drain [-32602]"
        async with client.listen(tools=True) as changes:
            open_season()
            assert (await anext(changes)).kind == "tools"
            assert "prune" in [tool.name for tool in await client.list_tools()]
            close_season()
    with pytest.raises(KeyError):
        app.disable(tool="drian")
    app.disable(tag="drian")  # no component has it: nothing happens
