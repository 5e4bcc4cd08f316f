"""One server in front of two, of which a model gets three tools: search, description, call.

`ferrule run mcp.json --search` starts the two and searches the tools of both; the file could name a hundred servers.

python examples/search_gateway.py                 shows it in both eras
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from ferrule import Client, ClientGroup, StdioServer

HERE = Path(__file__).parent
SERVERS = {
    "mcpServers": {
        name: {"command": sys.executable, "args": [str(HERE / f"{name}.py"), "stdio"]} for name in ("weather", "orders")
    }
}


async def show(client: Client) -> None:
    """What a model does: look for it, look at it, use it."""
    print("  listed:   ", ", ".join(tool.name for tool in await client.list_tools()))
    for query in ("the climate of a city", "place an order"):
        found = await client.call_tool("search_tools", {"query": query, "limit": 1})
        print(f"  {query}:", ", ".join(tool["name"] for tool in found.structured_content["tools"]))
    described = await client.call_tool("describe_tool", {"name": "weather_climate"})
    print("  arguments:", described.structured_content["inputSchema"]["required"])
    inner = {"name": "weather_climate", "arguments": {"city": "Lima", "month": 2}}
    print("  Lima:     ", (await client.call_tool("call_tool", inner)).text)


async def main() -> None:
    """Either era in front of the gateway; and the same search in a program, without a gateway."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mcp.json"
        path.write_text(json.dumps(SERVERS), encoding="utf-8")
        gateway = StdioServer(sys.executable, ["-m", "ferrule", "run", str(path), "--search"])
        for mode in ("legacy", "auto"):
            async with Client(gateway, mode=mode) as client:
                print(client.protocol_version, flush=True)
                await show(client)
    async with ClientGroup(SERVERS, list_s=30) as group:
        await group.ready()  # the programs may need longer than a list waits for them
        found = await group.search_tools("the climate of a city", limit=1)
        print("in a program:", ", ".join(tool.name for tool in found))


if __name__ == "__main__":
    asyncio.run(main())
