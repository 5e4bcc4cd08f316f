"""Draw a bar chart and return it as a picture: a PNG made by the standard library, and text beside it.

python examples/picture.py                        shows it in both eras
python examples/picture.py stdio                  serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Annotated

from ferrule import Client, Field, Image, MCPServer

app = MCPServer("picture", version="1.0")

BACKGROUND = b"\xf7\xf7\xf4"
BAR_PX, GAP_PX = 24, 6

Color = Annotated[str, Field("as in #8c5a1e", pattern="^#[0-9a-fA-F]{6}$")]


def png(rows: list[bytes]) -> bytes:
    """Rows of RGB bytes as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@app.tool(annotations={"readOnlyHint": True})
def bar_chart(
    values: Annotated[list[float], Field(min_length=1, max_length=50)],
    height_px: Annotated[int, Field(ge=16, le=1000)] = 160,
    color: Color = "#8c5a1e",
) -> list[str | Image]:
    """Draw values as bars, from zero up to the largest.

    Args:
        values: one bar each; below zero counts as zero.
    """
    ink, top = bytes.fromhex(color[1:]), max(*values, 0.0) or 1.0
    heights = [round(height_px * max(value, 0) / top) for value in values]
    gap = BACKGROUND * GAP_PX
    rows = [
        gap + gap.join((ink if height >= level else BACKGROUND) * BAR_PX for height in heights) + gap
        for level in range(height_px, 0, -1)
    ]
    return [f"{len(values)} bars, the highest is {max(values):g}", Image(png(rows), format="png")]


async def show(client: Client) -> None:
    """Draw the rain of Mumbai and read the picture's size out of its header."""
    rain_mm = [0, 0, 0, 0, 10, 525, 920, 560, 385, 90, 10, 0]
    result = await client.call_tool("bar_chart", {"values": rain_mm})
    text, picture = result.content
    data = base64.b64decode(picture.data or "")
    width, height = struct.unpack(">II", data[16:24])
    print(f"  {text.text}; {picture.mime_type}, {width} x {height} pixels")


if __name__ == "__main__":
    from showing import main

    main(app, show)
