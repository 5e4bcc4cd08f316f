"""``search_tools``, ``describe_tool`` and ``call_tool`` in place of a long list, in both eras."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.search.tools import ALWAYS_LISTED
from ferrule.search.definitions import MAX_LISTED
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

pytestmark = pytest.mark.anyio

MODES = ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]]


def shop(mode: Any = True, *, tools: int = 0) -> MCPServer[Any]:
    app = MCPServer("shop", tool_search=mode)

    @app.tool
    def create_order(item: str, count: int = 1) -> dict[str, Any]:
        """Create an order for an item of the stock."""
        return {"item": item, "count": count}

    @app.tool(title="Remove an order")
    def delete_order(number: int) -> str:
        return f"deleted {number}"

    @app.tool
    async def confirm(ctx: Context) -> str:
        """Ask the user whether to go on."""
        answer = await ctx.elicit("Go on?", bool)
        return str(answer)

    @app.tool(tags=[ALWAYS_LISTED])
    def help_me() -> str:
        """Say how the shop works."""
        return "ask"

    for number in range(tools):
        app.add_tool(lambda: "x", name=f"other_{number}")
    return app


async def names(client: Any) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def test_the_list_has_the_search_and_what_is_always_listed() -> None:
    async with Client(shop()) as client:
        assert await names(client) == ["help_me", "search_tools", "describe_tool", "call_tool"]


async def test_auto_lists_all_until_there_are_too_many() -> None:
    async with Client(shop("auto")) as client:
        assert "create_order" in await names(client)
        assert "search_tools" not in await names(client)
    async with Client(shop("auto", tools=MAX_LISTED)) as client:
        assert await names(client) == ["help_me", "search_tools", "describe_tool", "call_tool"]


async def test_a_number_lists_that_many() -> None:
    async with Client(shop(4)) as client:
        assert await names(client) == ["create_order", "delete_order", "confirm", "help_me"]
    async with Client(shop(3)) as client:
        assert await names(client) == ["help_me", "search_tools", "describe_tool", "call_tool"]


@pytest.mark.parametrize("mode", ["sometimes", -1, 2.5])
def test_a_mode_that_does_not_exist_is_refused(mode: Any) -> None:
    with pytest.raises(ValueError, match="tool_search is True"):
        MCPServer("shop", tool_search=mode)


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_is_found_described_and_called(mode: Any) -> None:
    async with Client(shop(), mode=mode) as client:
        found = (await client.call_tool("search_tools", {"query": "make a new order"})).structured_content
        assert found["tools"][0]["name"] == "create_order"
        assert found["tools"][0]["required"] == ["item"]
        described = (await client.call_tool("describe_tool", {"name": "create_order"})).structured_content
        assert described["inputSchema"]["required"] == ["item"]
        result = await client.call_tool("call_tool", {"name": "create_order", "arguments": {"item": "nut"}})
        assert result.structured_content == {"item": "nut", "count": 1}
        assert (await client.call_tool("create_order", {"item": "nut"})).structured_content["item"] == "nut"


async def test_an_empty_query_lists_all_page_by_page() -> None:
    async with Client(shop(tools=10)) as client:
        first = (await client.call_tool("search_tools", {"query": "", "limit": 10})).structured_content
        second = (await client.call_tool("search_tools", {"query": "", "limit": 10, "offset": 10})).structured_content
        assert first["total"] == first["found"] == 14
        assert len({tool["name"] for tool in first["tools"] + second["tools"]}) == 14


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"name": 3},
        {"name": "create_order", "arguments": 3},
        {"name": "create_order", "extra": 1},
        {"name": "nothing"},
    ],
)
async def test_a_wrong_call_is_an_error_that_says_what_to_do(arguments: dict[str, Any]) -> None:
    async with Client(shop()) as client:
        result = await client.call_tool("call_tool", arguments)
        assert result.is_error
        inner = await client.call_tool("call_tool", {"name": "create_order", "arguments": {"item": 3}})
        assert inner.is_error
        assert "create_order" in inner.text


async def test_a_tool_that_is_added_is_found() -> None:
    app = shop()
    async with Client(app) as client:
        await client.call_tool("search_tools", {"query": "refund"})
        app.add_tool(lambda: "done", name="refund_payment")
        found = (await client.call_tool("search_tools", {"query": "refund"})).structured_content
        assert [tool["name"] for tool in found["tools"]] == ["refund_payment"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_that_asks_works_through_the_search(mode: Any) -> None:
    """The rounds of the question belong to the outer request."""

    async with Client(shop(), mode=mode, elicitation_handler=lambda params: {"value": True}) as client:
        result = await client.call_tool("call_tool", {"name": "confirm"})
        assert not result.is_error
        assert "accept" in result.text
