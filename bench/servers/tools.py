"""What every measured server offers, in plain Python, so that only the library differs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


async def echo(text: str) -> str:
    """Give the text back."""
    return text


def extra_tools(count: int) -> list[Callable[..., Any]]:
    """So many further small functions, each with a name of its own."""

    def make(number: int) -> Callable[..., Any]:
        async def forecast(city: str, days: int = 3, metric: bool = True) -> str:
            """Say what the weather will be in a city over some days."""
            return f"{city}: fair for {days} days"

        forecast.__name__ = forecast.__qualname__ = f"forecast_{number:04d}"
        return forecast

    return [make(number) for number in range(count)]


def command_line() -> tuple[str, int, int]:
    """``stdio TOOLS`` or ``http TOOLS PORT``: the transport, how many further tools, the port."""
    transport, count, *port = sys.argv[1:]
    return transport, int(count), int(port[0]) if port else 0
