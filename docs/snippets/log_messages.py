"""Log messages to the client, and the operator's own log."""

# --8<-- [start:code]
import logging

from ferrule import Client, Context, MCPServer

app = MCPServer("press")
log = logging.getLogger("press")  # for the operator: stderr, never stdout


@app.tool
async def press(sheets: int, ctx: Context) -> int:
    """Press sheets."""
    log.info("pressing %d sheets", sheets)
    await ctx.info({"sheets": sheets})  # for the client, if its log level allows it
    if sheets > 100:
        await ctx.warning("That will take a while.")
    return sheets


# --8<-- [end:code]


# --8<-- [start:client]
def show(message):
    """Called for each message: level, data and the logger's name."""
    print(message.level, message.data)


async def use(server) -> None:
    async with Client(server, log_handler=show, log_level="info") as client:
        await client.call_tool("press", {"sheets": 3})
        await client.set_log_level("warning")


# --8<-- [end:client]


async def check(mode: str) -> None:
    """In both eras."""
    import anyio

    from ferrule.protocol.deprecations import DEPRECATED

    said = []
    async with Client(app, mode=mode, log_handler=lambda message: said.append((message.level, message.data))) as client:
        await client.call_tool("press", {"sheets": 300})
        await client.set_log_level("warning")
        await client.call_tool("press", {"sheets": 200})
        for _ in range(200):
            if len(said) == 3:
                break
            await anyio.sleep(0.005)
    assert said == [("info", {"sheets": 300})] + [("warning", "That will take a while.")] * 2
    said.clear()
    async with Client(app, mode=mode, message_handler=lambda method, params: said.append(method)) as client:
        await client.call_tool("press", {"sheets": 3})
    # Without a level a modern server sends no messages, and a legacy one sends all.
    assert ("notifications/message" in said) == (mode == "legacy")
    assert str(DEPRECATED["logging"]).startswith("Log messages to the client: deprecated by SEP-2577")
