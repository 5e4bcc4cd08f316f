"""An API with an OpenAPI description as a server, written for fastmcp 4."""

import asyncio

import httpx2

# --8<-- [start:server]
from fastmcp import Client, FastMCP
from fastmcp.server.providers.openapi import MCPType, RouteMap
from orders_api import DESCRIPTION, api

http = httpx2.AsyncClient(base_url="http://api.example", transport=httpx2.ASGITransport(app=api))

app = FastMCP.from_openapi(
    DESCRIPTION,
    client=http,
    name="orders",
    route_maps=[
        RouteMap(tags={"orders"}, mcp_type=MCPType.TOOL),
        RouteMap(mcp_type=MCPType.EXCLUDE),
    ],
    mcp_names={"get_order": "order"},
)
# --8<-- [end:server]


async def main():
    async with Client(app) as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("order", {"number": 1})).structured_content)
        print((await client.call_tool("order", {"number": 2}, raise_on_error=False)).content[0].text)


asyncio.run(main())
