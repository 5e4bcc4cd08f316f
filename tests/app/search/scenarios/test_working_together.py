"""Search beside the other parts of a server: changes, pages, mounts, tasks, mirrored headers, exposed APIs, trio."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from ferrule import Client, Field, MCPServer
from ferrule.expose import from_openapi
from ferrule.extensions.tasks import Tasks
from ferrule.search.definitions import MAX_LISTED
from tests.app.support import EVERY_REVISION, V1125, call
from tests.kernel.fast_path.test_stream_calls import open_line, texts
from tests.kernel.harness import modern
from tests.pipes import line_to
from tests.transports.asgi.support import modern as modern_over_http
from tests.transports.asgi.support import modern_call

pytestmark = pytest.mark.anyio

SEARCH = ["search_tools", "describe_tool", "call_tool"]
MODES = ["auto", V1125]


def warehouse(count: int, mode: Any = "auto", **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("warehouse", tool_search=mode, **options)
    for number in range(count):
        app.add_tool(lambda: "done", name=f"move_{number}")
    return app


async def names(client: Any) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("mode", MODES)
async def test_one_tool_more_turns_the_list_into_a_search_and_back(mode: str) -> None:
    """Each is a change of the list, so that clients ask anew."""
    app = warehouse(MAX_LISTED)
    async with Client(app, mode=mode) as client:
        assert len(await names(client)) == MAX_LISTED
        app.add_tool(lambda: "done", name="count")
        assert await names(client) == SEARCH
        found = (await client.call_tool("search_tools", {"query": "count"})).structured_content
        assert [tool["name"] for tool in found["tools"]] == ["count"]
        app.remove_tool("count")
        assert len(await names(client)) == MAX_LISTED


@pytest.mark.parametrize("mode", MODES)
async def test_pages_of_the_list_hold_the_search(mode: str) -> None:
    app = warehouse(5, True, page_size=2)
    app.add_tool(lambda: "help", name="help_me", tags=["always-listed"])
    async with Client(app, mode=mode) as client:
        assert await names(client) == ["help_me", *SEARCH]


@pytest.mark.parametrize("mode", MODES)
async def test_mounted_tools_are_found_and_called_under_their_outer_names(mode: str) -> None:
    """The search belongs to the server in front, whatever the mounted one does."""
    app = warehouse(3, True)
    inner = warehouse(2, True)
    app.mount(inner, prefix="north")
    async with Client(app, mode=mode) as client:
        assert await names(client) == SEARCH
        found = (await client.call_tool("search_tools", {"query": "north"})).structured_content
        assert sorted(tool["name"] for tool in found["tools"]) == ["north_move_0", "north_move_1"]
        assert (await client.call_tool("call_tool", {"name": "north_move_1"})).text == "done"
        inner.add_tool(lambda: "new", name="lift")
        found = (await client.call_tool("search_tools", {"query": "lift"})).structured_content
        assert [tool["name"] for tool in found["tools"]] == ["north_lift"]


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_a_disabled_tool_is_neither_found_nor_called(version: str) -> None:
    app = warehouse(3, True)
    app.disable(tool="move_1")
    found = await call(app, "search_tools", {"query": "move"}, version=version)
    assert [tool["name"] for tool in json.loads(found["content"][0]["text"])["tools"]] == ["move_0", "move_2"]
    assert (await call(app, "call_tool", {"name": "move_1"}, version=version))["isError"]


async def test_a_tool_with_a_name_of_the_search_is_the_one_that_is_listed_and_called() -> None:
    app = warehouse(1, True)
    app.add_tool(lambda query: f"own {query}", name="search_tools")
    async with Client(app) as client:
        assert await names(client) == ["describe_tool", "call_tool"]
        assert (await client.call_tool("search_tools", {"query": "x"})).text == "own x"
        assert (
            await client.call_tool("call_tool", {"name": "search_tools", "arguments": {"query": "y"}})
        ).text == "own y"


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_tool_becomes_a_task_through_the_search(mode: str) -> None:
    app = warehouse(1, True, extensions=[Tasks()])

    @app.tool(task="optional")
    async def long_count(upto: int) -> int:
        return upto

    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("call_tool", {"name": "long_count", "arguments": {"upto": 3}})).text == "3"


async def test_a_parameter_that_a_header_mirrors_needs_none_through_the_search() -> None:
    """The headers of a call belong to the tool that it names: `call_tool`."""
    app = warehouse(1, True)

    @app.tool
    def region_of(region: Annotated[str, Field(header="Region")]) -> str:
        return region

    endpoint = app.asgi()
    inner = {"name": "region_of", "arguments": {"region": "north"}}
    answer = await modern_call(
        endpoint, modern_over_http(1, "tools/call", {"name": "call_tool", "arguments": inner})
    ).run()
    assert json.loads(answer.body)["result"]["content"][0]["text"] == "north"


async def test_direct_calls_take_the_fast_path_beside_a_search() -> None:
    """A server that offers search pays for it when it is used."""
    app = warehouse(2, True)

    @app.tool
    async def echo(text: str) -> str:
        return text

    async with line_to(app) as line:
        await open_line(line, "modern")
        inner = {"name": "echo", "arguments": {"text": "b"}}
        direct = modern(1, "tools/call", {"name": "echo", "arguments": {"text": "a"}})
        await line.tell(direct, modern(2, "tools/call", {"name": "call_tool", "arguments": inner}))
    assert texts(line) == {1: "a", 2: "b"}
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 1)


async def test_a_tool_that_cannot_be_described_does_not_break_the_search() -> None:
    """It came while the server ran, when no start checks it."""
    app = warehouse(2, True)
    async with Client(app) as client:

        def odd(value: "Undefined") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
            return "x"

        app.add_tool(odd, name="move_odd")
        found = (await client.call_tool("search_tools", {"query": "move"})).structured_content
        assert {"move_0", "move_1"} <= {tool["name"] for tool in found["tools"]}


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Many", "version": "1"},
    "paths": {
        f"/things/{number}": {
            "get": {"operationId": f"get_thing_{number}", "responses": {"200": {"description": "OK"}}}
        }
        for number in range(MAX_LISTED + 1)
    },
}


async def test_a_large_description_is_searched_without_being_asked() -> None:
    app = from_openapi(DOCUMENT, base_url="http://127.0.0.1:9", include="*")
    async with Client(app) as client:
        assert await names(client) == SEARCH
        found = (await client.call_tool("search_tools", {"query": "thing 17"})).structured_content
        assert found["tools"][0]["name"] == "get_thing_17"
