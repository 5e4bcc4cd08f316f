"""A server and its client, written for fastmcp 4."""

# --8<-- [start:server]
from contextlib import asynccontextmanager

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError


@asynccontextmanager
async def lifespan(server):
    yield {"prices": {"S": 900, "M": 1100}}


app = FastMCP("shop", lifespan=lifespan)


@app.tool(annotations={"readOnlyHint": True})
def sizes(ctx: Context) -> list[str]:
    """Sizes in stock."""
    return sorted(ctx.lifespan_context["prices"])


@app.tool
async def order(size: str, ctx: Context) -> dict[str, int]:
    """Order a shirt."""
    prices = ctx.lifespan_context["prices"]
    if size not in prices:
        raise ToolError(f"No size {size}.")
    await ctx.report_progress(1, 2)
    answer = await ctx.elicit("Charge it?", response_type=bool)
    if answer.action != "accept" or not answer.data:
        raise ToolError("Not charged.")
    return {"cents": prices[size]}


@app.resource("shop://sizes/{size}")
def one(size: str) -> str:
    return f"size {size}"


@app.prompt
def praise(size: str) -> str:
    return f"Praise a shirt of size {size}."


# --8<-- [end:server]

# --8<-- [start:client]
from fastmcp import Client


async def ask(message, response_type, params, context):
    return {"value": True}


async def use() -> int:
    async with Client(app, mode="legacy", elicitation_handler=ask) as client:
        result = await client.call_tool("order", {"size": "M"})
        return result.structured_content["cents"]


# --8<-- [end:client]

# --8<-- [start:http]
asgi = app.http_app(path="/mcp", stateless_http=True)
# --8<-- [end:http]

# --8<-- [start:parts]
parts = FastMCP("parts")


@parts.tool
def count() -> int:
    return 3


app.mount(parts, namespace="parts")
# --8<-- [end:parts]

# --8<-- [start:middleware]
from fastmcp.server.middleware import Middleware


class Count(Middleware):
    calls = 0

    async def on_call_tool(self, context, call_next):
        Count.calls += 1
        return await call_next(context)


app.add_middleware(Count())
# --8<-- [end:middleware]

if __name__ == "__main__":
    import asyncio

    async def main() -> None:
        print(await use())
        async with Client(app) as client:
            print(sorted(tool.name for tool in await client.list_tools()))
            print((await client.call_tool("sizes")).data)
        print(Count.calls)

    asyncio.run(main())
