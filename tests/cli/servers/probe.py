"""A server with something of every kind, for the tests of the command line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from ferrule import Context, Image, MCPServer, ToolError

print("probe is being loaded")  # the command line keeps this away from the protocol

app = MCPServer("probe", version="3", instructions="Be gentle.")


@app.tool
def add(a: int, b: int = 2) -> int:
    """Add two integers.

    A second paragraph.
    """
    return a + b


@app.tool
def join(words: list[str], sep: str = " ", upper: bool = False) -> str:
    """Join words."""
    text = sep.join(words)
    return text.upper() if upper else text


@app.tool
def kinds(text: str, number: float = 0.5, choice: Literal["a", "b"] = "a", extra: dict[str, int] | None = None) -> str:
    """Say what came."""
    return f"{text!r} {number!r} {choice!r} {extra!r}"


@app.tool
def fail(why: str) -> str:
    """Fail in an expected way."""
    print(f"failing because of {why}", file=sys.stderr, flush=True)
    raise ToolError(why)


@app.tool
def crash() -> str:
    """Fail in an unexpected way."""
    raise RuntimeError("the secret reason")


@app.tool
async def steps(ctx: Context, count: int = 3) -> str:
    """Report progress, and log."""
    for number in range(count):
        await ctx.progress(number + 1, count, f"step {number + 1}")
    await ctx.info("all steps done")
    return "done"


@dataclass
class Person:
    """Who."""

    name: str
    age: int


@app.tool
async def greet(ctx: Context) -> str:
    """Ask who it is."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"Hello, {answer.data.name} ({answer.data.age})" if answer.data is not None else f"Nobody: {answer.action}"


@app.tool
async def think(ctx: Context, about: str) -> str:
    """Ask the client's model."""
    return f"It thinks: {(await ctx.sample(about, max_tokens=50)).text}"


@app.tool
async def trick(ctx: Context) -> str:
    """Ask in words that would rewrite a terminal."""
    await ctx.progress(1, 2, "half")
    answer = await ctx.elicit("\x1b[2JYour\u202e name?", Person)
    return answer.action


@app.tool
async def linger(record: str) -> str:
    """Wait to be cancelled; write down that it happened."""
    Path(record).write_text("began")
    try:
        await anyio.sleep(300)
    finally:
        Path(record).write_text("cancelled")
    return "never"


@app.tool
def picture() -> Image:
    """One pixel."""
    return Image(b"\x89PNG\r\n\x1a\n....", mime_type="image/png")


@app.tool
def hostile() -> str:
    """Text that would rewrite a terminal."""
    return "\x1b[2Jgone \u202eright to left"


@app.resource("memo://today")
def today() -> str:
    """A memo."""
    return "buy milk"


@app.resource("memo://{day}/{item}")
def memo(day: str, item: str) -> str:
    """Any memo."""
    return f"{item} on {day}"


@app.prompt
def ask(topic: str, style: str = "short") -> str:
    """Ask about a topic."""
    return f"What about {topic}, {style}?"


@app.tool
async def grow(ctx: Context) -> str:
    """Add a tool and update a resource, so that listeners get notifications."""
    app.add_tool(today, name=f"extra_{len(app.list_tools())}")
    app.notify_resource_updated("memo://today")
    return "grown"


if __name__ == "__main__":
    app.run("stdio")
