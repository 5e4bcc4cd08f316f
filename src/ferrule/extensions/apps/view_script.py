"""`view_script`: the script of views, which speaks with the host; `static/view.js` is its source and describes it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["MAX_VIEW_BYTES", "STATIC", "static_text", "view_script"]

MAX_VIEW_BYTES: Final = 6000
"""Maximum size of the script that pages contain, in bytes."""

STATIC: Final = Path(__file__).with_name("static")
"""The folder of the script and of the ready views."""


@cache
def static_text(name: str) -> str:
    """Return a file of the folder ``static``."""
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def view_script() -> str:
    """Return the script without its comments and indentation."""
    lines = (line.strip() for line in static_text("view.js").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))
