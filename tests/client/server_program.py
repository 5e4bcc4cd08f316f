"""A server for the client's tests: in this process (`make_app`) or as a program over stdio."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

from ferrule import Context, MCPServer, ToolError


def make_app(name: str = "probe") -> MCPServer:
    """Every kind of component, and tools that misbehave."""
    app = MCPServer(name, version="7", instructions="Be nice.")

    @app.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @app.tool
    async def add(a: int, b: int = 2) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    @app.tool
    async def fail(why: str) -> str:
        """Fail."""
        raise ToolError(why)

    @app.tool
    async def steps(ctx: Context, count: int, pause_s: float = 0.0) -> int:
        """Report progress."""
        for number in range(count):
            await ctx.progress(number + 1, count, f"step {number + 1}")
            await anyio.sleep(pause_s)
        return count

    @app.tool
    async def chatter(ctx: Context) -> str:
        """Log at two levels."""
        await ctx.debug("fine detail")
        await ctx.warning({"disk": "full"})
        return "said"

    @app.tool
    async def sleep(seconds: float, record: str = "") -> str:
        """Sleep; the end of it is recorded in a file."""
        try:
            await anyio.sleep(seconds)
            return "slept"
        finally:
            if record:
                Path(record).write_text("ended")

    @app.tool
    def die(status: int = 3) -> str:
        """Exit in the middle of a call."""
        print("these are my last words", file=sys.stderr, flush=True)
        os._exit(status)

    @app.tool
    def shout(size: int) -> str:
        """Write this many bytes to stderr first."""
        os.write(2, b"x" * size + b"\n")
        return "heard"

    @app.resource("memo://today")
    async def today() -> str:
        """A memo."""
        return "buy milk"

    @app.resource("memo://{day}/{item}")
    async def memo(day: str, item: str) -> str:
        """Any memo."""
        return f"{item} on {day}"

    @app.prompt
    def greet(name: str) -> str:
        """Greet."""
        return f"Greet {name}."

    return app


if __name__ == "__main__":
    make_app().run("stdio")
