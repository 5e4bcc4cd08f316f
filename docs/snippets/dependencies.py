"""A lifespan, a dependency and a middleware."""

# --8<-- [start:code]
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from ferrule import Client, Context, Depends, MCPServer

LOG: list[str] = []


@asynccontextmanager
async def lifespan(app: MCPServer[dict[str, str]]) -> AsyncIterator[dict[str, str]]:
    yield {"database": "stock.db"}  # open before, close after


async def note(ctx: Any, call_next: Any) -> Any:
    LOG.append(ctx.method)
    return await call_next(ctx)


app = MCPServer("stock", lifespan=lifespan, middleware=[note])


def connection(ctx: Context[dict[str, str]]) -> Iterator[str]:
    yield f"connection to {ctx.lifespan['database']}"
    LOG.append("closed")


@app.tool
def count(metal: str, db: Annotated[str, Depends(connection)]) -> str:
    return f"{metal} by {db}"


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    LOG.clear()
    async with Client(app, mode=mode) as client:
        done = await client.call_tool("count", {"metal": "brass"})
        assert done.text == "brass by connection to stock.db"
        assert "db" not in (await client.list_tools())[0].input_schema["properties"]
    assert LOG.index("tools/call") < LOG.index("closed")
