"""Runs inside the environment of the official ``mcp`` package: a client with handlers, one order.

Usage: mcp_orders_script.py MODE http URL | MODE stdio COMMAND ARGUMENT...
Prints one JSON object with what the client was asked and got. It imports nothing of Ferrule.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import (  # pyright: ignore[reportMissingImports]
    Client,
    StdioServerParameters,
    types,  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
)


async def main(mode: str, kind: str, target: list[str]) -> None:
    server: Any = target[0] if kind == "http" else StdioServerParameters(command=target[0], args=target[1:], env=None)
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        (name,) = params.requested_schema["properties"]
        field = params.requested_schema["properties"][name]
        return types.ElicitResult(action="accept", content={name: True if field["type"] == "boolean" else "M"})

    async def sample(context: Any, params: Any) -> Any:
        asked.append(params.messages[0].content.text)
        content = types.TextContent(type="text", text="Thank you!")
        return types.CreateMessageResult(role="assistant", content=content, model="a model")

    async with Client(
        server, mode=mode, read_timeout_seconds=30, elicitation_callback=elicit, sampling_callback=sample
    ) as client:
        result = await client.call_tool("order", {"product": "ferrule"})
        seen = {
            "protocol_version": client.protocol_version,
            "asked": asked,
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
