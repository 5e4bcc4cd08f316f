"""Several servers as one: names, states, a server that is down, changes, and another configuration.

python examples/many_servers.py                   shows it in both eras
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from ferrule import ClientGroup, Context, MCPServer

DEAD = {"command": sys.executable, "args": ["-c", "raise SystemExit('the key is missing')"]}


def make_shop(name: str) -> MCPServer[Any]:
    """A server with a tool that only reads, and one that asks first."""
    shop = MCPServer(name)

    @shop.tool(annotations={"readOnlyHint": True})
    async def stock(item: str) -> int:
        """Return how many there are."""
        return len(item)

    @shop.tool
    async def order(ctx: Context, item: str) -> str:
        """Order an item."""
        answer = await ctx.elicit(f"Order {item}?", bool)
        return f"{item} is ordered" if answer.data else "nothing is ordered"

    return shop


def ask_user(params: Any, question: Any) -> Any:
    """Answer yes, and show who asks: the name in the configuration, whatever the server calls itself."""
    print(f"  {question.server} asks: {params.message}")
    return {"value": True}


async def show(mode: str) -> None:
    """What a host does with its servers."""
    servers: dict[str, Any] = {"north": make_shop("My shop"), "south": make_shop("My shop"), "broken": DEAD}
    group = ClientGroup(servers, mode=mode, prefix="when needed", name_limit=64, elicitation_handler=ask_user)
    async with group:
        await group.ready()
        print((await group.client("north")).protocol_version)
        print("  tools:", ", ".join(tool.name for tool in await group.list_tools()))
        print("  states:", ", ".join(f"{name}={member.is_up}" for name, member in group.servers.items()))
        print("  broken: the key is missing" if "the key is missing" in str(group.servers["broken"].error) else "?")
        print("  stock:", (await group.call_tool("south_stock", {"item": "lamp"})).data)
        print("  order:", (await group.call_tool("order", {"item": "lamp"})).text)
        report = await group.reload({"north": servers["north"], "west": make_shop("Another shop")})
        print("  reload: added", report.added, "removed", report.removed, "unchanged", report.unchanged)
        print("  tools:", ", ".join(tool.name for tool in await group.list_tools()))


async def main() -> None:
    """Once in each era."""
    logging.getLogger("ferrule.client").setLevel(logging.ERROR)  # the broken server would be named in the log
    for mode in ("2025-11-25", "2026-07-28"):
        await show(mode)


if __name__ == "__main__":
    asyncio.run(main())
