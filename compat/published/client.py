"""Runs in an environment of the official ``mcp`` package, 1.x or 2.x: lists all that a server on stdio has, and calls.

Usage: client.py MODE CALL COMMAND [ARGUMENT]..., or a URL in place of the command. MODE is ``legacy`` or a modern
revision, CALL is ``[tool, arguments]`` as JSON, or ``null``. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import mcp  # pyright: ignore[reportMissingImports]
from mcp import StdioServerParameters  # pyright: ignore[reportMissingImports]
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]

LIMIT_S = 180


def plain(value: Any) -> dict[str, Any]:
    """Return a result as JSON."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def everything(client: Any, list_method: str, key: str) -> list[Any]:
    """Return all pages of a list; none where the server has no such list."""
    found: list[Any] = []
    cursor = None
    try:
        while True:
            method = getattr(client, list_method)
            result = plain(await (method() if cursor is None else method(cursor=cursor)))
            found += result[key]
            cursor = result.get("nextCursor")
            if not cursor:
                return found
    except Exception as error:
        if "ethod not found" in str(error):
            return []
        raise


async def seen(client: Any, call: Any) -> dict[str, Any]:
    """Return the lists of a server, and the result of the call."""
    made: dict[str, Any] = {
        "tools": await everything(client, "list_tools", "tools"),
        "resources": await everything(client, "list_resources", "resources"),
        "templates": await everything(client, "list_resource_templates", "resourceTemplates"),
        "prompts": await everything(client, "list_prompts", "prompts"),
    }
    if call is not None:
        result = plain(await client.call_tool(call[0], call[1]))
        made["result"] = {key: result.get(key) for key in ("content", "structuredContent", "isError")}
    return made


async def main(mode: str, call: Any, command: list[str]) -> None:
    """Print what the client sees."""
    is_url = command[0].startswith("http")
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    if hasattr(mcp, "Client"):
        target: Any = command[0] if is_url else stdio_client(parameters)
        async with mcp.Client(target, mode=mode, read_timeout_seconds=LIMIT_S) as client:
            made = await seen(client, call)
    elif is_url:
        from mcp.client.streamable_http import streamablehttp_client  # pyright: ignore[reportMissingImports]

        async with streamablehttp_client(command[0]) as streams, mcp.ClientSession(*streams[:2]) as session:
            await session.initialize()
            made = await seen(session, call)
    else:
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            made = await seen(session, call)
    print(json.dumps(made))


asyncio.run(asyncio.wait_for(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]), LIMIT_S))
