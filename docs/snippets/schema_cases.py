"""Calls from schemas, and the calls that reached a server."""

from __future__ import annotations

from typing import Any

from ferrule import Client, MCPServer
from ferrule.testing import calls_of, check_tools

app = MCPServer("shop")


@app.tool
def find(word: str, limit: int = 5) -> list[str]:
    """Find articles."""
    return [word] * min(max(limit, 0), 3)


@app.tool
def order(article: str) -> str:
    """Order an article."""
    return f"ordered {article}"


# --8<-- [start:cases]
async def test_every_schema(mode: str) -> None:
    async with Client(app, mode=mode) as client:
        await check_tools(client, skip=["order"])


# --8<-- [end:cases]


async def run_agent(client: Any) -> None:
    """Stand for a model loop."""
    await client.call_tool("find", {"word": "brass"})
    await client.call_tool("order", {"article": "brass"})


# --8<-- [start:sequence]
async def test_the_agent(mode: str) -> None:
    with calls_of(app) as calls:
        async with Client(app, mode=mode) as client:
            await run_agent(client)
    calls.assert_in_order("find", "order")
    calls.assert_called("order", article="brass", times=1)
    calls.assert_never("delete")


# --8<-- [end:sequence]


async def check(mode: str) -> None:
    """Both tests pass."""
    await test_every_schema(mode)
    await test_the_agent(mode)
