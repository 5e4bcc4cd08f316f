"""The same server and client, written for Ferrule."""

# --8<-- [start:server]
from contextlib import asynccontextmanager

from ferrule import Context, MCPServer, ToolError


@asynccontextmanager
async def lifespan(server):
    yield {"prices": {"S": 900, "M": 1100}}


app = MCPServer("shop", lifespan=lifespan)


@app.tool(annotations={"readOnlyHint": True})
def sizes(ctx: Context) -> list[str]:
    """Sizes in stock."""
    return sorted(ctx.lifespan["prices"])


@app.tool
async def order(size: str, ctx: Context) -> dict[str, int]:
    """Order a shirt."""
    prices = ctx.lifespan["prices"]
    if size not in prices:
        raise ToolError(f"No size {size}.")
    await ctx.progress(1, 2)
    answer = await ctx.elicit("Charge it?", bool)
    if not answer.data:
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
from ferrule import Client


def ask(params):
    return {"value": True}


async def use(mode: str = "auto") -> int:
    async with Client(app, mode=mode, elicitation_handler=ask) as client:  # or a URL, or a StdioServer
        result = await client.call_tool("order", {"size": "M"}, raise_on_error=True)
        return result.structured_content["cents"]


# --8<-- [end:client]

# --8<-- [start:http]
asgi = app.asgi(path="/mcp", stateless=True)
# --8<-- [end:http]

# --8<-- [start:parts]
parts = MCPServer("parts")


@parts.tool
def count() -> int:
    return 3


app.mount(parts, prefix="parts")
# --8<-- [end:parts]

# --8<-- [start:middleware]
CALLS = []


async def note_calls(ctx, call_next):
    if ctx.method == "tools/call":
        CALLS.append(ctx.params["name"])
    return await call_next(ctx)


app.lowlevel.middleware.append(note_calls)
# --8<-- [end:middleware]


if __name__ == "__main__":
    import asyncio

    async def main() -> None:
        for mode in ("legacy", "auto"):
            print(await use(mode))
        async with Client(app) as client:
            print(sorted(tool.name for tool in await client.list_tools()))
            print((await client.call_tool("sizes")).data)
        print(CALLS)

    asyncio.run(main())
