"""Exceptions of a framework that a server shows as refusals."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ferrule import Client, MCPServer, ToolError
from ferrule.app.execution.invoke import ErrorTranslator
from ferrule.protocol.errors import MCPError
from tests.app.support import ask

pytestmark = pytest.mark.anyio

BOTH_ERAS = ("auto", "2025-11-25")


class Refused(Exception):
    """An exception of a framework."""


def translate(error: BaseException) -> ToolError | None:
    if isinstance(error, LookupError):
        raise RuntimeError("the translator is at fault")
    return ToolError(f"refused: {error}") if isinstance(error, Refused) else None


def serving() -> MCPServer[Any]:
    """A server whose functions raise what they are told to."""
    app: MCPServer[Any] = MCPServer("x")
    app.lowlevel.attachments[ErrorTranslator] = ErrorTranslator(translate)
    raised = {"refused": Refused("no"), "other": ValueError("secret"), "fault": LookupError("secret")}

    def fail(kind: str) -> None:
        if kind == "group":
            raise ExceptionGroup("one", [Refused("no")])
        if kind == "own":
            raise ToolError("mine")
        raise raised[kind]

    @app.tool
    def sync_tool(kind: str) -> None:
        fail(kind)

    @app.tool
    async def async_tool(kind: str) -> None:
        fail(kind)

    @app.resource("data://sync/{kind}")
    def sync_resource(kind: str) -> None:
        fail(kind)

    @app.resource("data://async/{kind}")
    async def async_resource(kind: str) -> None:
        fail(kind)

    @app.prompt
    def sync_prompt(kind: str) -> str:
        return str(fail(kind))

    @app.prompt
    async def async_prompt(kind: str) -> str:
        return str(fail(kind))

    return app


async def text_of(client: Client, color: str, kind: str, prefix: str = "") -> tuple[str, str, str]:
    """Return the texts of a tool, a resource and a prompt that fail."""
    tool = await client.call_tool(f"{prefix}{color}_tool", {"kind": kind}, raise_on_error=False)
    assert tool.is_error
    uri = f"data://{prefix.replace('_', '/')}{color}/{kind}"
    with pytest.raises(MCPError) as resource:
        await client.read_resource(uri)
    with pytest.raises(MCPError) as prompt:
        await client.get_prompt(f"{prefix}{color}_prompt", {"kind": kind})
    return tool.text, resource.value.message, prompt.value.message


@pytest.mark.parametrize("color", ["sync", "async"])
@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_a_translated_exception_is_a_refusal_with_its_text(mode: str, color: str) -> None:
    """Of each kind of component, also as the only exception of a group; a `ToolError` stays what it is."""
    async with Client(serving(), mode=mode) as client:
        for kind in ("refused", "group"):
            assert await text_of(client, color, kind) == ("refused: no",) * 3
        assert await text_of(client, color, "own") == ("mine",) * 3


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_other_exceptions_stay_masked(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also one that the translator cannot read, which is logged."""
    async with Client(serving(), mode=mode) as client:
        for kind in ("other", "fault"):
            found = await text_of(client, "sync", kind)
            assert found[0] == "Tool `sync_tool` failed"
            assert "secret" not in str(found)
    assert "the translator is at fault" in caplog.text


async def test_a_refusal_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It is an answer, as a `ToolError` is."""
    with caplog.at_level(logging.ERROR):
        async with Client(serving()) as client:
            await text_of(client, "sync", "refused")
    assert not caplog.records


async def test_the_server_of_the_function_translates_where_it_is_mounted() -> None:
    """The host has no part in it, and its own functions stay masked."""
    host: MCPServer[Any] = MCPServer("host")
    host.mount(serving(), prefix="m")

    @host.tool
    def own() -> None:
        raise Refused("no")

    async with Client(host) as client:
        assert await text_of(client, "sync", "refused", "m_") == ("refused: no",) * 3
        assert (await client.call_tool("own", raise_on_error=False)).text == "Tool `own` failed"


async def test_the_general_path_translates_too() -> None:
    """As the fast one does."""
    app = serving()
    answer = await ask(app, "tools/call", {"name": "sync_tool", "arguments": {"kind": "refused"}})
    assert (answer["isError"], answer["content"][0]["text"]) == (True, "refused: no")
    assert app.tools.fast_calls == 0
