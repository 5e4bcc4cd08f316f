"""Two components with one name."""

from __future__ import annotations

# --8<-- [start:replace]
from ferrule import Client, MCPServer

app = MCPServer("stock")


@app.tool("count")
def count_by_hand() -> int:
    """Count the parts."""
    return 3


def count_by_scale() -> int:
    """Weigh the parts."""
    return 4


def replace() -> None:
    """Put another function in the place of a tool; clients that listen are notified."""
    app.remove_tool("count")
    app.add_tool(count_by_scale, name="count")


# --8<-- [end:replace]

# --8<-- [start:mount]
host = MCPServer("works")
host.mount(app, prefix="north")  # its tool is north_count
host.mount(MCPServer("south"), prefix="south")
# --8<-- [end:mount]

# --8<-- [start:group]
from ferrule import ClientGroup


async def names(north, south) -> list[str]:
    async with ClientGroup({"north": north, "south": south}) as group:
        return [tool.name for tool in await group.list_tools()]


# --8<-- [end:group]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule.errors import RegistrationError

    with pytest.raises(RegistrationError, match="There is already a tool 'count'; remove it first"):
        app.add_tool(count_by_hand, name="count")
    async with Client(app, mode=mode) as client:
        replace()
        assert (await client.call_tool("count")).data == 4
    async with Client(host, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["north_count"]
    assert await names(app, app) == ["north_count", "south_count"]
    app.remove_tool("count")
    app.add_tool(count_by_hand, name="count")
