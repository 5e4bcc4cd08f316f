"""Tools of several servers, found by words."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import ClientGroup, MCPServer

pytestmark = pytest.mark.anyio
ERAS = ["2026-07-28", "2025-11-25", "2024-11-05"]


def server(kind: str, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer(kind, **options)
    for verb in ("create", "cancel", "list"):
        app.add_tool(lambda number=0: f"{number}", name=f"{verb}_{kind}", description=f"{verb.title()} one.")
    return app


def names(tools: list[Any]) -> list[str]:
    return [tool.name for tool in tools]


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_best_of_all_servers_comes_first(mode: str) -> None:
    async with ClientGroup({"shop": server("order"), "office": server("meeting")}, mode=mode) as group:
        found = await group.search_tools("cancel a meeting")
        assert names(found)[0] == "office_cancel_meeting"
        assert found[0].input_schema["properties"].keys() == {"number"}
        assert (await group.call_tool(found[0].name, {"number": 7})).text == "7"
        assert len(await group.search_tools("order", limit=2)) == 2
        assert await group.search_tools("") == []
        with pytest.raises(ValueError, match="1 or more"):
            await group.search_tools("order", limit=0)


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_behind_a_search_are_found_and_called(mode: str) -> None:
    """Whole, and without the search itself: a model that is given tools needs no further search."""
    targets = {"shop": server("order", tool_search=True), "office": server("meeting")}
    async with ClientGroup(targets, mode=mode) as group:
        assert "shop_search_tools" in names(await group.list_tools())
        found = await group.search_tools("cancel order")
        assert names(found)[:2] == ["shop_cancel_order", "office_cancel_meeting"]
        assert found[0].input_schema["properties"].keys() == {"number"}
        assert (await group.call_tool("shop_cancel_order", {"number": 3})).text == "3"
        assert not {"shop_search_tools", "shop_call_tool"} & set(names(await group.search_tools("tools", limit=50)))


async def test_a_tool_that_comes_or_goes_is_found_or_not() -> None:
    app = server("order")
    async with ClientGroup({"shop": app, "wrong": ValueError("an entry")}) as group:
        assert await group.search_tools("weigh") == []
        app.add_tool(lambda: "x", name="weigh")
        assert names(await group.search_tools("weigh")) == ["shop_weigh"]
        app.remove_tool("weigh")
        assert await group.search_tools("weigh") == []


async def test_the_index_is_made_once_for_the_same_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.client.groups import finder

    made: list[int] = []
    real = finder.ToolIndex

    def counting(tools: Any) -> Any:
        made.append(1)
        return real(tools)

    monkeypatch.setattr(finder, "ToolIndex", counting)
    async with ClientGroup({"shop": server("order")}) as group:
        for query in ("order", "cancel", "list"):
            await group.search_tools(query)
    assert len(made) == 1


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_a_tool_that_only_pages_call_is_not_found(mode: str) -> None:
    """What is found is given to a model, and hosts hide such tools from it (MCP Apps, visibility)."""
    app = MCPServer("shop")
    app.add_tool(lambda: "x", name="weigh", meta={"ui": {"visibility": ["app"]}})
    app.add_tool(lambda: "x", name="weigh_again", meta={"ui": {"visibility": ["model"]}})
    async with ClientGroup({"shop": app}, mode=mode) as group:
        assert names(await group.search_tools("weigh")) == ["shop_weigh_again"]
