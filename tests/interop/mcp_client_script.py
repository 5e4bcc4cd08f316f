"""Runs inside the environment of the official ``mcp`` package: one client, one server, every kind of call.

Usage: mcp_client_script.py MODE http URL | MODE stdio COMMAND ARGUMENT...
Prints one JSON object with what the client saw. It imports nothing of Ferrule.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters  # pyright: ignore[reportMissingImports]


def plain(value: Any) -> Any:
    """A result of the package as JSON."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(mode: str, kind: str, target: list[str]) -> None:
    server: Any = target[0] if kind == "http" else StdioServerParameters(command=target[0], args=target[1:])
    progress: list[list[Any]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        seen: dict[str, Any] = {
            "protocol_version": client.protocol_version,
            "server_name": client.server_info.name if client.server_info else None,
            "tools": plain(await client.list_tools()),
            "resources": plain(await client.list_resources()),
            "templates": plain(await client.list_resource_templates()),
            "prompts": plain(await client.list_prompts()),
            "echo": plain(await client.call_tool("echo", {"text": "grüße, \U0001f529"})),
            "add": plain(await client.call_tool("add", {"a": 2, "b": 40})),
            "cut": plain(
                await client.call_tool("cut", {"metal": "brass", "length_mm": 12}, progress_callback=on_progress)
            ),
            "too_long": plain(await client.call_tool("cut", {"metal": "copper", "length_mm": 9999})),
            "stock": plain(await client.read_resource("workshop://stock")),
            "bar": plain(await client.read_resource("workshop://metals/steel")),
            "quote": plain(await client.get_prompt("quote", {"metal": "brass"})),
        }
        try:
            await client.get_prompt("nothing")
        except Exception as error:
            seen["unknown_prompt"] = {"type": type(error).__name__, "code": getattr(error, "code", None)}
        # One hundred calls at once: nothing may be lost or mixed up.
        many = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": n}) for n in range(100)))
        seen["many"] = [result.content[0].text for result in many]
    seen["progress"] = progress
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
