"""What the tests of exposed FastAPI applications share."""

import json
from typing import Any

import pytest
import starlette._utils
from pydantic import BaseModel

from ferrule import Client
from ferrule.expose import expose
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

IS_NEW = hasattr(starlette._utils, "get_route_path")
"""Whether this is Starlette 0.33 or newer: before it, a prefix of the server's broke its routes, and a middleware that
reads a body never returned."""

MODES = ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]]
both_eras = pytest.mark.parametrize("mode", MODES)


class Node(BaseModel):
    """A tree, which refers to itself."""

    name: str
    children: list["Node"] = []


class Item(BaseModel):
    id: int
    name: str
    price: float = 1.0


async def called(
    app: Any, name: str, arguments: dict[str, Any] | None = None, mode: str = "auto", **options: Any
) -> Any:
    """The result of one call of an exposed application."""
    async with Client(expose(app, include="*", **options), mode=mode) as client:
        return await client.call_tool(name, arguments or {})


async def tools_of(app: Any, mode: str = "auto", **options: Any) -> dict[str, Any]:
    """The tools of an exposed application, by name."""
    async with Client(expose(app, include=options.pop("include", "*"), **options), mode=mode) as client:
        return {tool.name: tool for tool in await client.list_tools()}


def structured(result: Any) -> Any:
    """The data of a result in either era: structured, below ``result`` for revisions with objects only, or as text."""
    assert not result.is_error, result.text
    found = result.structured_content
    if found is None:
        try:
            return json.loads(result.text)
        except ValueError:
            return result.text
    return found["result"] if isinstance(found, dict) and set(found) == {"result"} else found
