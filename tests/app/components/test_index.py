"""Registering a taken name: an error, a replacement, or one with a warning."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal

import pytest

from ferrule import Client, Field, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.types import PromptReference

pytestmark = pytest.mark.anyio


def run_cell(app: MCPServer[Any], text: str) -> None:
    """What a cell of a notebook registers, as often as it is run."""

    @app.tool
    def first() -> str:
        return text

    @app.resource("memo://all")
    def memos() -> str:
        return text

    @app.resource("memo://{day}/{item}")
    def memo(day: str, item: str) -> str:
        return f"{text} {day} {item}"

    @app.prompt
    def ask(topic: str) -> str:
        return f"{text} {topic}"

    @app.complete(ask, "topic")
    def topics(typed: str) -> list[str]:
        return [f"{typed}{text}"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("on_duplicate", ["replace", "warn"])
async def test_a_cell_that_is_run_again_replaces_what_it_registered(
    mode: str, on_duplicate: Literal["replace", "warn"], caplog: pytest.LogCaptureFixture
) -> None:
    """Of each kind, at its place in the list, and for clients that are connected."""
    app = MCPServer("notes", on_duplicate=on_duplicate)
    run_cell(app, "old")

    @app.tool
    def last() -> None: ...

    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("first")).text == "old"
        with caplog.at_level(logging.WARNING, "ferrule.app"):
            run_cell(app, "new")
        assert [tool.name for tool in await client.list_tools()] == ["first", "last"]
        assert (await client.call_tool("first")).text == "new"
        assert (await client.read_resource("memo://all")).contents[0].text == "new"  # type: ignore[union-attr]
        assert (await client.read_resource("memo://a/b")).contents[0].text == "new a b"  # type: ignore[union-attr]
        prompt = await client.get_prompt("ask", {"topic": "x"})
        assert prompt.messages[0].content.text == "new x"
        assert (await client.complete(PromptReference("ask"), "topic", "a")).values == ["anew"]
    warned = [record.getMessage() for record in caplog.records]
    expected = [f"The {kind} {key!r} was registered again and is replaced" for kind, key in (
        ("tool", "first"), ("resource", "memo://all"), ("resource template", "memo://{day}/{item}"), ("prompt", "ask"),
    )]  # fmt: skip
    assert warned == (expected if on_duplicate == "warn" else [])


async def test_without_the_option_it_is_an_error_that_names_it() -> None:
    """Two tools of one name in one file are a mistake."""
    app = MCPServer("notes")
    run_cell(app, "old")
    with pytest.raises(RegistrationError, match=r"already a tool 'first'; remove it first.*on_duplicate='replace'"):
        run_cell(app, "new")
    assert (await app.call_tool("first")).content[0].text == "old"
    with pytest.raises(ValueError, match="on_duplicate='ignore': expected 'error', 'warn' or 'replace'"):
        MCPServer("notes", on_duplicate="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_what_is_disabled_stays_disabled() -> None:
    """A cell that is run again must not show what somebody switched off."""
    app = MCPServer("notes", on_duplicate="replace")
    run_cell(app, "old")
    app.disable(tool="first")
    app.disable(resource="memo://all")
    run_cell(app, "new")
    assert (app.list_tools(), app.list_resources()) == ([], [])
    async with Client(app) as client:
        with pytest.raises(Exception, match="Unknown tool"):
            await client.call_tool("first")
        with pytest.raises(Exception, match=r"not found|Unknown|no resource"):
            await client.read_resource("memo://all")
    app.enable(tool="first")
    assert (await app.call_tool("first")).content[0].text == "new"


async def test_clients_that_listen_are_notified() -> None:
    """The description may have changed."""
    app = MCPServer("notes", on_duplicate="replace")
    run_cell(app, "old")
    async with Client(app) as client, client.listen(tools=True) as subscription:
        run_cell(app, "new")
        async for event in subscription:
            assert event.kind == "tools"
            break


async def test_a_mounted_server_is_followed_and_never_replaced() -> None:
    """The two servers belong to different authors."""
    host, guest = MCPServer("host", on_duplicate="replace"), MCPServer("guest", on_duplicate="replace")
    run_cell(guest, "old")
    host.mount(guest, prefix="g")
    run_cell(guest, "new")
    assert (await host.call_tool("g_first")).content[0].text == "new"
    with pytest.raises(RegistrationError, match=r"already a tool 'g_first'; remove it first$"):
        host.tool("g_first")(lambda: "mine")
    other = MCPServer("other")
    run_cell(host, "own")
    run_cell(other, "other")
    with pytest.raises(RegistrationError, match=r"already a tool 'first'"):
        host.mount(other)
    assert (await host.call_tool("first")).content[0].text == "own"


async def test_the_headers_of_a_tool_are_those_of_the_last_one() -> None:
    """A request without a header that the new tool does not name would be refused."""
    app = MCPServer("notes", on_duplicate="replace")
    plans = app.lowlevel.attachments.made(MirroredHeaders).params

    def mirrored(region: Annotated[str, Field(header="Region")]) -> str:
        return region

    def plain(region: str) -> str:
        return region

    app.add_tool(mirrored, name="a")
    assert "a" in plans
    app.add_tool(plain, name="a")
    assert "a" not in plans
    app.add_tool(mirrored, name="a")
    assert "a" in plans
    strict = MCPServer("strict")
    strict.add_tool(plain, name="a")
    with pytest.raises(RegistrationError):
        strict.add_tool(mirrored, name="a")
    assert "a" not in strict.lowlevel.attachments.made(MirroredHeaders).params


async def test_a_view_is_replaced_with_its_page() -> None:
    """``@app.ui`` registers both."""
    app = MCPServer("views", on_duplicate="replace")
    for text in ("old", "new"):

        @app.ui(f"<p>{text}</p>")
        def board() -> str:
            return "done"

    (resource,) = app.list_resources()
    assert "new" in str((await app.read_resource(resource.uri)).contents)
