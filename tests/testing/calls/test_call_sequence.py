"""The calls that reached a server, and assertions that say what there was instead."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.testing import calls_of

pytestmark = pytest.mark.anyio


def make() -> MCPServer:
    """A server with a tool that asks."""
    app = MCPServer("s")

    @app.tool
    def find(word: str) -> str:
        """Find."""
        return word

    @app.tool
    async def drop(note: int, ctx: Context) -> str:
        """Drop."""
        answer = await ctx.elicit("Sure?", bool)
        return str(answer.data)

    return app


async def yes(_: Any, __: Any) -> dict[str, Any]:
    """Agree."""
    return {"action": "accept", "content": {"value": True}}


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_calls_in_their_order(mode: str) -> None:
    """A call with a question is one call in both eras."""
    app = make()
    with calls_of(app) as calls:
        async with Client(app, mode=mode, elicitation_handler=yes) as client:
            await client.list_tools()
            await client.call_tool("find", {"word": "a"})
            await client.call_tool("drop", {"note": 3})
            await client.call_tool("find", {"word": "b"})
        calls.assert_exactly("find", "drop", "find")
        calls.assert_in_order("find", "find")
        calls.assert_called("find", word="b")
        calls.assert_called("find", times=2)
        calls.assert_never("melt")
        calls.assert_before("find", "drop")
        assert calls.of("drop") == [{"note": 3}]
        assert len(calls) == 3
        for wrong in (
            lambda: calls.assert_exactly("find"),
            lambda: calls.assert_in_order("drop", "drop"),
            lambda: calls.assert_called("find", word="c"),
            lambda: calls.assert_called("find", times=1),
            lambda: calls.assert_never("drop"),
            lambda: calls.assert_before("drop", "find"),
        ):
            with pytest.raises(AssertionError, match=r"the calls were:\n +find"):
                wrong()
        calls.clear()
        assert calls.names == []


async def test_afterwards_the_server_is_as_before() -> None:
    """Nothing more is recorded, and plain calls take the short path again."""
    app = make()
    with calls_of(app) as calls:
        pass
    async with Client(app) as client:
        await client.call_tool("find", {"word": "a"})
    assert calls.names == []
    assert app.lowlevel.middleware == []
