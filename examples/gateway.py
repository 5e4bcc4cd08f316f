"""One server in front of three: a group of clients behind, the tools of all under one name each.

The three are weather.py, search.py and picture.py as processes of their own; URLs or a host's ``mcpServers`` file do as
well. Each is spoken to in the newest era that it knows, whatever the client in front speaks, and one that is down
takes away its own tools only. What is asked of the user is refused here; `ferrule.proxy` passes questions on, too, for
one server.

python examples/gateway.py                        shows it in both eras
python examples/gateway.py stdio                  serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ferrule import Client, ClientGroup, MCPError, MCPServer
from ferrule.errors import InvalidParams, UnknownServer
from ferrule.types import ListToolsResult, ToolResult

HERE = Path(__file__).parent
SERVERS = {
    name: {"command": sys.executable, "args": [str(HERE / f"{name}.py"), "stdio"]}
    for name in ("weather", "search", "picture")
}


@asynccontextmanager
async def lifespan(_: MCPServer[ClientGroup]) -> AsyncIterator[ClientGroup]:
    """Connected to all while the gateway serves."""
    async with ClientGroup({"mcpServers": SERVERS}, list_s=30) as group:
        await group.ready()
        yield group


app: MCPServer[ClientGroup] = MCPServer("gateway", version="1.0", lifespan=lifespan)


async def list_tools(ctx: Any) -> ListToolsResult:
    """Every tool of every server that answers."""
    return ListToolsResult(await ctx.lifespan_context.list_tools())


async def call_tool(ctx: Any) -> ToolResult:
    """Pass a call on to the server that its name begins with, and its progress back.

    A caller that cancels cancels the call behind: nothing needs to be done for it.
    """
    group: ClientGroup = ctx.lifespan_context
    try:
        answer = await group.call_tool(ctx.params.name, ctx.params.arguments, on_progress=ctx.session.progress)
    except UnknownServer as error:
        raise InvalidParams(f"There is no tool {ctx.params.name!r}") from error
    except MCPError as error:  # what a server said goes on as it said it
        raise MCPError(error.message, code=error.code, data=error.data) from error
    return answer.result


# Below the decorators: a gateway has no functions of its own, so it answers the two methods itself.
app.lowlevel.add_request_handler("tools/list", list_tools)
app.lowlevel.add_request_handler("tools/call", call_tool)


async def show(client: Client) -> None:
    """List, and call each of the three."""
    print(f"  {', '.join(tool.name for tool in await client.list_tools())}")
    climate = await client.call_tool("weather_climate", {"city": "Lima", "month": 2})
    print(f"  weather: {climate.text}")
    steps: list[float] = []
    found = await client.call_tool(
        "search_search", {"words": "ClientGroup("}, on_progress=lambda now, total, text: steps.append(now)
    )
    print(f"  search:  {len(found.data)} lines, progress reported {'as it went' if steps else 'never'}")
    chart = await client.call_tool("picture_bar_chart", {"values": [3, 1, 2]})
    print(f"  picture: {chart.text}, {chart.content[1].mime_type}")


if __name__ == "__main__":
    from showing import main

    main(app, show)
