"""A server that uses most of the protocol, for clients in other languages: ``features_program.py [http PORT]``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import anyio

from ferrule import Context, Embedded, Header, Image, Link, MCPServer, ToolError
from ferrule.extensions.tasks import Tasks

app = MCPServer("features", version="1.0", instructions="Try everything.", extensions=[Tasks()])
counter = {"value": 0}
outcomes: list[str] = []
PIXEL = bytes.fromhex("89504e470d0a1a0a")


@dataclass
class Point:
    """A place on a map."""

    x: int
    y: float = 0.5


@dataclass
class Trip:
    """Where to go and how."""

    city: str
    seats: int = 1


@app.tool
def shift(point: Point, by: int = 1) -> Point:
    """Move a point to the right."""
    return Point(point.x + by, point.y)


@app.tool
def several() -> list[int]:
    """A result that is not an object."""
    return [1, 2, 3]


@app.tool
def regional(region: Annotated[str, Header("Region")], text: str) -> str:
    """An argument that travels as a header, too."""
    return f"{region}: {text}"


@app.tool
def mixed() -> list:
    """Every kind of content."""
    return ["words", Image(PIXEL), Link("data://counter", name="counter"), Embedded("data://x", "x")]


@app.tool
def broken() -> str:
    """Fails, as tools do."""
    raise ToolError("not today")


@app.tool
async def count_up(ctx: Context, steps: int) -> int:
    """Reports progress and a log line per step."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
        await ctx.info(f"did {step}")
    return steps


@app.tool
async def wait_long(ctx: Context) -> str:
    """Waits until it is cancelled."""
    try:
        await ctx.progress(0, 1, "waiting")
        await anyio.sleep(60)
    except BaseException:
        outcomes.append("cancelled")
        raise
    return "never"


@app.tool
def what_happened() -> list[str]:
    """What became of the calls that were cancelled."""
    return outcomes


@app.tool
async def plan(ctx: Context) -> str:
    """Asks for a form, a choice, a sampled line and the roots."""
    trip = await ctx.elicit("Where to?", Trip)
    if not trip:
        return f"no trip: {trip.action}"
    sure = await ctx.elicit("Which class?", Literal["first", "second"])
    said = await ctx.sample(f"One word about {trip.data.city}", max_tokens=9)
    roots = await ctx.roots()
    return f"{trip.data.city} x{trip.data.seats} {sure.data} {said.text} {[root.uri for root in roots]}"


@app.tool
async def increment(ctx: Context) -> int:
    """Changes a resource and says so."""
    counter["value"] += 1
    await ctx.notify_resource_updated("data://counter")
    await ctx.notify_tools_changed()
    return counter["value"]


@app.tool(task="optional")
async def brew(ctx: Context, cups: int) -> str:
    """Long work with a question in the middle."""
    await ctx.begin_task()
    await ctx.set_status("heating")
    milk = await ctx.elicit("Milk?", bool)
    await anyio.sleep(0.05)
    return f"{cups} cups, milk: {milk.data}"


@app.tool(task="optional")
async def simmer(ctx: Context) -> str:
    """Long work that no client waits for until its end."""
    await ctx.begin_task()
    await anyio.sleep(60)
    return "never"


@app.resource("data://counter", mime_type="application/json")
def read_counter() -> dict[str, int]:
    """How often it was incremented."""
    return dict(counter)


@app.resource("file:///notes/{name}.txt")
def note(name: str) -> str:
    """A note by name."""
    return f"note {name}"


@app.prompt
def review(code: str, tone: str = "calm") -> str:
    """Ask for a review."""
    return f"Review {code} in a {tone} tone"


@app.complete(review, "tone")
def tones(value: str) -> list[str]:
    """Known tones."""
    return [tone for tone in ("calm", "cold", "warm") if tone.startswith(value)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        app.run("http", port=int(sys.argv[2]))
    else:
        app.run("stdio")
