"""Servers of the old SDK as tests start them: through the runner, in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ferrule import Client, StdioServer

COMPAT = Path(__file__).resolve().parents[1]
SERVERS = Path(__file__).parent / "servers"
SOURCES = f"{COMPAT / 'src'}:{COMPAT.parent / 'src'}"
ERAS = ("legacy", "2026-07-28")


def command(*arguments: str) -> list[str]:
    """The command line of the runner."""
    return [sys.executable, "-m", "ferrule_compat", *arguments]


def client_of(server: str, mode: str = "auto", *arguments: str, **options: Any) -> Client:
    """A client of a server file, which the runner starts."""
    program, *rest = command(str(SERVERS / server), *arguments)
    return Client(StdioServer(program, rest, env={"PYTHONPATH": SOURCES}), mode=mode, timeout_s=60, **options)
