"""Servers behind a gateway that are slow, silent, away or gone: no list waits for them, and calls say what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError, Server
from ferrule.client.gateway.gateway import Gateway
from ferrule.client.gateway.upstreams.settings import UpstreamSettings
from ferrule.client.gateway.views import GatewayViews, View
from ferrule.kernel.changes.bus import Event
from tests.client.patience import patient_gateway
from tests.client.pauses import Pauses

pytestmark = pytest.mark.anyio

ERAS = ["2026-07-28", "2025-11-25"]
ENDLESS_S = 1000.0


class Behind:
    """A server behind that a test can stop.

    Attributes:
        opened: its connections wait for it.
        answers: its lists and calls wait for it.
        tools: the names in its list.
    """

    def __init__(self, *tools: str, **hints: bool) -> None:
        self.opened = anyio.Event()
        self.answers = anyio.Event()
        self.answers.set()
        self.opened.set()
        self.tools = list(tools)
        self.lists = self.calls = 0
        self.fails: Exception | None = None
        self._hints = hints
        self.server: Server[Any] = Server("behind", lifespan=self._life, list_changed=["tools"])
        self.server.add_request_handler("tools/list", self._list, trusted=True)
        self.server.add_request_handler("tools/call", self._call, params_type=dict[str, Any], trusted=True)

    @asynccontextmanager
    async def _life(self, server: Server[Any]) -> AsyncGenerator[None]:
        await self.opened.wait()
        if self.fails is not None:
            raise self.fails
        yield

    async def _list(self, ctx: Any) -> Any:
        self.lists += 1
        await self.answers.wait()
        return {"tools": [{"name": name, "inputSchema": {}, "annotations": self._hints} for name in self.tools]}

    async def _call(self, ctx: Any) -> Any:
        self.calls += 1
        await self.answers.wait()
        return {"content": [{"type": "text", "text": f"called {ctx.params['name']}"}]}


async def names(client: Client) -> list[str]:
    """The names of the tools that a client sees now."""
    return [tool["name"] for tool in (await client.request("tools/list"))["tools"]]


async def until(condition: Any) -> None:
    """Wait until something is so."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)


@pytest.mark.parametrize("before", ERAS)
async def test_a_server_that_starts_slowly_holds_up_one_list_for_a_moment(before: str) -> None:
    """The next list does not wait at all, and the client is told when the server has come."""
    slow, quick = Behind("late"), Behind("here")
    slow.opened = anyio.Event()
    gateway = Gateway({"slow": slow.server, "quick": quick.server}, open_s=0.01, moment_s=0.05)
    async with Client(gateway, mode=before, cache=False) as client, client.listen(tools=True) as changes:
        with anyio.fail_after(30):
            while await names(client) != ["quick_here"]:
                pass
        gateway.moment_s = math.inf
        with anyio.fail_after(ENDLESS_S):  # would wait for ever
            assert await names(client) == ["quick_here"]
        slow.opened.set()
        with anyio.fail_after(30):
            assert (await anext(changes)).kind == "tools"
        assert await names(client) == ["slow_late", "quick_here"]


@pytest.mark.parametrize("before", ERAS)
async def test_a_server_that_falls_silent_keeps_its_last_list(before: str) -> None:
    """Its tools stay, other servers answer, and no list waits a second time; when it is back, all is as before."""
    silent, other = Behind("one"), Behind("two")
    gateway = Gateway({"silent": silent.server, "other": other.server}, moment_s=30)
    async with Client(gateway, mode=before, cache=False) as client:
        assert await names(client) == ["silent_one", "other_two"]
        silent.answers = anyio.Event()
        gateway.moment_s = 0.05
        assert await names(client) == ["silent_one", "other_two"]
        gateway.moment_s = math.inf
        assert await names(client) == ["silent_one", "other_two"]
        assert (await client.call_tool("other_two")).text == "called two"
        silent.answers.set()
        await until(lambda: not gateway.upstreams["silent"].is_late)
        assert await names(client) == ["silent_one", "other_two"]
        assert (await client.call_tool("silent_one")).text == "called one"


@pytest.mark.parametrize("before", ERAS)
async def test_a_list_that_came_too_late_and_is_another_one_is_announced(before: str) -> None:
    """And only then: an equal one is not."""
    slow = Behind("one")
    gateway = Gateway({"slow": slow.server}, moment_s=30)
    gateway.upstreams["slow"].announced_s = 0
    async with Client(gateway, mode=before, cache=False) as client, client.listen(tools=True) as changes:
        assert await names(client) == ["slow_one"]
        gateway.moment_s = 0.05
        for tools in (["one"], ["one", "two"]):
            slow.answers = anyio.Event()
            assert await names(client) == ["slow_one"]
            slow.tools = tools
            gateway.moment_s = math.inf
            slow.answers.set()
            await until(lambda: not gateway.upstreams["slow"].is_late)
            gateway.moment_s = 0.05
        with anyio.fail_after(30):
            assert (await anext(changes)).kind == "tools"
        with anyio.move_on_after(0.05):
            pytest.fail(f"told twice: {await anext(changes)}")
        gateway.moment_s = 30
        assert await names(client) == ["slow_one", "slow_two"]


async def test_a_server_that_is_always_slow_is_waited_for_once() -> None:
    """A list that came too late does not make the next one wait."""
    slow = Behind("one")
    gateway = Gateway({"slow": slow.server}, moment_s=30)
    gateway.upstreams["slow"].announced_s = 0
    async with Client(gateway, cache=False) as client:
        assert await names(client) == ["slow_one"]
        gateway.moment_s = 0.01
        for count in (2, 3):
            slow.answers = anyio.Event()
            assert await names(client) == ["slow_one"]
            with anyio.move_on_after(0.05):  # longer than the moment
                await anyio.sleep_forever()
            slow.answers.set()
            await until(lambda count=count: slow.lists == count and not gateway.upstreams["slow"].is_listing)
            assert gateway.upstreams["slow"].is_late


async def test_the_next_start_answers_from_what_was_known(tmp_path: Path) -> None:
    """Lists, capabilities and instructions, before any server has connected; the real list follows."""
    behind = Behind("one")
    behind.server.instructions = "Read."
    target = {"behind": behind.server}

    def gateway(**options: Any) -> Gateway:
        made = Gateway(target, list_cache=tmp_path, moment_s=30, **options)
        upstream = made.upstreams["behind"]
        # A server object has no key of its own, unlike a program or a URL.
        upstream.use_cache(made.cache, "key")
        made.announce_known()
        return made

    async with Client(gateway(), cache=False) as client:
        assert await names(client) == ["behind_one"]
    behind.opened = anyio.Event()
    behind.tools = ["one", "two"]
    async with Client(gateway(open_s=ENDLESS_S), mode="2025-11-25", cache=False) as client:
        assert client.instructions == "behind: Read."
        assert set(client.server_capabilities) == {"tools"}
        assert await names(client) == ["behind_one"]
        async with client.listen(tools=True) as changes:
            behind.opened.set()
            with anyio.fail_after(30):
                assert (await anext(changes)).kind == "tools"
        assert await names(client) == ["behind_one", "behind_two"]
    assert "behind_one" not in next(tmp_path.iterdir()).read_text()


@pytest.mark.parametrize("before", ERAS)
async def test_a_call_to_a_server_that_is_down_says_what_is_wrong(
    before: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the model sees it, without what the error says; the log has that."""
    away, pauses = Behind("one"), Pauses()
    away.fails = OSError("secret path /home/me")
    gateway = Gateway({"away": away.server}, sleep=pauses, open_s=30, status_tool=True)
    async with Client(gateway, mode=before, cache=False) as client:
        failed = await client.call_tool("away_one", raise_on_error=False)
        assert failed.is_error
        sentence = r"`away` is down since \d\d:\d\d: it cannot be started or reached; trying again in \d+ s"
        assert re.fullmatch(sentence, failed.text)
        assert "secret path" in caplog.text
        said = await client.call_tool("gateway_status")
        assert re.fullmatch(sentence, said.text)
        (server,) = said.structured_content["servers"]
        assert (server["name"], server["state"], server["failures"]) == ("away", "waiting", 2)
        assert await names(client) == ["gateway_status"]
        away.fails = None
        assert (await client.call_tool("away_one")).text == "called one"
        assert "is connected since" in (await client.call_tool("gateway_status")).text
        assert await names(client) == ["away_one", "gateway_status"]


async def test_other_requests_to_a_server_that_is_down_get_an_error_with_the_sentence() -> None:
    """A prompt has no result that is an error."""
    away: Server[Any] = Server("away")

    @asynccontextmanager
    async def fails(server: Server[Any]) -> AsyncGenerator[None]:
        raise OSError("no")
        yield

    away = Server("away", lifespan=fails)
    async with Client(Gateway({"away": away}, sleep=Pauses(), open_s=30)) as client:
        with pytest.raises(MCPError, match="`away` is down since") as raised:
            await client.get_prompt("away_ask")
        assert raised.value.code == -32603


async def test_a_call_that_takes_too_long_names_the_server_and_disturbs_no_other() -> None:
    """The deadline of one server."""
    slow, other = Behind("one"), Behind("two")
    slow.answers = anyio.Event()
    settings = {"slow": UpstreamSettings(timeout_s=0.05)}
    gateway = Gateway({"slow": slow.server, "other": other.server}, settings=settings, open_s=30)
    async with Client(gateway) as client:
        failed = await client.call_tool("slow_one", raise_on_error=False)
        assert failed.text == "`slow` did not answer within 0.05 s"
        assert (await client.call_tool("other_two")).text == "called two"
        slow.answers.set()
        gateway.upstreams["slow"].settings = UpstreamSettings()
        assert (await client.call_tool("slow_one")).text == "called one"


async def test_servers_come_and_go_while_the_gateway_runs() -> None:
    """What did not change is not touched."""
    one, two = Behind("a"), Behind("b")
    gateway = Gateway({"one": one.server}, open_s=30, moment_s=30)
    async with Client(gateway, cache=False) as client, client.listen(tools=True) as changes:
        assert await names(client) == ["one_a"]
        first = gateway.upstreams["one"]
        await gateway.set_upstream("two", two.server)
        with anyio.fail_after(30):
            await anext(changes)
        assert await names(client) == ["one_a", "two_b"]
        assert gateway.upstreams["one"] is first
        await gateway.remove_upstream("one")
        assert await names(client) == ["two_b"]
        with pytest.raises(MCPError, match="no server"):
            await client.call_tool("one_a")
        assert gateway.upstreams["two"].is_up
        assert not first.is_up


@pytest.mark.parametrize("before", ["2026-07-28", "2025-11-25"])
async def test_a_list_is_read_again_when_it_may_have_changed(before: str) -> None:
    """After a change that the server announces, after a call of a tool, and on a new connection; not before."""
    behind = Behind("one")
    gateway = patient_gateway({"b": behind.server})
    async with Client(gateway, mode=before, cache=False) as client:
        assert await names(client) == ["b_one"]
        read = behind.lists
        for _ in range(3):
            assert await names(client) == ["b_one"]
        assert behind.lists == read
        behind.tools.append("two")
        behind.server.bus.publish(Event.list_changed("tools"))
        with anyio.fail_after(30):
            while await names(client) != ["b_one", "b_two"]:
                await anyio.sleep(0.01)
        read = behind.lists
        assert await names(client) == ["b_one", "b_two"]
        assert behind.lists == read
        behind.tools.append("three")
        await client.call_tool("b_one", {})
        assert await names(client) == ["b_one", "b_two", "b_three"]


async def test_a_list_that_may_not_be_kept_is_read_each_time() -> None:
    """Of a server that announces no changes, and of one that answers each user differently."""
    for announces, is_per_user in ((False, False), (True, True)):
        behind = Behind("one")
        behind.server.list_changed = {"tools"} if announces else set()
        gateway = patient_gateway({"b": behind.server}, settings={"b": UpstreamSettings(is_per_user=is_per_user)})
        async with Client(gateway, cache=False) as client:
            await names(client)
            read = behind.lists
            await names(client)
            assert behind.lists == read + 1


async def test_a_kept_list_is_that_of_its_client_and_view() -> None:
    """The encoded list of one revision or view is no other's."""
    gateway = patient_gateway({"a": Behind("one").server, "b": Behind("two").server})
    views = GatewayViews(gateway)
    gateway.server.middleware.insert(0, views)
    async with Client(gateway, mode="2026-07-28", cache=False) as new, Client(gateway, mode="2025-11-25") as old:
        for _ in range(2):
            assert await names(new) == await names(old) == ["a_one", "b_two"]
        raw = [await each.request("tools/list") for each in (new, old, new)]
        assert ["resultType" in each for each in raw] == [True, False, True]
        views.replace({"only": View("only", servers=frozenset({"b"}))}, "only")
        assert await names(new) == ["b_two"]
        views.replace({}, None)
        assert await names(new) == ["a_one", "b_two"]
        await gateway.remove_upstream("a")
        assert await names(new) == ["b_two"]
