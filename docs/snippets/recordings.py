"""A recording in the place of a server."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

# --8<-- [start:stand_in]
from ferrule import Client
from ferrule.testing import Recording


async def answers(path: Path) -> list[str]:
    async with Client(Recording(path)) as client:
        first = await client.call_tool("add", {"a": 2, "b": 40})
        return [tool.name for tool in await client.list_tools()] + [first.text]


# --8<-- [end:stand_in]

MESSAGES = [
    ("client", {"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 40}}}),
    ("server", {"id": 1, "result": {"content": [{"type": "text", "text": "42"}]}}),
]


async def check(mode: str) -> None:
    """Write a recording, and call it."""
    made = [{"at_s": 0, "from": sender, "message": {"jsonrpc": "2.0", **body}} for sender, body in MESSAGES]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in made))
        assert await answers(path) == ["add", "42"]
