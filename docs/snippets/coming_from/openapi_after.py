"""An API with an OpenAPI description as a server, written for Ferrule."""

import asyncio

from orders_api import DESCRIPTION, api

# --8<-- [start:server]
from ferrule import Client
from ferrule.expose import ASGICaller, from_openapi

app = from_openapi(
    DESCRIPTION,
    base_url="http://api.example",
    caller=ASGICaller(api),  # over HTTP without it
    name="orders",
    include="tag:orders",
    rename={"get_order": "order"},
)
# --8<-- [end:server]


async def main():
    async with Client(app) as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("order", {"number": 1})).structured_content)
        print((await client.call_tool("order", {"number": 2})).text)


asyncio.run(main())
