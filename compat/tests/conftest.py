"""Tests run on asyncio, as the servers do."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests that are marked with ``anyio``."""
    return "asyncio"
