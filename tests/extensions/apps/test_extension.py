"""ferrule.extensions.apps.extension: tools with a page, in both eras, for clients with and without views."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, Image, MCPError, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.extensions.apps import APPS_EXTENSION, CLIENT_SETTINGS, MIME_TYPE, Apps, PageError
from ferrule.types import ToolResult
from tests.app.scenarios.test_unauthorized_notifications import ADA, BOB
from tests.app.support import From, ask, connection_of
from tests.transports.asgi.support import legacy_call

pytestmark = pytest.mark.anyio

MODES = ["auto", "2025-11-25", "2025-06-18"]
OLDER = ["2025-03-26", "2024-11-05"]
PAGE = "<!doctype html><title>Board</title><p id=board></p>"
EMPTY_POLICY = {
    "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": []},
    "permissions": {},
}

modes = pytest.mark.parametrize("mode", MODES)


@dataclass
class Day:
    """One day."""

    high: float


def weather(**options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("Weather 2", **options)

    @app.ui(PAGE, title="Board", meta={"com.example/own": 1})
    def board(days: int = 1) -> list[Day]:
        """Show the next days."""
        return [Day(20.5)] * days

    @app.ui(PAGE, visibility="app")
    def refresh() -> None:
        """Load the days again."""

    @app.ui(visibility=["app"])
    def pick(day: int) -> str:
        return f"picked {day}"

    @app.tool
    def plain() -> str:
        return "x"

    return app


def hosting(app: Any, mode: str = "auto", **options: Any) -> Client:
    return Client(app, mode=mode, extensions=CLIENT_SETTINGS, **options)


async def listed(
    app: Any, method: str, capabilities: Any, *, version: str = "2026-07-28", dispatch: Any = None
) -> dict[str, Any]:
    """A list as a client with these capabilities gets it."""
    connection = connection_of(version, client_capabilities_raw=capabilities)
    return await ask(app, method, connection=connection, dispatch=dispatch)


async def page_of(client: Client, tool: str) -> str:
    """The URI of a tool's page."""
    tools = {each.name: each for each in await client.list_tools()}
    return str(tools[tool].meta["ui"]["resourceUri"])


@modes
async def test_a_host_gets_tool_page_and_policy(mode: str) -> None:
    """The policy is in the list entry and in the content item: some hosts read the one, some the other."""
    async with hosting(weather(), mode) as client:
        tools = {tool.name: tool.meta for tool in await client.list_tools()}
        uri = tools["board"]["ui"]["resourceUri"]
        assert re.fullmatch(r"ui://weather-2/board\.[0-9a-f]{12}\.html", uri)
        assert tools == {
            "board": {"com.example/own": 1, "ui": {"resourceUri": uri, "visibility": ["model", "app"]}},
            "refresh": {"ui": {"resourceUri": uri, "visibility": ["app"]}},
            "pick": {"ui": {"visibility": ["app"]}},
            "plain": None,
        }
        [listed] = await client.list_resources()
        assert (listed.uri, listed.mime_type, listed.meta) == (uri, MIME_TYPE, {"ui": EMPTY_POLICY})
        assert await client.list_resource_templates() == []
        [item] = (await client.read_resource(uri)).contents
        assert (item.uri, item.mime_type, item.text, item.meta) == (uri, MIME_TYPE, PAGE, {"ui": EMPTY_POLICY})


@modes
async def test_the_server_declares_the_extension_in_both_eras(mode: str) -> None:
    """Hosts of today speak the handshake, and read it there."""
    async with hosting(weather(), mode) as client:
        assert client.server_capabilities["extensions"] == {APPS_EXTENSION: {}}


@modes
@pytest.mark.parametrize("declared", [{"com.example/x": {}}, {APPS_EXTENSION: {"mimeTypes": ["text/uri-list"]}}])
async def test_other_clients_get_the_plain_tools(mode: str, declared: dict[str, Any]) -> None:
    """A tool that only pages call would be offered to the model, and a page in a list of files is of no use."""
    async with Client(weather(), mode=mode, extensions=declared) as client:
        tools = {tool.name: tool.meta for tool in await client.list_tools()}
        assert tools == {"board": {"com.example/own": 1}, "plain": None}
        assert await client.list_resources() == []
        assert (await client.call_tool("board")).text == '[{"high":20.5}]'


async def test_a_modern_client_that_declares_nothing_gets_the_plain_tools() -> None:
    """Each of its requests has its capabilities, and extensions are one of them."""
    async with Client(weather()) as client:
        assert {tool.name: tool.meta for tool in await client.list_tools()} == {
            "board": {"com.example/own": 1},
            "plain": None,
        }
        assert await client.list_resources() == []


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_legacy_client_that_declares_no_extensions_gets_the_pages(version: str) -> None:
    """Its revision has no such capability, and the example host of the specification connects like this.

    The tools that only pages call stay hidden: a client without views would offer them to its model.
    """
    async with Client(weather(), mode=version) as client:
        tools = {tool.name: tool.meta for tool in await client.list_tools()}
        assert list(tools) == ["board", "plain"]
        uri = tools["board"]["ui"]["resourceUri"]
        [listed] = await client.list_resources()
        assert (listed.uri, listed.meta) == (uri, {"ui": EMPTY_POLICY})
        assert (await client.read_resource(uri)).contents[0].text == PAGE
        assert (await client.call_tool("pick", {"day": 2})).text == "picked 2"
        assert await client.list_resource_templates() == []


@pytest.mark.parametrize(
    ("capabilities", "count", "has_page"),
    [
        ({}, 2, True),
        ({"sampling": {}, "experimental": {}}, 2, True),
        ({"extensions": {}}, 2, False),
        ({"extensions": None}, 2, False),
        ("nonsense", 2, True),
        (None, 4, True),
    ],
)
async def test_what_a_legacy_client_gets_follows_from_what_it_declares(
    capabilities: Any, count: int, has_page: bool
) -> None:
    """A client that speaks of extensions and not of this one does not have it."""
    result = await listed(weather(), "tools/list", capabilities, version="2025-11-25")
    assert len(result["tools"]) == count
    assert ("ui" in result["tools"][0].get("_meta", {})) is has_page


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_pages_can_be_kept_for_clients_that_declare_the_extension(version: str) -> None:
    """As the specification advises servers."""
    app = weather(extensions=[Apps(always=False)])
    result = await listed(app, "tools/list", {}, version=version)
    assert [tool["name"] for tool in result["tools"]] == ["board", "plain"]
    assert not any("ui" in tool.get("_meta", {}) for tool in result["tools"])
    assert (await listed(app, "resources/list", {}, version=version))["resources"] == []


@pytest.mark.parametrize("mode", OLDER)
async def test_revisions_without_meta_in_lists_get_the_plain_tools(mode: str) -> None:
    """The entry of a tool could not name its page."""
    async with hosting(weather(), mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["board", "plain"]
        assert await client.list_resources() == []


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_client_whose_capabilities_are_not_known_gets_everything(version: str) -> None:
    """Requests to a legacy server without sessions come without a handshake; hosts could show nothing otherwise."""
    assert len((await listed(weather(), "tools/list", None, version=version))["tools"]) == 4


async def test_a_legacy_server_without_sessions_shows_its_pages() -> None:
    """Over HTTP, request by request: the handshake, in which the host declared views, is forgotten at once."""
    served = weather().asgi(stateless=True)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = await legacy_call(served, message, version="2025-06-18").run()
    assert [tool["name"] for tool in answer.json["result"]["tools"]] == ["board", "refresh", "pick", "plain"]


async def test_a_client_without_the_required_setting_is_taken_at_its_word() -> None:
    """``mimeTypes`` is required, and leaving it out is not worth an empty frame."""
    async with Client(weather(), extensions={APPS_EXTENSION: {}}) as client:
        assert "refresh" in [tool.name for tool in await client.list_tools()]


async def test_both_kinds_of_clients_are_served_side_by_side() -> None:
    """Pages of lists are cached; a shared cache outside must not keep them for all clients."""
    app = weather()
    for _ in range(2):
        for declared, names in ((CLIENT_SETTINGS, 4), ({}, 2)):
            capabilities = {"extensions": declared}
            for version in ("2025-11-25", "2026-07-28"):
                result = await listed(app, "tools/list", capabilities, version=version)
                assert len(result["tools"]) == names
            assert result["cacheScope"] == "private"


async def test_the_extension_can_be_shown_to_all_clients() -> None:
    """For a host that shows views and does not say so; ``flat_key`` for one of before the first stable version."""
    app = MCPServer("x", extensions=[Apps(always=True, flat_key=True)])
    app.ui(PAGE)(board_of_nothing)
    async with Client(app) as client:
        [tool] = await client.list_tools()
        assert tool.meta["ui/resourceUri"] == tool.meta["ui"]["resourceUri"]


def board_of_nothing() -> str:
    return ""


@modes
async def test_an_app_only_tool_is_called_like_any_tool(mode: str) -> None:
    """The host decides who may call it; the server knows only its client."""
    async with hosting(weather(), mode) as client:
        assert (await client.call_tool("pick", {"day": 2})).text == "picked 2"


async def test_scopes_and_allow_hold_for_tools_and_pages() -> None:
    """``visibility`` protects nothing. A page exists for those who may see one of its tools."""
    app = MCPServer("x")
    app.ui(PAGE, visibility="app", allow=lambda who: who == ADA, name="secret")(board_of_nothing)
    capabilities = {"extensions": CLIENT_SETTINGS}
    for who, count in ((ADA, 1), (BOB, 0)):
        for method, key in (("tools/list", "tools"), ("resources/list", "resources")):
            result = await listed(app, method, capabilities, dispatch=From(who))
            assert len(result[key]) == count
    app.ui(PAGE, name="for_all")(board_of_nothing)
    result = await listed(app, "resources/list", capabilities, dispatch=From(BOB))
    assert len(result["resources"]) == 1


@modes
async def test_an_earlier_uri_gets_the_current_page(mode: str) -> None:
    """A conversation of yesterday has that URI, and an error would leave an empty frame in it."""
    async with hosting(weather(), mode) as client:
        old = "ui://weather-2/board.0123456789ab.html"
        [item] = (await client.read_resource(old)).contents
        assert (item.uri, item.text, item.meta) == (old, PAGE, {"ui": EMPTY_POLICY})


async def test_the_uri_changes_with_page_and_policy() -> None:
    """Hosts keep a page by its URI."""
    uris: set[str] = set()
    for text, csp in ((PAGE, None), (PAGE + " ", None), (PAGE, {"connectDomains": ["https://a.example"]})):
        app = MCPServer("x")
        app.ui(text, csp=csp)(board_of_nothing)
        async with hosting(app) as client:
            uris.add(await page_of(client, "board_of_nothing"))
    assert len(uris) == 3


async def test_tools_with_the_same_page_share_its_resource_and_others_do_not() -> None:
    """The same file with another policy is another page."""
    app = MCPServer("x")
    for name, csp in (("a", None), ("b", None), ("c", {"connectDomains": ["https://a.example"]})):
        app.ui(PAGE, csp=csp, name=name)(board_of_nothing)
    async with hosting(app) as client:
        uris = [await page_of(client, name) for name in "abc"]
        assert uris[0] == uris[1] != uris[2]
        assert sorted({*uris}) == sorted(resource.uri for resource in await client.list_resources())
        [item] = (await client.read_resource(uris[2])).contents
        assert item.meta["ui"]["csp"]["connectDomains"] == ["https://a.example"]


async def test_pages_of_the_same_name_differ_by_their_uris(tmp_path: Path) -> None:
    """Also by those of earlier versions, which lead to the page that they belonged to."""
    app = MCPServer("x")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "board.html").write_text(f"<p>{folder}")
        app.ui(tmp_path / folder / "board.html", name=folder)(board_of_nothing)
    async with hosting(app) as client:
        for folder in ("a", "b"):
            uri = await page_of(client, folder)
            for each in (uri, re.sub(r"[0-9a-f]{12}", "0" * 12, uri)):
                assert str((await client.read_resource(each)).contents[0].text).endswith(f"<p>{folder}")


async def test_a_page_goes_with_its_last_tool() -> None:
    """It is of no use without one, and would be listed for ever."""
    app = weather()
    async with hosting(app) as client:
        uri = await page_of(client, "board")
        app.remove_tool("board")
        assert [resource.uri for resource in await client.list_resources()] == [uri]
        app.remove_tool("refresh")
        assert await client.list_resources() == []
        with pytest.raises(MCPError):
            await client.read_resource(uri)
        app.ui(PAGE, name="board")(board_of_nothing)
        assert [resource.uri for resource in await client.list_resources()] == [await page_of(client, "board")]


# -- text for hosts without views ------------------------------------------------------------------------------------


@modes
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "Done. There is no result to show."),
        (Image(b"x"), "The result is shown in the interface: image."),
        (ToolResult([], {"a": 1}), '{"a":1}'),
        ("said", "said"),
    ],
)
async def test_each_result_has_text(mode: str, value: Any, text: str) -> None:
    """A host without views, and the model of any host, would get nothing."""
    app = MCPServer("x")

    @app.ui(PAGE)
    def show() -> Any:
        return value

    async with hosting(app, mode) as client:
        assert (await client.call_tool("show")).content[0].text == text


async def test_plain_text_and_data_stay_on_the_fast_path() -> None:
    """A page costs the calls of its tool nothing."""
    app = weather()
    async with hosting(app) as client:
        await client.call_tool("board", {"days": 2})
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 0)


@modes
async def test_results_of_a_view_with_state_have_an_id(mode: str) -> None:
    """The view keeps its state under it; each call of the tool is another view."""
    app = MCPServer("x")

    @app.ui(PAGE, state=True)
    def show() -> str:
        return "x"

    async with hosting(app, mode) as client:
        ids = {(await client.call_tool("show")).meta["viewUUID"] for _ in range(3)}
    assert len(ids) == 3


@modes
@pytest.mark.parametrize(
    ("function", "data"),
    [(lambda: "x", "x"), (lambda: [1], [1]), (lambda: {"a": 1}, {"a": 1})],
)
async def test_structured_content_is_an_object_in_each_revision(mode: str, function: Any, data: Any) -> None:
    """Pages made with the official package refuse any other value; clients unwrap it by the schema."""
    app = MCPServer("x")
    typed = {"returns": list[int] if isinstance(data, list) else type(data), "untyped": None}
    for name, returns in typed.items():
        made = lambda: function()  # noqa: E731
        made.__annotations__ = {} if returns is None else {"return": returns}
        app.ui(PAGE, name=name)(made)
    async with hosting(app, mode) as client:
        for name in typed:
            result = await client.call_tool(name)
            if not (name == "untyped" and isinstance(data, str)):  # text without a type is text alone
                assert result.structured_content == (data if isinstance(data, dict) else {"result": data})
            if name == "returns":
                assert result.data == data


# -- with other parts of a server --------------------------------------------------------------------------------------


@modes
async def test_a_mounted_server_brings_its_pages(mode: str) -> None:
    """The tools name the pages by their URIs in the outermost server, also for tools registered later."""
    inner, middle, outer = weather(), MCPServer("middle"), MCPServer("outer")
    outer.mount(middle, prefix="m")
    middle.mount(inner, prefix="w")

    @inner.ui(PAGE)
    def late() -> str:
        return "x"

    async with hosting(outer, mode) as client:
        uri = await page_of(client, "m_w_late")
        assert uri.startswith("ui://m/w/weather-2/")
        assert uri == await page_of(client, "m_w_board")
        assert [resource.uri for resource in await client.list_resources()] == [uri]
        assert await client.list_resource_templates() == []
        for each in (uri, re.sub(r"\.[0-9a-f]{12}\.", ".0123456789ab.", uri)):
            [item] = (await client.read_resource(each)).contents
            assert (item.uri, item.meta) == (each, {"ui": EMPTY_POLICY})
            # The page calls tools by their names in its own server.
            script = '<script>window.mcpPrefix = (window.mcpPrefix || "") + "m_w_";</script>'
            assert item.text == PAGE.replace("html>", f"html>{script}", 1)
        assert (await client.call_tool("m_w_refresh")).text == "Done. There is no result to show."
    async with Client(outer, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["m_w_board", "m_w_plain", "m_w_late"]


async def test_a_server_with_search_lists_tools_with_pages_and_finds_none_that_only_pages_call() -> None:
    """The host finds the page by the tool's entry; the model must not call what is hidden from it."""
    app = weather(tool_search=True)
    async with hosting(app) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert names == {"board", "refresh", "pick", "search_tools", "describe_tool", "call_tool"}
        found = (await client.call_tool("search_tools", {"query": ""})).data
        assert [tool["name"] for tool in found["tools"]] == ["board", "plain"]
        for arguments in ({"name": "pick"}, {"name": "pick", "arguments": {"day": 1}}):
            refused = await client.call_tool("call_tool", arguments)
            assert refused.is_error
            assert refused.text.startswith("Unknown tool: pick")
        assert (await client.call_tool("pick", {"day": 1})).text == "picked 1"


# -- files -------------------------------------------------------------------------------------------------------------


def written(folder: Path, text: str = PAGE) -> MCPServer[Any]:
    """A server whose page is a file."""
    folder.joinpath("board.html").write_text(text)
    app = MCPServer("x", extensions=[Apps(reload=True)])
    app.ui(folder / "board.html", name="board")(board_of_nothing)
    return app


async def test_a_page_is_a_file_beside_the_module_of_its_function(tmp_path: Path) -> None:
    """A server is started in any folder."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "index.html").write_text("<img src=dot.png>")
    (tmp_path / "web" / "dot.png").write_bytes(b"PNG")
    (tmp_path / "server.py").write_text(
        "from ferrule import MCPServer\napp = MCPServer('x')\n@app.ui('web')\ndef show() -> str:\n    return 'x'\n"
    )
    from ferrule.cli.loading import load_app

    async with hosting(load_app(tmp_path / "server.py", None)) as client:
        uri = await page_of(client, "show")
        assert uri.startswith("ui://x/web.")
        assert "data:image/png" in str((await client.read_resource(uri)).contents[0].text)


def test_a_page_that_cannot_be_shown_registers_nothing(tmp_path: Path) -> None:
    """The error is at the decorator, so that the server does not start."""
    app = MCPServer("x")
    for page, said in (
        ("missing.html", "there is no such page"),
        ("<script src=https://cdn.example/x.js></script>", "the page of 'board_of_nothing':1: .*not allowed"),
    ):
        with pytest.raises(PageError, match=said):
            app.ui(page)(board_of_nothing)
    assert app.list_tools() == []


@pytest.mark.parametrize(
    ("page", "options", "said"),
    [
        (None, {"csp": {"connectDomains": []}}, "this tool has none"),
        (PAGE, {"visibility": "host"}, "visibility is"),
        (PAGE, {"visibility": []}, "visibility is"),
        (board_of_nothing, {}, "needs a page"),
    ],
)
def test_impossible_options_are_refused(page: Any, options: dict[str, Any], said: str) -> None:
    """With the reason, when the tool is registered."""
    with pytest.raises(RegistrationError, match=said):
        MCPServer("x").ui(page, **options)(board_of_nothing)


def test_an_unknown_option_is_named() -> None:
    """With what was probably meant."""
    with pytest.raises(TypeError, match=r"visibilty.*did you mean 'visibility'"):
        MCPServer("x").ui(PAGE, visibilty="app")  # type: ignore[call-arg]


async def test_a_changed_page_is_read_again_and_clients_are_notified(tmp_path: Path) -> None:
    """While the author works on it; the page of before is answered with the new one."""
    app = written(tmp_path)
    async with hosting(app) as client:
        before = await page_of(client, "board")
        async with client.listen(tools=True, resources=True, uris=[before]) as changes:
            tmp_path.joinpath("board.html").write_text(PAGE + "<p>new")
            heard: set[str] = set()
            with anyio.fail_after(60):
                async for change in changes:
                    heard.add(change.method)
                    if len(heard) == 3:
                        break
        after = await page_of(client, "board")
        assert after != before
        assert [resource.uri for resource in await client.list_resources()] == [after]
        for uri in (before, after):
            assert (await client.read_resource(uri)).contents[0].text == PAGE + "<p>new"


async def test_a_page_that_became_wrong_stays_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The reason is logged once, and the next good version is taken."""
    app = written(tmp_path)
    apps: Any = app.extensions[APPS_EXTENSION]
    page = tmp_path / "board.html"
    page.write_text("<img src=missing.png>")
    with caplog.at_level(logging.ERROR, "ferrule.apps"):
        assert await apps.look_again() == await apps.look_again() == []
    assert [record.message for record in caplog.records] == [
        f"The page stays as it was: {page}:1: there is no file 'missing.png' (looked for {tmp_path / 'missing.png'})"
    ]
    page.write_text("<p>good")
    [uri] = await apps.look_again()
    assert uri.startswith("ui://x/board.")
    assert await apps.look_again() == []


async def test_a_server_without_reload_looks_at_no_file(tmp_path: Path) -> None:
    """What is deployed does not change while it runs."""
    app = MCPServer("x", extensions=[Apps(reload=False)])
    apps: Any = app.extensions[APPS_EXTENSION]
    assert type(apps.running(app.lowlevel, None)).__name__ == "nullcontext"
