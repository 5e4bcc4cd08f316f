"""A server as it was written on ``mcp`` 1.x with ``FastMCP``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.prompts import base
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field


@dataclass
class State:
    words: list[str]


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[State]:
    yield State(["kept"])


mcp = FastMCP("fast", instructions="Ask politely.", lifespan=lifespan, dependencies=["none"])


class Weather(BaseModel):
    place: str
    degrees: float = 0.0


@mcp.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int = Field(default=2, description="the other one")) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def bare(name) -> dict:
    """Return data without a declared form."""
    return {"name": name, "list": [1, None]}


@mcp.tool()
def typed(place: Annotated[str, Field(description="where")]) -> Weather:
    return Weather(place=place, degrees=1.5)


@mcp.tool()
def mapped() -> dict[str, Any]:
    return {"ø": [1]}


@mcp.tool()
def many() -> list:
    return ["a", {"b": 1}, Image(data=b"png", format="png")]


@mcp.tool()
def ready() -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text="x")], isError=True, _meta={"k": 1})


@mcp.tool()
def broken() -> str:
    raise ValueError("no luck")


@mcp.tool()
async def told(ctx: Context, words: list[str]) -> str:
    await ctx.info("begun")
    for at, _ in enumerate(words):
        await ctx.report_progress(at + 1, len(words))
    return " ".join(words + ctx.request_context.lifespan_context.words)


@mcp.tool()
async def asked(ctx: Context) -> str:
    answer = await ctx.elicit("Where?", Weather)
    return answer.data.place if answer.action == "accept" else answer.action


@mcp.tool()
async def sampled(ctx: Context) -> str:
    from mcp.types import SamplingMessage

    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say it"))
    result = await ctx.session.create_message([message], max_tokens=5)
    roots = await ctx.session.list_roots()
    return f"{result.content.text} {roots.roots[0].uri}"


@mcp.resource("note://one", mime_type="text/markdown")
def note() -> str:
    """A note."""
    return "remember"


@mcp.resource("note://of/{who}")
def note_of(who: str) -> dict:
    return {"of": who}


@mcp.prompt()
def ask(topic: str, style: str = "short") -> list[base.Message]:
    """Ask."""
    return [base.UserMessage(f"{topic}, {style}"), base.AssistantMessage("Yes?")]


if __name__ == "__main__":
    mcp.run(transport="stdio")
