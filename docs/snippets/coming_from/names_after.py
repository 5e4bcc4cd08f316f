"""The notes of a shop, written for Ferrule."""

# --8<-- [start:server]
from contextlib import asynccontextmanager
from typing import Annotated

from ferrule import Context, Field, MCPServer, ToolError


@asynccontextmanager
async def lifespan(server):
    yield {"shop": "Ada"}


app = MCPServer("shop", lifespan=lifespan)


@app.tool
def price(size: str, count: Annotated[int, Field("how many")] = 1) -> dict[str, int]:
    """What shirts cost."""
    if size not in ("S", "M"):
        raise ToolError(f"No size {size}.")
    return {"cents": count * 900}


@app.tool
async def order(size: str, ctx: Context) -> str:
    """Order a shirt."""
    await ctx.progress(1, 2)
    return f"{size} by {ctx.lifespan['shop']}"


@app.resource("shop://sizes")
def sizes() -> list[str]:
    return ["M", "S"]


if __name__ == "__main__":
    app.run("stdio")
# --8<-- [end:server]
