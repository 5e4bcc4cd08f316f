"""ferrule.app.serving.card: `MCPServer.card`, and what it costs a server without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule import MCPServer
from ferrule.transports.asgi.public_documents import PublicDocuments


def test_the_endpoints_made_after_it_serve_the_card() -> None:
    """Their paths are fixed when they are made."""
    app = MCPServer("weather")
    before = app.asgi()
    app.card()
    assert "/mcp/server-card" not in before.paths
    assert "/mcp/server-card" in app.asgi().paths
    assert PublicDocuments in app.lowlevel.attachments


def test_a_wrong_declaration_fails_where_it_stands() -> None:
    with pytest.raises(ValueError, match=r"write com\.example/weather"):
        MCPServer("weather").card(name="com.example/other")


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(TypeError, match="adress"):
        MCPServer("weather").card(adress="https://x")  # type: ignore[call-arg]


def test_a_server_without_a_card_loads_nothing_for_it() -> None:
    """In a process of its own: the modules of this one have loaded everything."""
    code = (
        "import sys, ferrule; app = ferrule.MCPServer('s'); app.asgi();"
        "print([name for name in sys.modules if 'cards' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
