"""Runs inside the environment of the official ``mcp`` package: progress, a question, a cancellation.

Usage: bridge_client.py MODE RECORD http URL | MODE RECORD stdio COMMAND ARGUMENT...
Prints one JSON object with what the client saw. It imports nothing of Ferrule.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, types  # pyright: ignore[reportMissingImports]


async def main(mode: str, record: Path, kind: str, target: list[str]) -> None:
    server: Any = target[0] if kind == "http" else StdioServerParameters(command=target[0], args=target[1:])
    progress: list[list[Any]] = []
    asked: list[str] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    async def answer(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada", "age": 36})

    async def sample(context: Any, params: Any) -> Any:
        asked.append(params.messages[0].content.text)
        content = types.TextContent(type="text", text="an alloy")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    options: Any = {"elicitation_callback": answer, "sampling_callback": sample}
    async with Client(server, mode=mode, read_timeout_seconds=30, **options) as client:
        seen: dict[str, Any] = {
            "version": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "tools": sorted(tool.name for tool in (await client.list_tools()).tools),
            "add": (await client.call_tool("add", {"a": 40})).structured_content,
            "memo": (await client.read_resource("memo://monday/tea")).contents[0].text,
            "ask": (await client.get_prompt("ask", {"topic": "tea"})).messages[0].content.text,
            "steps": (await client.call_tool("steps", {"count": 3}, progress_callback=on_progress)).content[0].text,
            "greet": (await client.call_tool("greet")).content[0].text,
            "think": (await client.call_tool("think", {"about": "brass"})).content[0].text,
        }
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "linger", {"record": str(record)})
            with anyio.fail_after(30):
                while not record.exists() or record.read_text() != "began":
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        with anyio.fail_after(30):
            while record.read_text() != "cancelled":
                await anyio.sleep(0.02)
        seen["cancelled"] = True
        seen["after"] = (await client.call_tool("add", {"a": 1})).structured_content
    seen["progress"] = progress
    seen["asked"] = asked
    print(json.dumps(seen))


anyio.run(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
