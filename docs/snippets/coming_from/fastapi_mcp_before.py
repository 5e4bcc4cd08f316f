"""The program that the page moves, with fastapi-mcp 0.4 and mcp below 2."""

from fastapi import FastAPI

# --8<-- [start:server]
from fastapi_mcp import FastApiMCP

app = FastAPI()


@app.get("/items/{item_id}", operation_id="get_item", tags=["items"])
async def get_item(item_id: int) -> dict[str, int]:
    """Return an item."""
    return {"id": item_id}


mcp = FastApiMCP(app, include_tags=["items"], headers=["authorization"])
mcp.mount_http()
# --8<-- [end:server]


async def main() -> None:
    """Serve the application, and call its tool with the client of ``mcp``."""
    import asyncio

    import uvicorn
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as client:
        await client.initialize()
        print([tool.name for tool in (await client.list_tools()).tools])
        print((await client.call_tool("get_item", {"item_id": 3})).content[0].text.split())
    server.should_exit = True
    await serving


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
