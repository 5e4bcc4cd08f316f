"""A cell of a notebook that is run twice."""

# --8<-- [start:code]
from ferrule import MCPServer

app = MCPServer("scratch", on_duplicate="replace")


@app.tool
def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}"


@app.tool
def greet(name: str) -> str:  # type: ignore[no-redef]  # noqa: F811 - the same cell, changed and run again
    """Greet a person."""
    return f"Good morning, {name}"


# --8<-- [end:code]


async def check(mode: str) -> None:
    """The last one is served."""
    from ferrule import Client

    async with Client(app, mode=mode) as client:
        assert len(await client.list_tools()) == 1
        assert (await client.call_tool("greet", {"name": "Ada"})).text == "Good morning, Ada"
