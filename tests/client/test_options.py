"""What editors and type checkers know of the client's options."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from ferrule import Client
from ferrule.client.options import (
    ClientOptions,
    CompleteOptions,
    GetPromptOptions,
    ReadResourceOptions,
    ToolCallOptions,
)

PROGRAM = """
from typing import assert_type

from ferrule import Client, ClientGroup, SyncClient
from ferrule.client.calls.results import ToolCallResult


async def run() -> None:
    async with Client("http://127.0.0.1:1/mcp", timeout_s=3) as client:
        assert_type(client, Client)
        assert_type(await client.call_tool("add", {"a": 1}, timeout_s=2), ToolCallResult)
    Client("http://127.0.0.1:1/mcp", time_out=3)  # wrong
    ClientGroup("servers.json", time_out=3)  # wrong
    SyncClient("http://127.0.0.1:1/mcp", timeout_s="3")  # wrong
    SyncClient("http://127.0.0.1:1/mcp").call_tool("add", timeout=3)  # wrong
"""


def _named(function: object) -> dict[str, object]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {item.name: item.annotation for item in parameters if item.kind is item.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("options", "function"),
    [
        (ClientOptions, Client.__init__),
        (ToolCallOptions, Client.call_tool),
        (ReadResourceOptions, Client.read_resource),
        (GetPromptOptions, Client.get_prompt),
        (CompleteOptions, Client.complete),
    ],
)
def test_the_shared_options_are_those_of_the_signature(options: type, function: object) -> None:
    """The list exists twice, for two kinds of readers; it must not come to say two things."""
    listed = {name: hint.__forward_arg__ for name, hint in options.__annotations__.items()}
    assert listed == _named(function)


def test_the_class_says_its_options() -> None:
    """`help(Client)` and a notebook's tooltip read this signature."""
    assert "timeout_s" in _named(Client.__init__)


def test_type_checkers_know_client_and_options(tmp_path: Path) -> None:
    """An option that does not exist is found before the program runs, and a client is not `Any`."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "pyright", str(file)], capture_output=True, text=True, timeout=110, check=False
    )
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]
    found = sorted({int(line.split(":")[1]) for line in done.stdout.splitlines() if " - error: " in line})
    assert found == wrong, done.stdout
