"""A server and its client, written for mcp 1."""

# --8<-- [start:server]
from contextlib import asynccontextmanager

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(server):
    yield {"prices": {"S": 900, "M": 1100}}


app = FastMCP("shop", lifespan=lifespan, stateless_http=True)


class Consent(BaseModel):
    value: bool


@app.tool(annotations=ToolAnnotations(readOnlyHint=True))
def sizes(ctx: Context) -> list[str]:
    """Sizes in stock."""
    return sorted(ctx.request_context.lifespan_context["prices"])


@app.tool()
async def order(size: str, ctx: Context) -> dict[str, int]:
    """Order a shirt."""
    prices = ctx.request_context.lifespan_context["prices"]
    if size not in prices:
        raise ToolError(f"No size {size}.")
    await ctx.report_progress(1, 2)
    answer = await ctx.elicit("Charge it?", Consent)
    if answer.action != "accept" or not answer.data.value:
        raise ToolError("Not charged.")
    return {"cents": prices[size]}


@app.resource("shop://sizes/{size}")
def one(size: str) -> str:
    return f"size {size}"


@app.prompt()
def praise(size: str) -> str:
    return f"Praise a shirt of size {size}."


# --8<-- [end:server]

# --8<-- [start:client]
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult


async def ask(context, params):
    return ElicitResult(action="accept", content={"value": True})


async def use() -> int:
    server = StdioServerParameters(command=sys.executable, args=[__file__, "serve"])
    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write, elicitation_callback=ask) as session,
    ):
        await session.initialize()
        result = await session.call_tool("order", {"size": "M"})
        return result.structuredContent["cents"]


# --8<-- [end:client]

# --8<-- [start:http]
asgi = app.streamable_http_app()
# --8<-- [end:http]

if __name__ == "__main__":
    import asyncio

    if sys.argv[1:] == ["serve"]:
        app.run()
    else:
        print(asyncio.run(use()))
