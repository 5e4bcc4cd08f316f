"""A server with a search in place of its many tools."""

from __future__ import annotations

from typing import Any

from ferrule import Context, MCPServer

app: MCPServer[Any] = MCPServer("warehouse", tool_search=True)

for number in range(1200):
    app.add_tool(lambda: "moved", name=f"move_{number:04}", description=f"Move to place {number}.")


@app.tool
def weigh(grams: int, pieces: int = 1) -> int:
    """Weigh several pieces."""
    return grams * pieces


@app.tool
async def confirm(ctx: Context, what: str) -> str:
    """Ask before something is thrown away."""
    answer = await ctx.elicit(f"Throw {what} away?", bool)
    return f"{what}: {answer.data}"


if __name__ == "__main__":
    app.run()
