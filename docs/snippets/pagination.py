"""Pages of lists, and pages of a large result."""

from __future__ import annotations

# --8<-- [start:lists]
from ferrule import MCPServer

app = MCPServer("stock", page_size=50)  # tools, resources, templates and prompts: 50 in each answer


def add_report(year: int) -> None:
    app.add_resource(f"report://{year}", lambda: f"The year {year}", name=f"report {year}")


for year in range(1900, 2020):
    add_report(year)
# --8<-- [end:lists]

# --8<-- [start:client]
from ferrule import Client


async def read_all(target) -> int:
    async with Client(target) as client:
        everything = await client.list_resources()  # follows all pages

        first = await client.list_resources_page()  # or one page at a time
        second = await client.list_resources_page(first.next_cursor)
        assert second.resources[0].uri == everything[50].uri
        return len(everything)


# --8<-- [end:client]

# --8<-- [start:results]
from dataclasses import dataclass
from typing import Annotated

from ferrule import Field, ToolError

ORDERS = [f"order {number}" for number in range(1, 251)]


@dataclass
class Orders:
    orders: list[str]
    total: int
    next_cursor: str | None = None


@app.tool(annotations={"readOnlyHint": True})
def list_orders(cursor: str | None = None, limit: Annotated[int, Field(ge=1, le=100)] = 20) -> Orders:
    """List orders, the oldest first.

    Args:
        cursor: `next_cursor` of the page before; leave it out for the first page.
        limit: how many orders a page has.
    """
    if cursor is not None and not (cursor.isdecimal() and int(cursor) < len(ORDERS)):
        raise ToolError("This cursor is not valid; begin again without one.")
    start = int(cursor or 0)
    end = start + limit
    return Orders(ORDERS[start:end], len(ORDERS), str(end) if end < len(ORDERS) else None)


# --8<-- [end:results]


async def check(mode: str) -> None:
    """In both eras."""
    assert await read_all(app) == 120
    async with Client(app, mode=mode) as client:
        assert len((await client.list_resources_page()).resources) == 50
        seen: list[str] = []
        cursor = None
        while True:
            arguments = {"limit": 100} | ({"cursor": cursor} if cursor else {})
            page = (await client.call_tool("list_orders", arguments, result_type=Orders)).data
            seen += page.orders
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == ORDERS
        wrong = await client.call_tool("list_orders", {"cursor": "x"})
        assert wrong.text == "This cursor is not valid; begin again without one."
        assert (await client.call_tool("list_orders", {"limit": 101})).is_error
