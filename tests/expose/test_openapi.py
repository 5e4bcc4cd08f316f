"""ferrule.expose.openapi: a server of a document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule import Client, MCPServer
from ferrule.expose import from_openapi, read_openapi
from tests.expose.callers_for_tests import BASE_URL, AnsweringCaller
from tests.expose.documents import document

pytestmark = pytest.mark.anyio


def ten_megabytes() -> bytes:
    """Return a document of 11 MB: 4,000 operations, each with a type of its own that refers to the next one."""
    text = "It says what it is. " * 100
    schemas = {
        f"T{n}": {
            "type": "object",
            "description": text,
            "properties": {"next": {"$ref": f"#/components/schemas/T{(n + 1) % 4000}"}, "a": {"type": "string"}},
        }
        for n in range(4000)
    }
    paths = {
        f"/p{n}/{{id}}": {
            "post": {
                "operationId": f"op{n}",
                "description": text[:500],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/T{n}"}}}},
            }
        }
        for n in range(4000)
    }
    return json.dumps(document(paths, components={"schemas": schemas})).encode()


async def test_of_a_document_of_ten_megabytes_only_what_is_chosen_is_converted() -> None:
    """And the group of 4,000 types that all lead to each other does not end in one tool."""
    data = ten_megabytes()
    assert len(data) > 10_000_000
    description = read_openapi(data)
    assert len(description.operations) == 4000
    server = from_openapi(data, base_url=BASE_URL, caller=AnsweringCaller(), include=["op7", "op3999"])
    async with Client(server) as client:
        tools = await client.list_tools()
    assert [tool.name for tool in tools] == ["op7", "op3999"]
    assert all(len(json.dumps(tool.input_schema, separators=(",", ":"))) <= 24 * 1024 for tool in tools)


@pytest.mark.parametrize(
    "base_url",
    ["", "/v1", "api.example", "ftp://api.example", "https://", "https://api.example/?key=1", "https://x/#a"],
)
def test_a_base_url_that_is_none_is_refused_at_the_start(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url is an absolute URL"):
        from_openapi(document({"/x": {"get": {}}}), base_url=base_url, include="*")


async def test_the_lifespan_of_the_author_runs_and_connections_end_after_it() -> None:
    from collections.abc import AsyncGenerator
    from contextlib import asynccontextmanager

    events: list[str] = []

    class Closing(AnsweringCaller):
        async def aclose(self) -> None:
            events.append("closed")

    @asynccontextmanager
    async def lifespan(app: MCPServer[Any]) -> AsyncGenerator[dict[str, str]]:
        events.append("start")
        yield {"a": "b"}
        events.append("end")

    given = document({"/x": {"get": {"operationId": "it"}}})
    options = {"lifespan": lifespan, "version": "9"}
    server = from_openapi(given, base_url=BASE_URL, caller=Closing(), include="*", name="named", server=options)
    assert server.name == "named"
    async with Client(server) as client:
        assert not (await client.call_tool("it", {})).is_error
        assert events == ["start"]
    assert events == ["start", "end", "closed"]
