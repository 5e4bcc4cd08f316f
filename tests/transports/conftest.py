"""What the tests of transports share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.transports.http_support import Client


@pytest.fixture
async def no_client_stays_open() -> AsyncIterator[None]:
    """Streams that are collected while they are open warn."""
    yield
    for client in Client.opened:
        client.abort()
    Client.opened.clear()
    await asyncio.sleep(0)
