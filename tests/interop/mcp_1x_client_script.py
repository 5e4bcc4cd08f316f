"""Runs inside an environment of the official ``mcp`` 1.x package: one client, one server, what hosts of its time call.

Usage: mcp_1x_client_script.py http URL | sse URL | stdio COMMAND ARGUMENT...
Prints one JSON object with what the client saw. It imports nothing of Ferrule.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from mcp import ClientSession, StdioServerParameters, types  # pyright: ignore[reportMissingImports]
from mcp.client.sse import sse_client  # pyright: ignore[reportMissingImports]
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]
from pydantic import AnyUrl

STEPS = 50


def plain(value: Any) -> Any:
    """A result of the package as JSON."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def open_streams(stack: AsyncExitStack, kind: str, target: list[str]) -> tuple[Any, Any]:
    """The stream pair of the transport."""
    if kind == "stdio":
        parameters = StdioServerParameters(command=target[0], args=target[1:])
        return await stack.enter_async_context(stdio_client(parameters))
    if kind == "sse":
        return await stack.enter_async_context(sse_client(target[0]))
    from mcp.client.streamable_http import streamablehttp_client  # pyright: ignore[reportMissingImports]

    read, write, _ = await stack.enter_async_context(streamablehttp_client(target[0]))
    return read, write


async def main(kind: str, target: list[str]) -> None:
    counts: dict[str, list[int]] = {}
    asked: list[str] = []

    async def on_sampling(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.append(params.messages[0].content.text)
        return types.CreateMessageResult(
            role="assistant", model="fake", content=types.TextContent(type="text", text="fjord")
        )

    async def on_roots(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///home")])

    async with AsyncExitStack() as stack:
        read, write = await open_streams(stack, kind, target)
        session = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                read_timeout_seconds=timedelta(seconds=30),
                sampling_callback=on_sampling,
                list_roots_callback=on_roots,
            )
        )
        started = await session.initialize()
        seen: dict[str, Any] = {
            "protocol_version": started.protocolVersion,
            "tools": sorted(tool.name for tool in (await session.list_tools()).tools),
            "sum": plain(await session.call_tool("add", {"a": 2, "b": 40})),
            "broken": plain(await session.call_tool("broken", {})),
            "invalid": plain(await session.call_tool("add", {"a": "many", "b": 1})),
            "ask": plain(await session.call_tool("ask_for_a_word", {"city": "Oslo"})),
            "resource": plain(await session.read_resource(AnyUrl("data://counter"))),
            "prompt": plain(await session.get_prompt("review", {"code": "x"})),
        }
        many = await asyncio.gather(*(session.call_tool("add", {"a": n, "b": n}) for n in range(100)))
        seen["many"] = [result.content[0].text for result in many]
        if "progress_callback" in inspect.signature(session.call_tool).parameters:
            for name in ("without_pause", "with_pauses"):
                counts[name] = []
                for _ in range(3):
                    heard: list[float] = []

                    async def on_progress(done: float, *_: Any, heard: list[float] = heard) -> None:
                        heard.append(done)

                    await session.call_tool(name, {"steps": STEPS}, progress_callback=on_progress)
                    counts[name].append(len(heard))
    print(json.dumps({**seen, "asked": asked, "progress": counts}))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
