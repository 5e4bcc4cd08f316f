"""Progress, from async and sync functions."""

# --8<-- [start:code]
from ferrule import Client, Context, MCPServer

app = MCPServer("saw")


@app.tool
async def cut(pieces: int, ctx: Context) -> int:
    """Cut a bar."""
    for piece in range(1, pieces + 1):
        await ctx.progress(piece, total=pieces, message=f"piece {piece}")
    return pieces


@app.tool
def cut_by_hand(pieces: int, ctx: Context) -> int:
    """Cut a bar in a worker thread; stops between two pieces when the client gives up."""
    for piece in range(1, pieces + 1):
        if ctx.cancelled:
            break
        ctx.from_thread(ctx.progress, piece, total=pieces)
    return pieces


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    seen: list[float] = []
    async with Client(app, mode=mode) as client:
        for tool in ("cut", "cut_by_hand"):
            await client.call_tool(tool, {"pieces": 2}, on_progress=lambda now, total, text: seen.append(now))
    assert seen == [1, 2, 1, 2]
