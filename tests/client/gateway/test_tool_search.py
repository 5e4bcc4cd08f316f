"""A search in place of the tools behind a proxy, in both eras on either side."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPError, MCPServer, asgi, proxy
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.client.gateway.proxy import Proxy
from ferrule.extensions.apps import CLIENT_SETTINGS
from ferrule.extensions.tasks import Tasks
from ferrule.search.definitions import MAX_LISTED, THE_THREE
from ferrule.wire.codec import to_builtins
from tests.app.support import EVERY_REVISION
from tests.cli.support import PROBE
from tests.client.patience import patient_gateway
from tests.client.pauses import Pauses
from tests.transports.asgi.support import modern, modern_call

pytestmark = pytest.mark.anyio

ERAS = ["2026-07-28", "2025-11-25"]
before_and_behind = pytest.mark.parametrize(("before", "behind"), [(a, b) for a in ERAS for b in ERAS])


def shop(tools: int = 3, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("shop", **options)

    @app.tool(title="Order something")
    def create_order(item: str, count: int = 1) -> dict[str, Any]:
        """Create an order for an item of the stock."""
        return {"item": item, "count": count}

    @app.tool
    async def confirm(ctx: Context, what: str) -> str:
        """Ask the user whether to go on."""
        await ctx.progress(1, 2, "half")
        answer = await ctx.elicit(f"Go on with {what}?", bool)
        return f"{what}: {answer.data}"

    for number in range(tools - 2):
        app.add_tool(lambda: "done", name=f"move_{number}")
    return app


async def names(client: Any) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def found(client: Any, query: str, **options: Any) -> dict[str, Any]:
    result = await client.call_tool("search_tools", {"query": query, **options})
    assert not result.is_error, result.text
    return result.structured_content


@before_and_behind
async def test_a_tool_behind_is_found_described_and_called(before: str, behind: str) -> None:
    """With its questions and its progress, which belong to the call as they do to a direct one."""
    seen: list[float] = []
    server = proxy(shop(), mode=behind, tool_search=True)
    async with Client(server, mode=before, elicitation_handler=lambda asked: {"value": True}) as client:
        assert await names(client) == list(THE_THREE)
        answer = await found(client, "make a new order")
        assert answer["tools"][0] == {
            "name": "create_order",
            "description": "Create an order for an item of the stock.",
            "required": ["item"],
            "optional": ["count"],
        }
        assert answer["total"] == 3
        described = (await client.call_tool("describe_tool", {"name": "create_order"})).structured_content
        direct = next(tool for tool in (await Proxy.of(server).main.request("tools/list"))["tools"])
        assert described["inputSchema"] == direct["inputSchema"]
        result = await client.call_tool("call_tool", {"name": "create_order", "arguments": {"item": "nut"}})
        assert result.structured_content == {"item": "nut", "count": 1}
        inner = {"name": "confirm", "arguments": {"what": "brass"}}
        result = await client.call_tool("call_tool", inner, on_progress=lambda p, t, m: seen.append(p))
        assert (result.text, set(seen)) == ("brass: True", {1})
        assert (await client.call_tool("create_order", {"item": "nut"})).structured_content["item"] == "nut"


@before_and_behind
async def test_a_gateway_searches_all_its_servers(before: str, behind: str) -> None:
    targets = {"north": shop(), "south": shop(4)}
    server = patient_gateway(targets, mode=behind, tool_search="auto").server
    async with Client(server, mode=before) as client:
        assert len(await names(client)) == 7
    server = patient_gateway(targets, mode=behind, tool_search=6).server
    async with Client(server, mode=before, elicitation_handler=lambda asked: {"value": False}) as client:
        assert await names(client) == list(THE_THREE)
        answer = await found(client, "order south")
        assert answer["tools"][0]["name"] == "south_create_order"
        assert (await found(client, ""))["total"] == 7
        inner = {"name": "south_confirm", "arguments": {"what": "tin"}}
        assert (await client.call_tool("call_tool", inner)).text == "tin: False"


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_the_three_tools_are_those_of_a_server(version: str) -> None:
    """A model, and this library's own commands, know one form of search."""
    async with Client(shop(tool_search=True), mode=version) as client:
        of_server = await client.request("tools/list")
    async with Client(proxy(shop(), tool_search=True), mode=version) as client:
        of_proxy = await client.request("tools/list")
    assert of_proxy["tools"] == of_server["tools"]


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_what_the_search_says_is_what_a_server_says(version: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_tools", {"query": "order"}),
        ("search_tools", {"query": "", "limit": 2, "offset": 1}),
        ("describe_tool", {"name": "create_order"}),
        ("describe_tool", {"name": "nothing"}),
        ("describe_tool", {"name": "create_orders"}),
        ("call_tool", {"name": "create_orders"}),
        ("call_tool", {"name": "nothing"}),
        ("call_tool", {"name": "n" * 300}),
        ("call_tool", {"name": "search_tools"}),
        ("call_tool", {"arguments": {}}),
        ("call_tool", {"name": "move_0", "more": 1}),
        ("call_tool", {"name": "create_order", "arguments": {"count": "many"}}),
    ]
    async with (
        Client(shop(tool_search=True), mode=version) as server,
        Client(proxy(shop(), mode=version, tool_search=True), mode=version) as before,
    ):
        for name, arguments in calls:
            wanted = await server.request("tools/call", {"name": name, "arguments": arguments})
            assert await before.request("tools/call", {"name": name, "arguments": arguments}) == wanted
        for arguments in ({}, {"query": 1}, {"query": "x", "limit": 51}, {"query": "x", "other": 1}):
            wrong = await before.request("tools/call", {"name": "search_tools", "arguments": arguments})
            assert wrong["isError"]
            assert wrong["content"][0]["text"].startswith("Invalid arguments for tool `search_tools`")


@pytest.mark.usefixtures("any_backend")
@before_and_behind
async def test_a_change_behind_is_found_and_notified_only_where_the_list_changes(before: str, behind: str) -> None:
    """The three tools stay the same three, whatever they find."""
    app = shop(5)
    server = proxy(app, mode=behind, tool_search=5)
    events: list[str] = []
    async with Client(server, mode=before) as client, anyio.create_task_group() as tasks:
        assert len(await names(client)) == 5

        async def listen() -> None:
            async with client.listen(tools=True) as changes:
                ready.set()
                async for event in changes:
                    events.append(event.kind)
                    told.set()

        ready = anyio.Event()
        told = anyio.Event()
        tasks.start_soon(listen)
        with anyio.fail_after(30):
            await ready.wait()
            app.add_tool(lambda: "new", name="lift")
            await told.wait()  # a list became a search
            assert await names(client) == list(THE_THREE)
            count = len(events)
            told = anyio.Event()
            app.add_tool(lambda: "new", name="weigh")
            while not (await found(client, "weigh"))["found"]:
                await anyio.sleep(0.01)
            app.remove_tool("weigh")
            while (await found(client, ""))["total"] != 6:
                await anyio.sleep(0.01)
            assert len(events) == count
            app.remove_tool("lift")
            await told.wait()  # and a list again
        assert len(await names(client)) == 5
        tasks.cancel_scope.cancel()


@before_and_behind
async def test_a_client_without_a_search_hears_every_change(before: str, behind: str) -> None:
    app = shop()
    async with (
        Client(proxy(app, mode=behind, tool_search="auto"), mode=before) as client,
        client.listen(tools=True) as changes,
    ):
        await client.list_tools()
        app.add_tool(lambda: "new", name="lift")
        with anyio.fail_after(30):
            assert (await anext(changes)).kind == "tools"


async def test_a_tool_that_the_list_does_not_have_is_not_called_through_the_search() -> None:
    """A server behind may answer calls of tools that it does not list; the search calls what it shows."""
    app = MCPServer("odd")
    called: list[str] = []

    @app.tool
    def shown() -> str:
        return "x"

    @app.tool
    def secret() -> str:
        called.append("secret")
        return "x"

    async def hide(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            raw = to_builtins(result)
            return {**raw, "tools": [tool for tool in raw["tools"] if tool["name"] != "secret"]}
        return result

    app.lowlevel.middleware.append(hide)
    async with Client(proxy(app, tool_search=True)) as client:
        result = await client.call_tool("call_tool", {"name": "secret"})
        assert (result.is_error, result.text, called) == (True, "Unknown tool: secret", [])


@before_and_behind
async def test_middleware_of_the_proxy_sees_the_tool_that_runs(before: str, behind: str) -> None:
    """A rule by name cannot be passed by through `call_tool`."""
    server = proxy(shop(), mode=behind, tool_search=True)
    names_seen: list[Any] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            names_seen.append(ctx.params["name"])
            if ctx.params["name"] == "move_0":
                raise MCPError("not that one", code=-32000)
        return await call_next(ctx)

    server.middleware.append(watch)
    async with Client(server, mode=before) as client:
        with pytest.raises(MCPError, match="not that one"):
            await client.call_tool("call_tool", {"name": "move_0"})
        await client.call_tool("call_tool", {"name": "create_order", "arguments": {"item": "x"}})
    assert names_seen == ["move_0", "create_order"]


@before_and_behind
async def test_a_server_with_a_search_of_its_own_is_passed_on(before: str, behind: str) -> None:
    server = proxy(shop(tool_search=True), mode=behind, tool_search=True)
    async with Client(server, mode=before) as client:
        assert await names(client) == list(THE_THREE)
        assert (await found(client, "order"))["tools"][0]["name"] == "create_order"
        result = await client.call_tool("call_tool", {"name": "create_order", "arguments": {"item": "x"}})
        assert result.structured_content["item"] == "x"


async def test_a_tool_behind_with_a_name_of_the_search_is_the_one_that_is_called() -> None:
    app = shop()
    app.add_tool(lambda name, arguments=None: f"own {name}", name="call_tool")
    async with Client(proxy(app, tool_search=True)) as client:
        for _ in range(2):
            assert (await client.call_tool("call_tool", {"name": "move_0"})).text == "own move_0"
        assert await names(client) == ["search_tools", "describe_tool"]


async def test_a_server_that_is_away_is_not_found(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "ferrule")
    wrong = ValueError("An entry has a 'command' or a 'url'")
    async with Client(patient_gateway({"north": shop(), "wrong": wrong}, tool_search=True).server) as client:
        assert (await found(client, ""))["total"] == 3
        result = await client.call_tool("call_tool", {"name": "wrong_create_order"})
        assert result.is_error
        assert result.text.startswith("Unknown tool: wrong_create_order")


async def test_a_server_that_comes_late_is_found(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "ferrule")
    pauses = Pauses()
    late = tmp_path / "late.py"
    targets: dict[str, Any] = {"north": shop(), "late": [sys.executable, str(late)]}
    async with Client(patient_gateway(targets, sleep=pauses, tool_search=True).server) as client:
        assert (await found(client, ""))["total"] == 3
        late.write_text(Path(PROBE).read_text())
        await pauses.end()
        with anyio.fail_after(30):
            while "'late' can be reached again" not in caplog.text:
                await anyio.sleep(0.01)
        assert (await found(client, "late add"))["tools"][0]["name"] == "late_add"
        inner = {"name": "late_add", "arguments": {"a": 1}}
        assert (await client.call_tool("call_tool", inner)).text == "3"


async def test_lists_are_read_once_until_they_change() -> None:
    """A call through the search costs one request behind, not a list and a call."""
    app = shop()
    asked: list[str] = []

    async def count(ctx: Any, call_next: Any) -> Any:
        asked.append(ctx.method)
        return await call_next(ctx)

    app.lowlevel.middleware.append(count)
    async with Client(proxy(app, tool_search=True)) as client:
        await found(client, "order")
        await found(client, "move")
        for _ in range(5):
            await client.call_tool("call_tool", {"name": "move_0"})
    assert asked.count("tools/list") == 1
    assert asked.count("tools/call") == 5


async def test_a_mode_that_does_not_exist_is_refused() -> None:
    wrong: Any = "often"
    for make in (
        lambda: proxy(shop(), tool_search=wrong),
        lambda: patient_gateway({"a": shop()}, tool_search=-3).server,
    ):
        with pytest.raises(ValueError, match="tool_search is True"):
            make()


async def test_auto_is_sixty_tools() -> None:
    for count, listed in ((MAX_LISTED, MAX_LISTED), (MAX_LISTED + 1, 3)):
        async with Client(proxy(shop(count), tool_search="auto")) as client:
            assert len(await names(client)) == listed


@pytest.mark.parametrize("is_gateway", [False, True])
@before_and_behind
async def test_a_cancelled_call_ends_behind(before: str, behind: str, is_gateway: bool) -> None:
    app = shop()
    started, ended = anyio.Event(), anyio.Event()

    @app.tool
    async def wait_long() -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    if is_gateway:
        server, name = patient_gateway({"north": app}, mode=behind, tool_search=True).server, "north_wait_long"
    else:
        server, name = proxy(app, mode=behind, tool_search=True), "wait_long"
    async with Client(server, mode=before) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "call_tool", {"name": name})
        with anyio.fail_after(30):
            await started.wait()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(30):
        await ended.wait()


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_becomes_a_task_through_the_search(era: str) -> None:
    """Where both sides have the tasks of one era; as a call under the tool's own name."""
    app = shop(extensions=[Tasks()])

    @app.tool(task="optional")
    async def long_count(upto: int) -> int:
        return upto

    async with Client(proxy(app, mode=era, tool_search=True), mode=era) as client:
        await client.list_tools()
        through = await client.start_tool("call_tool", {"name": "long_count", "arguments": {"upto": 3}})
        assert through.task_id is not None
        assert (await through.result()).text == "3"


@pytest.mark.parametrize("mode", [True, 1])
async def test_a_protected_server_shows_each_caller_its_own_tools(mode: Any) -> None:
    """Not even callers of one name share a list: their tokens may differ, and one may have a list, one a search."""
    tokens = StaticTokens({"all": {"subject": "ada", "scopes": ["pay"]}, "some": {"subject": "ada", "scopes": []}})
    app: MCPServer[Any] = MCPServer("shop", auth=ResourceServer(tokens, resource="http://127.0.0.1:8000/mcp"))

    @app.tool(allow=lambda principal: "pay" in principal.scopes)
    def refund_payment() -> str:
        return "refunded"

    @app.tool
    def show_payment() -> str:
        return "payment"

    server = proxy(app, tool_search=mode)
    async with server.lifespan():
        endpoint = asgi(server)

        async def ask(token: str, method: str, params: dict[str, Any]) -> Any:
            answer = await modern_call(endpoint, modern(1, method, params), authorization=f"Bearer {token}").run()
            return json.loads(answer.body)

        async def result(token: str, name: str, arguments: dict[str, Any]) -> Any:
            return (await ask(token, "tools/call", {"name": name, "arguments": arguments}))["result"]

        if mode is not True:
            for token, wanted in (("some", ["show_payment"]), ("all", list(THE_THREE))) * 2:
                listed = (await ask(token, "tools/list", {}))["result"]["tools"]
                assert [tool["name"] for tool in listed] == wanted
            assert "error" in await ask("some", "tools/call", {"name": "call_tool", "arguments": {"name": "x"}})
            called = await result("all", "call_tool", {"name": "refund_payment"})
            assert called["content"][0]["text"] == "refunded"
            return

        for token, wanted in (("all", ["refund_payment", "show_payment"]), ("some", ["show_payment"])) * 2:
            shown = (await result(token, "search_tools", {"query": "payment"}))["structuredContent"]["tools"]
            assert sorted(tool["name"] for tool in shown) == wanted
            called = await result(token, "call_tool", {"name": "refund_payment"})
            assert called.get("isError", False) is (token == "some")
            described = await result(token, "describe_tool", {"name": "refund_payment"})
            assert described.get("isError", False) is (token == "some")


@before_and_behind
async def test_tools_with_pages_are_listed_beside_the_search(before: str, behind: str) -> None:
    """A host finds the page by the entry of its tool; the model does not find what only pages call."""
    app = shop()

    @app.ui("<p>")
    def board() -> str:
        return "x"

    @app.ui(visibility="app")
    def refresh() -> str:
        return "fresh"

    async with Client(proxy(app, tool_search=True, mode=behind), mode=before, extensions=CLIENT_SETTINGS) as client:
        assert await names(client) == ["board", "refresh", *THE_THREE]
        everything = await found(client, "")
        assert [tool["name"] for tool in everything["tools"]] == ["board", "confirm", "create_order", "move_0"]
        assert (everything["found"], everything["total"]) == (4, 4)
        assert (await found(client, "refresh"))["tools"] == []
        for tool, arguments in (("describe_tool", {"name": "refresh"}), ("call_tool", {"name": "refresh"})):
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error
            assert refused.text.startswith("Unknown tool: refresh")
        assert (await client.call_tool("refresh")).text == "fresh"
        assert (await client.call_tool("call_tool", {"name": "board"})).text == "x"
