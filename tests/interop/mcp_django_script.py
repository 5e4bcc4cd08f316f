"""Runs inside the environment of the official ``mcp`` package: a client of a hosted project.

Usage: mcp_django_script.py MODE URL TOKEN CALLS [at-once], where CALLS is a JSON list of names and arguments. It prints
one JSON object and imports nothing of Ferrule.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx2  # pyright: ignore[reportMissingImports]
from mcp import Client, types  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]


async def main(mode: str, url: str, token: str, calls: list[tuple[str, dict[str, Any]]], at_once: bool) -> None:
    asked: list[str] = []
    progress: list[float] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"value": True})

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await client.call_tool(name, arguments, progress_callback=on_progress)
        return {"is_error": bool(result.is_error), "text": result.content[0].text, "data": result.structured_content}

    async with (
        httpx2.AsyncClient(headers={"authorization": f"Token {token}"}, timeout=60) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode,
            read_timeout_seconds=60,
            elicitation_callback=elicit,
        ) as client,
    ):
        seen: dict[str, Any] = {
            "protocol_version": client.protocol_version,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "results": await asyncio.gather(*(call(name, arguments) for name, arguments in calls))
            if at_once
            else [await call(name, arguments) for name, arguments in calls],
            "many": await asyncio.gather(*(call("where", {}) for _ in range(24))),
            "asked": asked,
            "progress": progress,
        }
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), len(sys.argv) > 5))
