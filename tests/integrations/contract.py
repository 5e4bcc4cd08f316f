"""What every exposed ASGI application does, whichever framework made it.

An application of the contract has

- ``GET /items/{item_id}`` (``read_item``), an item whose name is that of the query parameter ``name`` or ``"none"``;
- ``POST /items`` (``make_item``), which takes an item and gives it back with status 201 or 200;
- ``GET /denied`` (``denied``), 403 with the text ``not for you``;
- ``GET /whoami`` (``whoami``), the Authorization header or ``"nobody"``;
- ``GET /pool`` (``pool``), what its start made, ``"open"``;
- ``GET /things/{name}`` (``thing``), the name;
- ``GET /hidden`` and ``GET /things/secret``, which are not described.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ferrule import Client
from ferrule.expose import expose
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS
from tests.integrations.serving import over_http

__all__ = ["MODES", "Item", "check_alone", "check_credentials", "check_mounted", "data"]

MODES = ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]]

NAMES = {"read_item", "make_item", "denied", "whoami", "pool", "thing"}


@dataclass
class Item:
    """An item of the stock."""

    id: int
    name: str


def data(result: Any) -> Any:
    """The data of a successful result, in either era."""
    assert not result.is_error, result.text
    try:
        return json.loads(result.text)
    except ValueError:
        return result.text


async def check_alone(app: Any, events: list[str], mode: str, **options: Any) -> None:
    """Served apart: names, arguments, answers, refusals, and one start and end."""
    server = expose(app, include="*", **options)
    async with Client(server, mode=mode) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert set(tools) == NAMES
        assert set(tools["read_item"].input_schema["properties"]) == {"item_id", "name"}
        assert tools["read_item"].input_schema["required"] == ["item_id"]
        assert set(tools["make_item"].input_schema["required"]) == {"id", "name"}
        assert tools["read_item"].annotations.read_only_hint is True
        assert data(await client.call_tool("read_item", {"item_id": 3})) == {"id": 3, "name": "none"}
        assert data(await client.call_tool("read_item", {"item_id": 3, "name": "a b&c"}))["name"] == "a b&c"
        assert data(await client.call_tool("make_item", {"id": 4, "name": "ä"})) == {"id": 4, "name": "ä"}
        denied = await client.call_tool("denied", {})
        assert denied.is_error
        assert "403" in denied.text
        assert "not for you" in denied.text
        assert (await client.call_tool("read_item", {"item_id": "x"})).is_error
        assert data(await client.call_tool("pool", {})) == "open"
        assert data(await client.call_tool("thing", {"name": "a.b c;d"})) == "a.b c;d"
        for name in ("secret", "../hidden", "x/../secret", "..", "x/y"):  # of another operation, or of none
            refused = await client.call_tool("thing", {"name": name})
            assert refused.is_error, name
            assert "hidden" not in refused.text.replace("../hidden", "")
            assert "path" in refused.text
        async with Client(server) as another:
            assert data(await another.call_tool("pool", {})) == "open"
        assert events == ["start"]
    assert events == ["start", "end"]


async def check_mounted(app: Any, host: Any, events: list[str], mode: str, path: str, server: Any) -> None:
    """Served by the application itself, which its host starts once."""
    async with over_http(host, mode, path=path) as client:
        assert {tool.name for tool in await client.list_tools()} == NAMES
        assert data(await client.call_tool("pool", {})) == "open"
        assert events == ["start"]
    assert events == ["start", "end"]


async def check_credentials(app: Any, **options: Any) -> None:
    """The caller's Authorization reaches the application only where that was said."""
    for forward, expected in (((), "nobody"), (("authorization",), "Bearer t")):
        server = expose(app, include="*", forward_headers=forward, **options)
        async with over_http(server.asgi(), headers={"authorization": "Bearer t"}) as client:
            assert data(await client.call_tool("whoami", {})) == expected
