"""Where search replaces the list, an operation is converted when it is first found, described or called."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from ferrule import Client, MCPServer
from ferrule.expose.description.operation_schemas import SchemaMaker
from ferrule.expose.openapi import from_openapi
from ferrule.search.definitions import MAX_LISTED
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS
from tests.expose.callers_for_tests import AnsweringCaller
from tests.expose.documents import document

pytestmark = pytest.mark.anyio

MODES = ["auto", *HANDSHAKE_PROTOCOL_VERSIONS]


def described(count: int) -> dict[str, Any]:
    """A document of so many operations; the first one refers to another document."""
    paths: dict[str, Any] = {
        f"/things/{number}": {
            "get": {
                "operationId": f"thing_{number}",
                "summary": f"Thing of number {number}",
                "parameters": [
                    {"name": "zeal", "in": "query", "description": "how eagerly", "schema": {"type": "integer"}},
                    {"name": "tenant", "in": "query", "required": True, "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {"properties": {"ardour": {"type": "string", "description": "warmth"}}}
                        }
                    }
                },
            }
        }
        for number in range(count)
    }
    broken = [{"name": "a", "in": "query", "schema": {"$ref": "https://other.example/a.json#/A"}}]
    paths["/things/0"]["get"]["parameters"] = broken
    return document(paths)


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operations that were converted, in their order."""
    found: list[str] = []
    original = SchemaMaker.make

    def make(self: SchemaMaker, operation: Any) -> Any:
        found.append(operation.name)
        return original(self, operation)

    monkeypatch.setattr(SchemaMaker, "make", make)
    return found


def serve(count: int, caller: AnsweringCaller | None = None, **options: Any) -> MCPServer[Any]:
    return from_openapi(
        described(count), base_url="https://api.example", caller=caller or AnsweringCaller(), include="*", **options
    )


@pytest.mark.parametrize("mode", MODES)
async def test_only_what_is_found_described_or_called_is_converted(mode: str, converted: list[str]) -> None:
    """Not at the start, in the list, or to look for words; once for each operation."""
    server = serve(3 * MAX_LISTED, parameters={"tenant": "t"})
    async with Client(server, mode=mode) as client:
        assert len(await client.list_tools()) == 3
        assert converted == []
        found = json.loads((await client.call_tool("search_tools", {"query": "zeal ardour", "limit": 2})).text)
        assert found["found"] == 3 * MAX_LISTED  # the words of arguments are known without their schemas
        assert [sorted(tool["optional"]) for tool in found["tools"]] == [["ardour", "zeal"]] * 2  # no constant
        names = [tool["name"] for tool in found["tools"]]
        assert converted == names
        shown = json.loads((await client.call_tool("describe_tool", {"name": names[0]})).text)
        assert set(shown["inputSchema"]["properties"]) == {"ardour", "zeal"}
        for arguments, is_error in (({"zeal": 1}, False), ({"zeal": "x"}, True), ({"tenant": "other"}, True)):
            result = await client.call_tool("call_tool", {"name": "thing_7", "arguments": arguments})
            assert result.is_error is is_error
            assert (await client.call_tool("thing_7", arguments)).is_error is is_error
        assert converted == [*names, "thing_7"]


async def test_a_list_that_is_read_whole_is_converted_at_once(
    converted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What is broken is named at the start then."""
    server = serve(MAX_LISTED)
    assert len(converted) == MAX_LISTED
    assert "GET /things/0 is not exposed: the reference" in caplog.text
    async with Client(server) as client:
        assert len(await client.list_tools()) == MAX_LISTED - 1


@pytest.mark.parametrize("mode", MODES)
async def test_what_cannot_be_converted_is_named_when_it_is_found(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """To the model and in the log; nothing is sent."""
    caplog.set_level(logging.WARNING)
    caller = AnsweringCaller()
    async with Client(serve(2 * MAX_LISTED, caller), mode=mode) as client:
        found = json.loads((await client.call_tool("search_tools", {"query": "thing_0 number 0"})).text)
        assert found["tools"][0]["name"] == "thing_0"
        calls: list[tuple[str, dict[str, Any]]] = [
            ("describe_tool", {"name": "thing_0"}),
            ("call_tool", {"name": "thing_0", "arguments": {}}),
            ("thing_0", {"a": 1}),
        ]
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert "cannot be used" in result.text
            assert "another document" in result.text
    assert caller.requests == []
    assert caplog.text.count("GET /things/0 is not exposed") == 1


async def test_parameters_that_are_added_are_checked_at_the_start() -> None:
    """A schema of the author's own that is wrong stops the program, not a call."""
    with pytest.raises(Exception, match="schema"):
        serve(2 * MAX_LISTED, add_parameters={"thing_1": {"more": {"type": "no-type"}}})


async def test_a_server_of_few_tools_with_search_defers_too(converted: list[str]) -> None:
    serve(5, server={"tool_search": True})
    assert converted == []
    serve(3 * MAX_LISTED, server={"tool_search": False})
    assert len(converted) == 3 * MAX_LISTED
