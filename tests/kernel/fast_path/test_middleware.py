"""ferrule.kernel.fast_path.middleware: tools with the middleware around them."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

from ferrule import Client, MCPServer
from ferrule.kernel.fast_path import middleware as fast_middleware
from ferrule.middleware import RateLimit

pytestmark = pytest.mark.anyio


async def test_removed_tools_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that registers its tools anew, again and again, holds only so many of the earlier ones."""
    monkeypatch.setattr(fast_middleware, "_MAX_KEPT", 3)
    app: MCPServer[Any] = MCPServer("x", middleware=[RateLimit(1000, per_s=1)])
    functions: list[ref[Any]] = []

    def register(number: int) -> None:
        def counted() -> int:
            return number

        app.tool(counted)
        functions.append(ref(counted))

    async with Client(app) as client:
        for number in range(10):
            register(number)
            assert (await client.call_tool("counted")).text == str(number)
            app.remove_tool("counted")
        gc.collect()
        assert len([each for each in functions if each() is not None]) <= 3
