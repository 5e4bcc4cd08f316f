"""Fixtures of the tests of the replaying engine."""

from __future__ import annotations

import pytest

from ferrule import MCPServer
from tests.app.rounds.driving import served


@pytest.fixture
def app() -> MCPServer:
    return served()
