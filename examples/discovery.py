"""Find a server by its site alone: it publishes a server card, and a client reads the catalog of the site."""

from __future__ import annotations

import asyncio

from showing import listening

from ferrule import Client, MCPServer, discover

app = MCPServer("tides", version="1.0.0", title="Tides", description="When the sea comes and goes")
app.card()


@app.tool
def next_tide(harbour: str) -> str:
    """When the water is high in a harbour."""
    return f"high water in {harbour} at 04:10"


async def main() -> None:
    """Find the server on this machine, look at its card, and call it in both eras."""
    async with listening(app.asgi(loopback=True)) as origin:
        for server in await discover(origin):
            assert server.card is not None
            print(f"{server.card.name} {server.card.version}: {server.card.description}")
            for mode in ("legacy", "auto"):
                async with Client(server.address(), mode=mode) as client:
                    result = await client.call_tool("next_tide", {"harbour": "Bristol"})
                    print(f"  {client.protocol_version}  {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
