"""The configuration of the page about gateways, served as it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ferrule import Client, StdioServer

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_the_servers_of_the_file_are_one(mode: str) -> None:
    """With the names that the file says; what it disables is not there, and nothing is left in a cache."""
    environment = {**os.environ, "PYTHON": sys.executable, "FERRULE_GATEWAY_CACHE": ""}
    command = ("-m", "ferrule", "gateway", "examples/one_endpoint/mcp.json", "--stdio")
    server = StdioServer(sys.executable, command, env=environment, cwd=str(ROOT))
    async with Client(server, mode=mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "tools"
        found = {tool.name: tool.description for tool in await client.list_tools()}
        while not any(name.startswith("library_") for name in found) or len(found) < 3:  # until both have started
            found = {tool.name: tool.description for tool in await client.list_tools()}
        assert found["library_find"] == "Finds pages of the library."
        assert not any(name.startswith("spare_") for name in found)
        assert "gateway_status" in found
        assert "weather" in (await client.call_tool("gateway_status")).text
