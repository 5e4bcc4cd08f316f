"""What several servers of this folder answer with: a picture, a sound, forms."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from ferrule import Audio, Image

__all__ = ["form", "red_pixel", "silence"]


def red_pixel() -> Image:
    """A PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return Image(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def silence() -> Audio:
    """A WAV of eight silent samples."""
    samples = bytes([128] * 8)
    layout = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", len(layout)) + layout + b"data" + struct.pack("<I", len(samples)) + samples
    return Audio(b"RIFF" + struct.pack("<I", len(body)) + body)


def form(**properties: Any) -> dict[str, Any]:
    """The schema of a form whose fields are all needed."""
    return {"type": "object", "properties": properties, "required": list(properties)}
