"""The lines of a recording, as ``ferrule trace`` writes them.

A line is ``{"at_s": seconds since the start, "from": "client" | "server", "message": …}``; a line that is not a message
has ``"raw"`` instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ferrule.wire.json_types import is_mapping

__all__ = ["Line", "Sender", "read_recording"]

Sender = Literal["client", "server"]

MAX_BYTES: Final = 256 << 20
"""A larger file is refused, since it is held in memory."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its time in seconds, its sender and its message; ``None`` if the line is not a message."""

    at_s: float
    sender: Sender
    message: Any = None


def read_recording(path: Path) -> list[Line]:
    """Return the lines of a recording.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is malformed, or the file is larger than 256 MiB.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
    found: list[Line] = []
    # As bytes: text has further line ends, such as U+2028, which stand in JSON as they are.
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entry = json.loads(text)
            if not is_mapping(entry) or entry["from"] not in ("client", "server"):
                raise ValueError("no sender")
            found.append(Line(float(entry["at_s"]), entry["from"], entry.get("message")))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: no line of a recording") from error
    return found
