"""Runs inside the environment of the official ``mcp`` package: lists the tools of a server and makes the calls given.

Usage: mcp_calls_script.py MODE URL CALLS, where CALLS is a JSON list of names and arguments. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client  # pyright: ignore[reportMissingImports]


async def main(mode: str, url: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    async with Client(url, mode=mode, read_timeout_seconds=60) as client:
        seen: dict[str, Any] = {
            "protocol_version": client.protocol_version,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "results": [],
        }
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            seen["results"].append({"is_error": bool(result.is_error), "text": result.content[0].text})
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
