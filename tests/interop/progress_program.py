"""A server for clients that are old or lose notifications: ``progress_program.py [http PORT | sse PORT]``.

Its tools report progress quickly, and it has one component of each other kind.
"""

from __future__ import annotations

import sys

import anyio

from ferrule import Context, MCPServer, ToolError

app = MCPServer("progress", version="1.0")


@app.tool
async def without_pause(ctx: Context, steps: int) -> int:
    """Report each step and return at once."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
    return steps


@app.tool
async def with_pauses(ctx: Context, steps: int) -> int:
    """Report each step after a short wait; nothing lies between the last report and the result."""
    for step in range(1, steps + 1):
        await anyio.sleep(0.002)
        await ctx.progress(step, steps, f"step {step}")
    return steps


@app.tool
async def with_log(ctx: Context, steps: int) -> int:
    """Report each step and log it, too."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps)
        await ctx.info(f"did {step}")
    return steps


@app.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@app.tool
def broken() -> str:
    """Fail, as tools do."""
    raise ToolError("not today")


@app.tool
async def ask_for_a_word(ctx: Context, city: str) -> str:
    """Ask the client's model, and for its folders."""
    said = await ctx.sample(f"One word about {city}", max_tokens=9)
    return f"{said.text} {[root.uri for root in await ctx.roots()]}"


@app.resource("data://counter", mime_type="application/json")
def read_counter() -> dict[str, int]:
    """A number."""
    return {"value": 7}


@app.prompt
def review(code: str) -> str:
    """A prompt with one argument."""
    return f"Review {code}"


def serve_sse(port: int) -> None:
    """Serve the HTTP+SSE transport of 2024-11-05 alone."""
    import uvicorn

    from ferrule.transports.sse.server import SseEndpoint

    uvicorn.run(SseEndpoint(app.lowlevel), host="127.0.0.1", port=port, log_level="warning", lifespan="on")


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        app.run("http", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["sse"]:
        serve_sse(int(sys.argv[2]))
    else:
        app.run("stdio")
