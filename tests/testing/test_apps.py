"""ferrule.testing.apps: a host of views without a browser: it opens what is right, and finds what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, Image, MCPServer, ToolError
from ferrule.extensions.apps import CLIENT_SETTINGS, MIME_TYPE
from ferrule.testing import AppHost, ViewError
from ferrule.types import ResourceContents

pytestmark = pytest.mark.anyio

PAGE = "<!doctype html><p>board</p>"
modes = pytest.mark.parametrize("mode", ["auto", "2025-11-25", "2025-06-18"])


def weather() -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("weather")

    @app.ui(PAGE, state=True)
    def board(days: int) -> list[int]:
        return [20] * days

    @app.ui(PAGE, visibility="model")
    def for_models() -> str:
        return "x"

    @app.ui(visibility="app")
    def pick(day: int) -> str:
        return f"picked {day}"

    @app.tool
    def plain() -> str:
        return "x"

    return app


def connected_to(app: Any, mode: str = "auto") -> Client:
    return Client(app, mode=mode, extensions=CLIENT_SETTINGS)


@modes
async def test_a_view_is_opened_and_gets_arguments_and_result(mode: str) -> None:
    """In the order of the specification: after the handshake, the arguments before the result."""
    async with connected_to(weather(), mode) as client:
        view = await AppHost(client, context={"theme": "dark"}).open("board", {"days": 2})
        assert view.html == PAGE
        answer = await view.initialize(display_modes=["inline", "fullscreen"])
        assert answer["hostContext"]["theme"] == "dark"
        assert answer["hostContext"]["toolInfo"]["tool"]["name"] == "board"
        methods = [each.body.get("method", "answer") for each in view.messages]
        assert methods == [
            "ui/initialize",
            "answer",
            "ui/notifications/initialized",
            "ui/notifications/tool-input",
            "ui/notifications/tool-result",
        ]
        assert view.received("ui/notifications/tool-input") == [{"arguments": {"days": 2}}]
        [result] = view.received("ui/notifications/tool-result")
        assert result["content"] == [{"type": "text", "text": "[20,20]"}]
        assert result["_meta"]["viewUUID"]
        view.check()


@modes
async def test_the_messages_of_a_view_take_effect(mode: str) -> None:
    """What the host did is there to be checked."""
    async with connected_to(weather(), mode) as client:
        view = await AppHost(client).open("board", {"days": 1})
        await view.initialize(display_modes=["inline", "pip"])
        assert (await view.call_tool("pick", {"day": 3}))["content"][0]["text"] == "picked 3"
        assert (await view.request("ui/open-link", {"url": "https://x.example"})) == {}
        await view.request("ui/message", {"role": "user", "content": [{"type": "text", "text": "hi"}]})
        await view.request("ui/update-model-context", {"structuredContent": {"day": 3}})
        assert (await view.request("ui/request-display-mode", {"mode": "pip"})) == {"mode": "pip"}
        assert (await view.request("ui/request-display-mode", {"mode": "fullscreen"})) == {"mode": "pip"}
        assert (await view.request("ping", {})) == {}
        page = await view.request("resources/read", {"uri": view.uri})
        assert page["contents"][0]["text"] == PAGE
        for method, params in (
            ("ui/notifications/size-changed", {"width": 400, "height": 20}),
            ("notifications/message", {"level": "info", "data": "x"}),
        ):
            assert await view.send({"jsonrpc": "2.0", "method": method, "params": params}) is None
        view.change_context(theme="dark")
        view.notify("ui/notifications/tool-input-partial", {"arguments": {}})
        view.cancel()
        await view.close()
        assert (view.links, view.size, view.is_over) == (["https://x.example"], (400, 20), True)
        assert view.chat[0]["content"][0]["text"] == "hi"
        assert view.model_context == {"structuredContent": {"day": 3}}
        assert view.logged == [{"level": "info", "data": "x"}]
        view.check()


async def test_the_model_gets_no_tools_of_views() -> None:
    """As hosts must hide them ("Resource Discovery", visibility)."""
    async with connected_to(weather()) as client:
        assert [tool.name for tool in await AppHost(client).model_tools()] == ["board", "for_models", "plain"]


async def test_a_view_may_not_call_tools_that_are_not_for_views() -> None:
    """Hosts must reject the call; it is a finding, too."""
    async with connected_to(weather()) as client:
        view = await AppHost(client).open("board", {"days": 1})
        await view.initialize()
        with pytest.raises(ViewError, match="for_models is not for views"):
            await view.call_tool("for_models")
        with pytest.raises(ViewError, match="Unknown tool: nothing"):
            await view.call_tool("nothing")
        assert [finding.kind for finding in view.findings] == ["visibility"]
        with pytest.raises(AssertionError, match="visibility: the view called 'for_models'"):
            view.check()


async def test_a_host_offers_less_and_a_user_denies() -> None:
    """A view must work without the call, or say that it cannot."""
    async with connected_to(weather()) as client:
        view = await AppHost(client, capabilities={"openLinks": {}}, denies=["ui/open-link"]).open("board", {"days": 1})
        answer = await view.initialize()
        assert answer["hostCapabilities"] == {"openLinks": {}}
        for method, params in (("ui/open-link", {"url": "x"}), ("tools/call", {"name": "pick"})):
            with pytest.raises(ViewError, match=f"denies {method}") as caught:
                await view.request(method, params)
            assert caught.value.code == -32000
        view.check()


async def test_messages_that_do_not_fit_are_found_and_refused() -> None:
    """Of the view and of the host."""
    async with connected_to(weather()) as client:
        view = await AppHost(client).open("board", {"days": 1})
        with pytest.raises(ViewError, match="url"):
            await view.request("ui/open-link", {"href": "x"})
        with pytest.raises(ViewError, match="Method not found"):
            await view.request("ui/open", {})
        await view.request("ui/open-link", {"url": "x"})
        view.notify("ui/notifications/tool-input", {"args": {}})
        view.notify("ui/open-link", {"url": "x"})
        texts = [f"{finding.kind}: {finding.text}" for finding in view.findings]
        assert len(texts) == 6
        assert texts[0].startswith("message: view: ui/open-link: params:")
        assert "no message 'ui/open'" in texts[2]
        assert texts[3] == "message: view: ui/open-link came before ui/notifications/initialized"
        assert texts[4].startswith("message: host: ui/notifications/tool-input: params:")
        assert texts[5] == "message: host: a host does not send ui/open-link"


async def test_tools_without_a_page_are_not_opened() -> None:
    """With the reason."""
    async with connected_to(weather()) as client:
        for name, said in (("plain", "has no page"), ("nothing", "lists no tool")):
            with pytest.raises(LookupError, match=said):
                await AppHost(client).open(name)


def hand_made(
    page: str = PAGE,
    *,
    uri: str = "ui://x/y.html",
    mime_type: str = MIME_TYPE,
    listed: Any = None,
    read: Any = None,
    tool_meta: dict[str, Any] | None = None,
) -> MCPServer[Any]:
    """A server whose author wrote everything by hand."""
    app: MCPServer[Any] = MCPServer("x")

    @app.resource(uri, mime_type=mime_type, meta=None if listed is None else {"ui": listed})
    def view() -> ResourceContents:
        return ResourceContents(uri, mime_type=mime_type, text=page, meta=None if read is None else {"ui": read})

    @app.tool(meta={"ui": {"resourceUri": uri, **(tool_meta or {})}})
    def show() -> Image:
        return Image(b"x")

    return app


GOOD = {
    "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": []},
    "permissions": {},
}
TEXT = "text: the result of 'show' has no text for hosts without views"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"listed": GOOD, "read": GOOD}, []),
        (
            {"read": GOOD},
            ["policy: connectDomains, resourceDomains, frameDomains, baseUriDomains missing"],
        ),
        ({"listed": GOOD, "read": {"csp": GOOD["csp"]}}, ["policy: _meta.ui differs"]),
        ({"listed": GOOD, "read": GOOD, "tool_meta": {"csp": {}}}, ["policy: csp of 'show' is on the tool"]),
        ({"listed": GOOD, "read": GOOD, "mime_type": "text/html"}, ["resource: ui://x/y.html is 'text/html'"]),
        ({"listed": GOOD, "read": GOOD, "uri": "app://x/y"}, ["resource: app://x/y does not begin with ui://"]),
        ({"listed": GOOD, "read": GOOD, "page": "<p>"}, ["resource: ui://x/y.html is no HTML5 document"]),
        (
            {"listed": GOOD, "read": GOOD, "page": f"{PAGE}\n<script src=//c.example/x.js></script><img src=a.png>"},
            ["reference: ui://x/y.html:2: '//c.example/x.js'", "reference: ui://x/y.html:2: 'a.png'"],
        ),
        ({"listed": {"csp": {**GOOD["csp"], "frameDomains": ["*"]}}, "read": None}, ["policy: csp", "policy: connect"]),
    ],
)  # fmt: skip
async def test_what_hosts_would_refuse_is_found(options: dict[str, Any], said: list[str]) -> None:
    """Pages that were written by hand, or for another library."""
    async with connected_to(hand_made(**options)) as client:
        view = await AppHost(client).open("show")
    texts = sorted(f"{finding.kind}: {finding.text}" for finding in view.findings)
    expected = sorted([*said, TEXT])
    assert len(texts) == len(expected), texts
    assert all(text.startswith(begin) for text, begin in zip(texts, expected, strict=True)), texts


async def test_a_page_that_cannot_be_read_is_found() -> None:
    """The tool names a resource that is not there."""
    app = hand_made()
    app.remove_resource("ui://x/y.html")
    async with connected_to(app) as client:
        view = await AppHost(client).open("show")
    assert view.findings[0].text.startswith("ui://x/y.html cannot be read")
    assert view.html == ""


async def test_structured_content_that_is_no_object_is_found() -> None:
    """2026-07-28 allows it, and pages made with the official package refuse it."""
    app = hand_made(listed=GOOD, read=GOOD)
    app.remove_tool("show")
    meta = {"ui": {"resourceUri": "ui://x/y.html"}}
    app.add_tool(lambda: [1], name="list", meta=meta)
    app.add_tool(lambda: [1], name="object", meta=meta, structured="object")
    async with connected_to(app) as client:
        view = await AppHost(client).open("list")
        assert [finding.kind for finding in view.findings] == ["data"]
        view = await AppHost(client).open("object")
        view.check()
        assert view.result["structuredContent"] == {"result": [1]}


async def test_a_view_asks_the_model_where_the_host_lets_it() -> None:
    """The test answers for the model; otherwise the request is refused, and no empty answer is made up."""

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        text = f"{len(params['messages'])} messages"
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": text}}

    asked = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 9}
    async with connected_to(weather()) as client:
        view = await AppHost(client, sample=sample).open("board", {"days": 1})
        assert (await view.initialize())["hostCapabilities"]["sampling"] == {}
        assert (await view.request("sampling/createMessage", asked))["content"]["text"] == "1 messages"
        for host in (AppHost(client), AppHost(client, capabilities={"sampling": {}})):
            other = await host.open("board", {"days": 1})
            await other.initialize()
            with pytest.raises(ViewError):
                await other.request("sampling/createMessage", asked)
        view.check()


async def test_files_that_a_view_offers_are_there_to_be_checked() -> None:
    """``ui/download-file``, with the file itself or a link; a file that is neither is refused."""
    file = {"type": "resource", "resource": {"uri": "file:///days.csv", "mimeType": "text/csv", "text": "day\n1\n"}}
    link = {"type": "resource_link", "uri": "https://x.example/a.pdf", "name": "a"}
    async with connected_to(weather()) as client:
        view = await AppHost(client).open("board", {"days": 1})
        await view.initialize()
        assert await view.request("ui/download-file", {"contents": [file, link]}) == {}
        assert view.downloads == [file, link]
        view.check()
        with pytest.raises(ViewError, match="contents"):
            await view.request("ui/download-file", {"contents": [{"type": "text", "text": "x"}]})
        await view.send({"jsonrpc": "2.0", "method": "ui/notifications/request-teardown", "params": {}})
        assert view.wants_to_close


async def test_a_host_that_reads_lists_only_is_a_profile() -> None:
    """Another name is refused."""
    async with connected_to(weather()) as client:
        view = await AppHost(client, profile="lists").open("board", {"days": 1})
        view.check()
        with pytest.raises(ValueError, match="specification, lists, opaque, example, not 'strict'"):
            AppHost(client, profile="strict")


async def test_a_failed_tool_is_a_result_whatever_the_client_raises() -> None:
    """As in a host: the view gets the failure."""
    app = weather()

    @app.ui(PAGE)
    def failing() -> str:
        raise ToolError("no weather today")

    async with Client(app, extensions=CLIENT_SETTINGS, raise_on_error=True) as client:
        view = await AppHost(client).open("failing")
        await view.initialize()
        [result] = view.received("ui/notifications/tool-result")
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": "no weather today"}]
