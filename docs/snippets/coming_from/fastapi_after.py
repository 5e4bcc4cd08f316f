"""The same with Ferrule."""

from fastapi import FastAPI

# --8<-- [start:server]
from ferrule.expose import expose
from ferrule.integrations.fastapi import mount

app = FastAPI()


@app.get("/items/{item_id}", operation_id="get_item", tags=["items"])
async def get_item(item_id: int) -> dict[str, int]:
    """Return an item."""
    return {"id": item_id}


mcp = expose(app, include="tag:items", forward_headers=("authorization",))
mount(app, mcp)
# --8<-- [end:server]


async def main() -> None:
    """Call the tool in this process."""
    from ferrule import Client

    async with Client(mcp) as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("get_item", {"item_id": 3})).structured_content)


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
