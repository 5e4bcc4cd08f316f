"""ferrule.client.groups.changes: changes at all servers, with the name of each."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule import ClientGroup, MCPServer
from tests.client.pauses import Pauses

pytestmark = pytest.mark.anyio


def make_app(name: str) -> MCPServer[Any]:
    """A server with a tool and a resource that change."""
    app = MCPServer(name)
    app.lowlevel.list_changed.add("tools")
    app.add_tool(lambda: "x", name="first")
    app.resource(f"{name}://1")(lambda: "text")
    return app


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_a_change_says_at_which_server(mode: str) -> None:
    """Both eras; it ends with the group."""
    apps = {"a": make_app("a"), "b": make_app("b")}
    async with ClientGroup(apps, mode=mode) as group:
        async with group.listen(tools=True) as changes:
            for name in ("b", "a"):
                apps[name].add_tool(lambda: "y", name="second")
                with anyio.fail_after(30):
                    change = await anext(changes)
                assert (change.server, change.kind) == (name, "tools")
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
        more = group.listen(tools=True)
        await more.ready()
    with pytest.raises(StopAsyncIteration):
        await anext(more)


async def test_a_server_that_connects_later_is_heard_too() -> None:
    """After a change of the kind "gap": its lists are new."""
    pauses, is_broken = Pauses(), True

    def lifespan(server: Any) -> Any:
        from contextlib import nullcontext

        if is_broken:
            raise OSError("no disk")
        return nullcontext({})

    late = MCPServer("late", lifespan=lifespan)
    late.lowlevel.list_changed.add("tools")
    async with ClientGroup({"good": make_app("good"), "late": late}, sleep=pauses) as group:
        async with group.listen(tools=True) as changes:
            is_broken = False
            await pauses.end()
            with anyio.fail_after(30):
                first = await anext(changes)
            assert (first.server, first.kind) == ("late", "gap")
            await anyio.wait_all_tasks_blocked()
            late.add_tool(lambda: "y", name="second")
            with anyio.fail_after(30):
                assert (await anext(changes)).server == "late"


async def test_a_uri_is_asked_for_at_its_server_only() -> None:
    """Once it was listed; before that, at every server."""
    apps = {"a": make_app("a"), "b": make_app("b")}
    async with ClientGroup(apps, mode="2026-07-28") as group:
        await group.list_resources()
        async with group.listen(uris=["b://1"]) as changes:
            a, b = await group.client("a"), await group.client("b")
            assert (a.subscriptions.uris(), b.subscriptions.uris()) == (set(), {"b://1"})
        assert not b.subscriptions.uris()
        async with group.listen(uris=["unknown://1"]):
            assert a.subscriptions.uris() == b.subscriptions.uris() == {"unknown://1"}
        async with group.listen() as changes:
            assert not a.subscriptions.uris()
        assert changes is not None
