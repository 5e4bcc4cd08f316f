"""A small server that shows each kind of component; the demo and the tests with foreign clients call it.

python examples/server.py                         serves over stdin and stdout
python examples/server.py http --port 8000        serves http://127.0.0.1:8000/mcp
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Annotated, Literal

from ferrule import Context, Field, MCPServer, ToolError

app = MCPServer("workshop", version="1.0", instructions="Metal stock, orders and drawings of a small workshop.")

STOCK_MM = {"brass": 3000, "copper": 1200, "steel": 8000}


@dataclass
class Cut:
    """One cut from a bar."""

    metal: str
    length_mm: int
    left_mm: int
    tags: list[str]


@app.tool
def echo(text: str) -> str:
    """Give the text back."""
    return text


@app.tool
async def add(
    a: Annotated[int, Field("the first summand")],
    b: Annotated[int, Field("the second summand")] = 1,
) -> int:
    """Add two integers."""
    return a + b


@app.tool
async def cut(
    metal: Literal["brass", "copper", "steel"],
    length_mm: Annotated[int, Field("of the piece", ge=1, le=10_000)],
    ctx: Context,
) -> Cut:
    """Cut a piece from a bar and say what is left of it."""
    left_mm = STOCK_MM[metal] - length_mm
    if left_mm < 0:
        raise ToolError(f"Only {STOCK_MM[metal]} mm of {metal} are in stock; ask for a shorter piece.")
    for step in range(1, 4):
        await ctx.progress(step, total=3, message=f"pass {step} of the saw")
    return Cut(metal=metal, length_mm=length_mm, left_mm=left_mm, tags=["deburred", metal])


@app.resource("workshop://stock", mime_type="text/plain")
def stock() -> str:
    """What is in stock, one metal a line."""
    return "\n".join(f"{metal}: {length_mm} mm" for metal, length_mm in STOCK_MM.items())


@app.resource("workshop://metals/{metal}")
async def bar(metal: str) -> dict[str, str | int]:
    """One metal of the stock."""
    return {"metal": metal, "length_mm": STOCK_MM[metal]}


@app.prompt
def quote(metal: str, pieces: str = "1") -> str:
    """Ask for a quotation."""
    return f"Write a short quotation for {pieces} ferrule(s) of {metal}, with a price in euros."


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="The example server of Ferrule.")
    parser.add_argument("transport", nargs="?", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    if options.transport == "http":
        app.run("http", host=options.host, port=options.port)
    else:
        app.run("stdio")


if __name__ == "__main__":
    main()
