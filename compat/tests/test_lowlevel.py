"""A server written on the low-level ``Server`` of ``mcp`` 1.x, as clients of both eras see it."""

from __future__ import annotations

import functools
from typing import Any

import anyio
import pytest

from compat.tests.support import ERAS, client_of
from ferrule import MCPError

pytestmark = pytest.mark.parametrize("mode", ERAS)


@functools.cache
def seen(mode: str) -> dict[str, Any]:
    """What one client sees of the server."""
    made: dict[str, Any] = {}

    async def look() -> None:
        async with client_of("low.py", mode, elicitation_handler=lambda _: {"yes": True}) as client:
            made["info"] = client.server_info
            made["capabilities"] = client.server_capabilities
            made["tools"] = await client.list_tools()
            made["resources"] = await client.list_resources()
            made["prompts"] = await client.list_prompts()
            for name, arguments in {
                "echo": {"text": "ø"}, "data": {}, "changed": {}, "asked": {}, "about": {}, "unknown": {},
            }.items():  # fmt: skip
                made[name] = await client.call_tool(name, arguments)
            made["unfit"] = await client.call_tool("echo", {"text": 1})
            made["memo"] = await client.read_resource("memo://one")
            made["prompt"] = await client.get_prompt("ask", {"topic": "rain"})
            made["completed"] = await client.complete({"type": "ref/prompt", "name": "ask"}, "topic", "ra")
            try:
                await client.read_resource("other://one")
            except MCPError as error:
                made["refused"] = error

    anyio.run(look)
    return made


def test_it_announces_what_its_options_say(mode: str) -> None:
    """Name, version and capabilities come from the options that it passes to `run`."""
    info, capabilities = seen(mode)["info"], seen(mode)["capabilities"]
    assert (info.name, info.version) == ("low", "1.2")
    assert capabilities["tools"] == {"listChanged": True}
    assert capabilities["experimental"] == {"x": {}}
    assert {"prompts", "resources", "completions", "logging"} <= capabilities.keys()


def test_it_lists_what_it_returns(mode: str) -> None:
    """A name may be a member of an enumeration, and a URI one of pydantic's; lists or whole results are returned."""
    assert [tool.name for tool in seen(mode)["tools"]] == ["echo", "data", "changed", "asked", "about"]
    assert [(each.uri, each.name) for each in seen(mode)["resources"]] == [("memo://one", "One")]
    assert [each.name for each in seen(mode)["prompts"]] == ["ask"]


@pytest.mark.parametrize(
    ("name", "text", "data", "is_error"),
    [
        ("echo", "ø", None, False),
        ("data", '{\n  "a": 1\n}', {"a": 1}, False),
        ("asked", "accept {'yes': True}", None, False),
        ("unknown", "Unknown tool: unknown", None, True),
    ],
)
def test_calls_return_content_and_data(mode: str, name: str, text: str, data: Any, is_error: bool) -> None:
    """A dictionary is structured and text; an exception is a result with its text."""
    result = seen(mode)[name]
    assert bool(result.is_error) is is_error
    assert result.content[0].text == text
    assert (result.structured_content or None) == data


def test_arguments_are_checked_against_the_listed_schema(mode: str) -> None:
    """The function is not called; the old SDK's text began in the same way."""
    result = seen(mode)["unfit"]
    assert result.is_error
    assert result.content[0].text.startswith("Input validation error: ")


def test_the_session_knows_the_client(mode: str) -> None:
    """Servers ask what it can do before they ask it something."""
    assert " True " in seen(mode)["about"].content[0].text
    assert seen(mode)["changed"].content[0].resource.text == "x"


def test_resources_prompts_and_completions(mode: str) -> None:
    """The handler gets a URI with its parts."""
    assert seen(mode)["memo"].contents[0].text == "memo of one"
    assert seen(mode)["prompt"].messages[0].content.text == "rain"
    assert list(seen(mode)["completed"].values) == ["ra!"]


def test_an_error_with_a_code_is_sent_as_it_is(mode: str) -> None:
    """`McpError` of a resource, with its data."""
    error = seen(mode)["refused"]
    assert (error.code, error.message, error.data) == (-32050, "No such scheme", {"scheme": "other"})


@pytest.mark.anyio
async def test_a_server_may_bring_its_own_stdout(mode: str) -> None:
    """Some put stderr in its place first, so that nothing else is written between the messages."""
    async with client_of("low.py", mode, "guarded") as client:
        assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"


@pytest.mark.anyio
async def test_notifications_reach_their_handlers(mode: str) -> None:
    """Servers ask for the roots anew when a client says that these have changed; modern clients say neither."""
    async with client_of("low.py", mode, roots=["/srv"]) as client:
        await client.notify_roots_changed() if mode == "legacy" else None
        text = (await client.call_tool("heard", {})).content[0].text
    assert text == ("initialized roots" if mode == "legacy" else "")


@pytest.mark.anyio
async def test_clients_subscribe_to_resources(mode: str) -> None:
    """To any URI, listed or not: only the server's functions know which there are. Updates of it arrive."""
    if mode == "legacy":
        async with client_of("low.py", mode) as client:
            for method in ("resources/subscribe", "resources/unsubscribe"):
                assert await client.request(method, {"uri": "memo://one"}) == {}
            text = (await client.call_tool("heard", {})).content[0].text
        assert text == "initialized subscribe memo://one unsubscribe memo://one"
    updates: list[Any] = []
    async with client_of("low.py", mode) as client, client.listen(uris=["memo://one"]) as changes:
        await client.call_tool("changed", {})
        updates.append((await anext(changes)).uri)
    assert updates == ["memo://one"]


@pytest.mark.anyio
async def test_what_is_no_content_is_a_result_that_says_so(mode: str) -> None:
    """The model reads what the server did wrong, as with the old SDK, and no internal error."""
    async with client_of("low.py", mode) as client:
        for name, kind in (("letters", "str"), ("items", "int")):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert result.content[0].text == f"Unexpected content from tool: a {kind} is no content block"
