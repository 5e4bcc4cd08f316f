"""A server and its client, written for mcp 2."""

# --8<-- [start:server]
from contextlib import asynccontextmanager

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(server):
    yield {"prices": {"S": 900, "M": 1100}}


app = MCPServer("shop", lifespan=lifespan)


class Consent(BaseModel):
    value: bool


@app.tool(annotations=ToolAnnotations(read_only_hint=True))
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
from mcp import Client
from mcp.types import ElicitResult


async def ask(context, params):
    return ElicitResult(action="accept", content={"value": True})


async def use() -> int:
    async with Client(app, mode="legacy", elicitation_callback=ask) as client:
        result = await client.call_tool("order", {"size": "M"})
        return result.structured_content["cents"]


# --8<-- [end:client]

# --8<-- [start:http]
asgi = app.streamable_http_app(streamable_http_path="/mcp", stateless_http=True)
# --8<-- [end:http]

# --8<-- [start:middleware]
CALLS = []


async def count(ctx, call_next):
    if ctx.method == "tools/call":
        CALLS.append(ctx.method)
    return await call_next(ctx)


app.middleware.append(count)
# --8<-- [end:middleware]

if __name__ == "__main__":
    import asyncio

    async def main() -> None:
        print(await use())
        async with Client(app) as client:
            print(sorted(tool.name for tool in (await client.list_tools()).tools))
            print((await client.call_tool("sizes")).structured_content)
            try:
                print(await client.call_tool("order", {"size": "M"}))
            except Exception as error:
                print(type(error).__name__, error)
        print(len(CALLS))

    asyncio.run(main())
