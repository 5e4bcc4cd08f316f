"""ferrule.client.groups.lists: a list waits for no server that is slow."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule import ClientGroup, MCPServer, Server

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


class Slow:
    """A server whose list waits for the test, and which counts its requests."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.asked = 0
        self.version = 1
        self.server: Server[Any] = Server("slow")
        self.server.add_request_handler("tools/list", self._tools, trusted=True)

    async def _tools(self, ctx: Any) -> Any:
        self.asked += 1
        await self.gate.wait()
        return {"tools": [{"name": f"v{self.version}", "inputSchema": {"type": "object"}}]}


def good() -> MCPServer[Any]:
    """A server that answers."""
    app = MCPServer("good")
    app.add_tool(lambda: "x", name="t")
    return app


async def names(group: ClientGroup) -> list[str]:
    return [tool.name for tool in await group.list_tools()]


async def until_listed(group: ClientGroup) -> None:
    """Wait until no server is being asked any more."""
    with anyio.fail_after(30):
        while any(member.late for member in group.servers.values()):
            await anyio.sleep(0.005)


async def test_a_slow_server_is_in_the_next_list() -> None:
    """Its request goes on; meanwhile no list waits, and none asks it again."""
    slow = Slow()
    async with ClientGroup({"good": good(), "slow": slow.server}, list_s=0.01, cache=False) as group:
        assert await names(group) == ["good_t"]
        assert await names(group) == ["good_t"]
        assert (slow.asked, group.servers["slow"].is_up) == (1, True)
        slow.gate.set()
        await until_listed(group)
        group._lists._wait_s = 60.0
        assert await names(group) == ["good_t", "slow_v1"]


async def test_a_server_that_becomes_slow_keeps_its_last_list() -> None:
    """Until it has answered the new request."""
    slow = Slow()
    slow.gate.set()
    async with ClientGroup({"slow": slow.server}, list_s=60, cache=False) as group:
        assert await names(group) == ["slow_v1"]
        slow.gate, slow.version = anyio.Event(), 2
        group._lists._wait_s = 0.01
        assert await names(group) == ["slow_v1"]
        slow.gate.set()
        await until_listed(group)
        group._lists._wait_s = 60.0
        assert await names(group) == ["slow_v2"]


async def test_a_caller_that_gives_up_gives_up_the_request() -> None:
    """The server is told, and the next list asks anew."""
    slow = Slow()
    async with ClientGroup({"slow": slow.server}, list_s=60, cache=False) as group:
        with anyio.move_on_after(0.05):
            await names(group)
        await anyio.wait_all_tasks_blocked()
        assert not group.servers["slow"].late
        slow.gate.set()
        assert await names(group) == ["slow_v1"]
        assert slow.asked == 2


async def test_closing_ends_what_is_asked() -> None:
    """Also a request that no list waits for any more."""
    slow = Slow()
    group = ClientGroup({"slow": slow.server}, list_s=0.01)
    async with group:
        assert await names(group) == []
        assert group.servers["slow"].late == {"tools"}
    assert group.servers["slow"].late == set()
    assert group.servers["slow"].state == "closed"
