"""Calls from schemas: each is what its kind says, and a server that is not as it says is found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest

from ferrule import Client, Field, MCPServer, SyncClient, ToolError
from ferrule.client.calls.schema_check import SchemaCheck
from ferrule.testing import check_tools, check_tools_sync, tool_cases

pytestmark = pytest.mark.anyio


@dataclass
class Row:
    """A row."""

    name: str
    size: int = 1


def make() -> MCPServer:
    """A server with parameters of many kinds."""
    app = MCPServer("kinds")

    @app.tool
    def find(
        word: Annotated[str, Field(min_length=2, max_length=20)],
        day: date,
        limit: Annotated[int, Field(ge=1, le=10)] = 5,
        kind: Literal["a", "b"] = "a",
        row: Row | None = None,
        words: list[str] | None = None,
        ratio: float = 0.5,
        loud: bool = False,
    ) -> str:
        """Find."""
        return word

    @app.tool(annotations={"destructiveHint": True})
    def drop(name: str) -> str:
        """Drop a table."""
        raise RuntimeError("never called by a check that does not name it")

    return app


def test_each_case_is_what_it_says() -> None:
    """The validator is the judge; there are some of each kind, in the same order each time."""
    (tool, _) = make().list_tools()
    cases = tool_cases(tool)
    check = SchemaCheck(dict(tool.input_schema))
    for case in cases:
        assert (check.problem(case.arguments) is not None) == (case.kind == "invalid"), case
    assert {case.kind for case in cases} == {"valid", "edge", "invalid"}
    assert len(cases) > 25
    assert cases == tool_cases(tool)
    reasons = {case.why for case in cases}
    assert {"required parameters only", "without 'day'", "limit: beyond maximum", "an unknown parameter"} <= reasons


def test_a_tool_without_parameters() -> None:
    """One call with nothing, one with something."""
    cases = tool_cases({"name": "a", "inputSchema": {"type": "object", "additionalProperties": False}})
    assert [(case.kind, case.arguments) for case in cases] == [("valid", {}), ("invalid", {"unexpected_parameter": 1})]


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_a_good_server_passes(mode: str) -> None:
    """Destructive tools are not called."""
    async with Client(make(), mode=mode) as client:
        assert await check_tools(client) > 25
        assert await check_tools(client, skip=["find"]) == 0


def test_the_same_without_a_loop() -> None:
    """For tests that are no coroutines."""
    with SyncClient(make()) as client:
        assert check_tools_sync(client) > 25


def careless(**_: Any) -> MCPServer:
    """A server that fails on some text, and takes what its schema forbids."""
    app = MCPServer("careless")

    @app.tool
    def shout(word: str) -> str:
        """Shout."""
        return word.encode("ascii").decode().upper()

    @app.tool(input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, name="half")
    def half(**values: Any) -> str:
        """Halve."""
        return "x"

    @app.tool
    def get(key: int) -> str:
        """Get."""
        raise ToolError("not found")

    return app


async def test_what_is_found() -> None:
    """Each failure with tool, arguments and reason."""
    async with Client(careless()) as client:
        with pytest.raises(AssertionError, match=r"shout\(.*Zürich.*failed \(word: other scripts"):
            await check_tools(client, only=["shout"])
        with pytest.raises(AssertionError, match=r"get\(.*\) failed .*not found"):
            await check_tools(client, only=["get"])
        assert await check_tools(client, only=["get"], may_fail=["get"]) > 3


async def test_what_should_be_refused_and_is_not() -> None:
    """A server that does not look at its arguments."""
    from ferrule import Server

    server = Server("raw")

    @server.request("tools/list")
    async def tools(ctx: Any) -> Any:
        return {"tools": [{"name": "n", "inputSchema": {"type": "object", "properties": {}, "required": ["a"]}}]}

    @server.request("tools/call")
    async def call(ctx: Any) -> Any:
        return {"content": []}

    async with Client(server) as client:
        with pytest.raises(AssertionError, match="was not refused"):
            await check_tools(client)
