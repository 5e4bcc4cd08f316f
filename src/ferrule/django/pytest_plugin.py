"""The fixture ``mcp_client`` for pytest-django: ``pytest_plugins = ["ferrule.django.pytest_plugin"]``.

It is no entry point of the package, which every run of pytest would load, also of projects without Django.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ferrule.django.testing import MCPClient

__all__ = ["mcp_client"]


@pytest.fixture
def mcp_client(db: None) -> MCPClient:
    """A client for the MCP server of the project, in the transaction of the test; ``as_user(user)`` for a user."""
    from ferrule.django.testing import MCPClient

    return MCPClient()
