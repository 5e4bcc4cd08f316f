"""A server with something of every kind that the inspector shows, the hostile included."""

from __future__ import annotations

import base64
import datetime
import math
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Annotated, Literal

import anyio

from ferrule import Audio, Context, Field, Image, Link, MCPServer

app = MCPServer("workshop", version="1.4.0", title="Workshop", instructions="Measure twice, cut once.")

STOCK = [
    {"metal": "brass", "length_mm": 3000, "price_eur": 12.5},
    {"metal": "bronze", "length_mm": 1250, "price_eur": 19.0},
    {"metal": "steel", "length_mm": 8000, "price_eur": 4.25},
    {"metal": "copper", "length_mm": 640, "price_eur": 15.75},
]


@dataclass
class Row:
    """A line of the stock list."""

    metal: str
    length_mm: int
    price_eur: float


@dataclass
class Finish:
    """How the surface is treated."""

    kind: Literal["raw", "brushed", "polished"] = "brushed"
    coats: int = 1


@dataclass
class Consent:
    """What the user decides."""

    size: Literal["S", "M", "L"]
    engrave: bool = False
    name: str = ""


@app.tool
def add(a: int, b: int = 2) -> int:
    """Add two whole numbers."""
    return a + b


@app.tool
def cut(
    metal: Annotated[Literal["brass", "bronze", "steel"], Field(description="What to cut.")],
    length_mm: Annotated[float, Field(description="Of each piece.", ge=1, le=2000)],
    labels: list[str] | None = None,
    finish: Finish | None = None,
    deburr: bool = True,
    note: str | None = None,
) -> dict[str, object]:
    """Cut a bar into pieces.

    The saw takes bars of up to two metres. Labels are engraved in the order in which they come.
    """
    return {
        "metal": metal,
        "length_mm": length_mm,
        "labels": labels or [],
        "finish": None if finish is None else {"kind": finish.kind, "coats": finish.coats},
        "deburr": deburr,
        "note": note,
    }


@app.tool
def stock() -> list[Row]:
    """What lies on the shelves."""
    return [Row(str(row["metal"]), int(row["length_mm"]), float(row["price_eur"])) for row in STOCK]


@app.tool
async def order(product: str, ctx: Context) -> str:
    """Order something, after a question for the size."""
    answer = await ctx.elicit(f"How shall the {product} be?", Consent)
    if answer.data is None:
        return f"Nothing ordered: {answer.action}."
    return f"Ordered: {product}, size {answer.data.size}, engraved: {answer.data.engrave}, for {answer.data.name!r}."


@app.tool
async def slogan(ctx: Context) -> str:
    """Let the client's model write a slogan."""
    answer = await ctx.sample("Write a slogan for a workshop.", max_tokens=50)
    return f"The model says: {answer.text}"


@app.tool
async def folders(ctx: Context) -> list[str]:
    """The folders that the client shows."""
    return [str(root.uri) for root in await ctx.roots()]


@app.tool
async def polish(ctx: Context, passes: int = 5, pause_ms: int = 60) -> str:
    """Polish in several passes, with progress and log."""
    for number in range(1, passes + 1):
        await ctx.progress(number, passes, f"pass {number}")
        await ctx.info(f"pass {number} of {passes} done")
        await anyio.sleep(pause_ms / 1000)
    print("polished", file=sys.stderr, flush=True)
    return f"polished in {passes} passes"


@app.tool(task="optional")
async def press(ctx: Context, sheets: int = 4, ask: bool = False) -> int:
    """Press sheets; runs as a task."""
    if ask:
        await ctx.begin_task()
        answer = await ctx.elicit("May the press start?", Consent)
        if answer.data is None:
            return 0
    for sheet in range(1, sheets + 1):
        await ctx.set_status(f"sheet {sheet} of {sheets}")
        await anyio.sleep(0.1)
    return sheets


@app.tool
async def restock(ctx: Context, metal: str = "brass") -> str:
    """Change the stock, so that its subscribers get a notification."""
    STOCK[0]["length_mm"] = int(STOCK[0]["length_mm"]) + 100
    app.notify_resource_updated("workshop://stock")
    name = f"sharpen_{len(app.list_tools())}"
    app.add_tool(sharpen, name=name)
    return f"more {metal}; a new tool {name}"


def sharpen() -> str:
    """Sharpen the saw."""
    return "sharp"


def _png(size: int = 96) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(bytes((160 + x // 2, 110 + y // 2, 40)) for x in range(size)) for y in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _wav() -> bytes:
    samples = b"".join(struct.pack("<h", int(8000 * math.sin(i / 8))) for i in range(4000))
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16,
                       b"data", len(samples))  # fmt: skip
    return head + samples


@app.tool
def media() -> list[object]:
    """A picture, a sound and a link."""
    return [
        "A swatch of brass:",
        Image(_png(), mime_type="image/png"),
        Audio(_wav(), mime_type="audio/wav"),
        Link("workshop://stock", name="stock", mime_type="text/plain"),
    ]


REPORT = """# March

Sales rose by **12 %**; the saw *stood still* for two days.

| metal | pieces | price |
|---|---:|---:|
| brass | 120 | 12.50 |
| steel with a long name | 8 | 4.25 |

1. Order blades, see [the catalogue](https://example.com/blades)
2. Sharpen
   - the saw
   - the chisel

> Measure twice, cut once.

```python
def area(r: float) -> float:
    return 3.14 * r ** 2
```
"""


@app.tool(title="Monthly report", annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False})
def report() -> str:
    """Write the report of a month, as **Markdown**.

    - sales
    - machines
    """
    return REPORT


@dataclass
class Courier:
    """Someone brings it."""

    kind: Literal["courier"]
    street: str


@dataclass
class Counter:
    """It is fetched at the counter."""

    kind: Literal["counter"]
    hour: int = 9


@app.tool(annotations={"destructiveHint": True, "readOnlyHint": False})
def deliver(
    when: datetime.datetime, how: Courier | Counter, day: datetime.date | None = None, price: float = 1.0
) -> dict[str, object]:
    """Plan a delivery; what was planned is thrown away."""
    return {"when": when.isoformat(), "how": how.kind, "day": None if day is None else day.isoformat(), "price": price}


@app.tool
def ledger(rows: int = 250) -> list[dict[str, object]]:
    """Many rows, some with long words and texts."""
    return [
        {
            "number": at,
            "item": "ferrule of brass " * (at % 4),
            "serial": f"SN{at:040d}",
            "note": "long " * 100 * (at == 3),
        }
        for at in range(rows)
    ]


@app.tool
def hostile(kind: Literal["script", "links", "picture", "svg"] = "script") -> list[object]:
    """Output that would harm a careless page."""
    if kind == "script":
        return [
            "<script>window.pwned = 1</script>\n<img src=x onerror='window.pwned = 2'>",
            "<a href='javascript:window.pwned = 3'>x</a>",
        ]
    if kind == "links":
        return [
            Link("javascript:window.pwned=4", name="a script"),
            Link("data:text/html,<script>window.pwned=5</script>", name="a page in itself"),
            Link("https://example.com/harmless?<b>", name="the web"),
        ]
    if kind == "picture":
        return [Image(b"this is not a picture", mime_type="image/png"), Image(b"<html>", mime_type="text/html")]
    return [Image(b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned = 6'/>", mime_type="image/svg+xml")]


@app.tool
def hidden() -> str:
    """Text that is not what it looks like."""
    return "user\u202egnp.exe zero\u200bwidth \u2066isolated\u2069 \x1b[31mred \x00 عربى \U000e0041tag"


@app.tool
def huge(megabytes: int = 5) -> str:
    """A very long text."""
    return "0123456789abcde\n" * (megabytes * 65536)


@app.tool
def fails(why: str = "no reason") -> str:
    """Fail in an unexpected way."""
    raise RuntimeError(why)


@app.resource("workshop://stock", mime_type="text/plain")
def stock_text() -> str:
    """The stock as text."""
    return "\n".join(f"{row['metal']}: {row['length_mm']} mm" for row in STOCK)


@app.resource("workshop://logo", mime_type="image/png")
def logo() -> bytes:
    """The logo."""
    return base64.b64decode(base64.b64encode(_png(32)))


@app.resource("workshop://metals/{metal}")
def metal_info(metal: str) -> dict[str, object] | None:
    """One metal."""
    return next((row for row in STOCK if row["metal"] == metal), None)


@app.complete("workshop://metals/{metal}", "metal")
def metals_of_template(typed: str) -> list[str]:
    """Metals by their first letters."""
    return [str(row["metal"]) for row in STOCK if str(row["metal"]).startswith(typed)]


@app.prompt
def quote(metal: str, pieces: str = "1") -> str:
    """Ask for a quotation."""
    return f"Write a short quotation for {pieces} ferrule(s) of {metal}."


@app.complete(quote, "metal")
def metals(typed: str) -> list[str]:
    """Metals by their first letters."""
    return [str(row["metal"]) for row in STOCK if str(row["metal"]).startswith(typed)]


if __name__ == "__main__":
    app.run("stdio")
