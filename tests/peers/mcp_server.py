"""A server written with the official ``mcp`` package, run by that package's interpreter: stdio, or http PORT."""

import sys

from mcp.server import MCPServer  # pyright: ignore[reportMissingImports]
from mcp.server.mcpserver import Context  # pyright: ignore[reportMissingImports]
from pydantic import BaseModel

app = MCPServer("official", instructions="Ask politely.")


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


@app.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@app.tool()
def words(text: str) -> list[str]:
    """Split."""
    return text.split()


@app.tool()
async def count(to: int, ctx: Context) -> int:
    """Count with progress."""
    for number in range(to):
        await ctx.report_progress(number + 1, to)
    return to


@app.tool()
def crash() -> str:
    """Raise."""
    raise RuntimeError("on purpose")


@app.tool()
async def greet(ctx: Context) -> str:
    """Ask for a name (legacy: a pushed request)."""
    answer = await ctx.elicit("What is your name?", Name)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Hello, nobody!"


@app.resource("note://one")
def note() -> str:
    """A note."""
    return "remember"


@app.resource("note://of/{who}")
def note_of(who: str) -> str:
    """Somebody's note."""
    return f"note of {who}"


@app.prompt()
def ask(topic: str) -> str:
    """Ask about something."""
    return f"What about {topic}?"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        app.run("stdio")
    else:
        app.run("streamable-http", port=int(sys.argv[2]))
