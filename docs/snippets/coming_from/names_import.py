"""The notes of a shop, with the imports changed."""

# --8<-- [start:server]
from contextlib import asynccontextmanager

from pydantic import Field

from ferrule_compat.exceptions import ToolError
from ferrule_compat.fastmcp import Context, FastMCP


@asynccontextmanager
async def lifespan(server):
    yield {"shop": "Ada"}


mcp = FastMCP("shop", lifespan=lifespan)


@mcp.tool()
def price(size: str, count: int = Field(default=1, description="how many")) -> dict:
    """What shirts cost."""
    if size not in ("S", "M"):
        raise ToolError(f"No size {size}.")
    return {"cents": count * 900}


@mcp.tool()
async def order(size: str, ctx: Context) -> str:
    """Order a shirt."""
    await ctx.report_progress(1, 2)
    return f"{size} by {ctx.request_context.lifespan_context['shop']}"


@mcp.resource("shop://sizes")
def sizes() -> list[str]:
    return ["M", "S"]


if __name__ == "__main__":
    mcp.run(transport="stdio")
# --8<-- [end:server]
