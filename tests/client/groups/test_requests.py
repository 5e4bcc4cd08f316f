"""ferrule.client.groups.requests: everything that a client can, of several servers."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, ClientGroup, MCPServer, SyncClient
from ferrule.client.errors import UnknownServer
from ferrule.protocol.errors import LocalError, RemoteError
from ferrule.wire.types import PromptReference, ResourceTemplateReference

pytestmark = pytest.mark.anyio

ONE_SERVER = "a fact of one server or of its session: group.servers[name].client has it"
LAYERS = "for the layers below, which serve one session"
NOT_OFFERED = {
    "answer_question": LAYERS,
    "ask_task": LAYERS,
    "cache": ONE_SERVER,
    "call_counts": ONE_SERVER,
    "called": LAYERS,
    "discovered": ONE_SERVER,
    "extension": "each client has a copy of its own",
    "is_modern": ONE_SERVER,
    "known_as": "a group is no member of a configuration",
    "label": ONE_SERVER,
    "log_level": ONE_SERVER,
    "max_total_s": "the entry of a server may have another one",
    "mode": "an option of every client",
    "protocol_version": ONE_SERVER,
    "send_listen": LAYERS,
    "server_capabilities": ONE_SERVER,
    "server_info": ONE_SERVER,
    "session": ONE_SERVER,
    "session_again": LAYERS,
    "session_now": LAYERS,
    "start_task": LAYERS,
    "subscriptions": ONE_SERVER,
    "target": "each server has its own: group.servers[name].target",
    "timeout_s": "the entry of a server may have another one",
    "timeouts": "the entry of a server may have others",
    "tool_metadata": ONE_SERVER,
    "toolbook": "deprecated",
}
"""Public members of `Client` that a group has not, with the reason."""


def public(kind: type[Any]) -> set[str]:
    """The public members of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_group_can_what_a_client_can() -> None:
    """Each further member of `Client` is offered, or gets a reason here."""
    missing = public(Client) - public(ClientGroup)
    assert missing == set(NOT_OFFERED)


def test_a_sync_client_of_a_group_has_every_method() -> None:
    """``SyncClient("mcp.json")`` is one of a group."""
    facts = {"protocol_version", "server_info", "client", "close"}
    assert public(SyncClient) - facts - public(ClientGroup) == set()


def make_app(name: str) -> MCPServer[Any]:
    """A server with a prompt and a template that complete."""
    app = MCPServer(name, instructions=f"This is {name}.")

    @app.tool(task="optional")
    async def build(what: str) -> str:
        """Build."""
        return f"{name} built {what}"

    @app.prompt
    def greet(who: str) -> str:
        """Greet."""
        return f"{name} greets {who}"

    @app.resource(f"{name}://{{day}}/log")
    def log(day: str) -> str:
        """A log."""
        return f"{name} on {day}"

    @app.complete("greet", "who")
    def people(value: str) -> list[str]:
        return [f"{name}-{value}"]

    @app.complete(f"{name}://{{day}}/log", "day")
    def days(value: str) -> list[str]:
        return [f"{name}-{value}"]

    return app


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_each_request_reaches_the_server_that_is_meant(mode: str) -> None:
    """By the name, by the URI, or by ``server=``."""
    async with ClientGroup({"a": make_app("a"), "b": make_app("b")}, mode=mode) as group:
        assert group.is_connected
        assert group.instructions == {"a": "This is a.", "b": "This is b."}
        await group.list_resource_templates()
        assert (await group.complete(PromptReference(name="b_greet"), "who", "x")).values == ["b-x"]
        mapping = {"type": "ref/prompt", "name": "a_greet"}
        assert (await group.complete(mapping, "who", "x")).values == ["a-x"]
        template = ResourceTemplateReference(uri="b://{day}/log")
        assert (await group.complete(template, "day", "m")).values == ["b-m"]
        with pytest.raises(UnknownServer, match="server="):
            await group.complete(ResourceTemplateReference(uri="c://x"), "day", "m")
        with pytest.raises(ValueError, match="reference"):
            await group.complete({"type": "ref/tool"}, "day", "m")
        assert (await group.read_resource("b://monday/log")).contents[0].text == "b on monday"
        raw = await group.request("tools/list", server="b")
        assert [tool["name"] for tool in raw["tools"]] == ["build"]
        assert await group.ping() == {"a": None, "b": None}
        assert await group.ping(server="b") == {"b": None}
        assert [tool.name for tool in (await group.list_tools_page(server="b")).tools] == ["b_build"]
        assert [prompt.name for prompt in (await group.list_prompts_page(server="b")).prompts] == ["b_greet"]
        assert (await group.list_resources_page(server="b")).resources == []
        assert len((await group.list_resource_templates_page(server="b")).resource_templates) == 1
        await group.notify_roots_changed()
        handle = await group.start_tool("b_build", {"what": "it"})
        if handle.task_id is not None:
            again = group.task(handle.task_id, server="b", tool="build")
            assert (await again.result(timeout_s=30)).text == "b built it"
        for name in ("request", "list_tools_page"):
            with pytest.raises(UnknownServer, match="'c'"):
                await (group.request("x", server="c") if name == "request" else group.list_tools_page(server="c"))


async def test_a_level_of_log_messages_for_servers_now_and_later(caplog: pytest.LogCaptureFixture) -> None:
    """One that is away gets it when it connects; one that refuses it disturbs no other."""
    async with ClientGroup({"a": make_app("a"), "dead": ["no-such-program-here"]}, mode="2026-07-28") as group:
        await group.set_log_level("error")
        a, dead = group.servers["a"].client, group.servers["dead"].client
        assert a is not None
        assert dead is not None
        assert (a.log_level, dead.log_level) == ("error", "error")
        states = await group.ping()
        assert states["a"] is None
        assert isinstance(states["dead"], Exception)
    async with ClientGroup({"a": make_app("a")}, mode="2025-11-25") as group:
        await group.set_log_level("error")  # this server has no log messages
    assert "'a' did not take the level" in caplog.text


async def test_a_server_whose_entry_is_malformed_is_named() -> None:
    """By whatever asks for it."""
    async with ClientGroup({"a": make_app("a"), "bad": 3}) as group:
        with pytest.raises(LocalError, match="'bad' cannot be used"):
            group.task("1", server="bad")
        with pytest.raises(TypeError, match="cannot be made of int"):
            await group.request("tools/list", server="bad")
        with pytest.raises(RemoteError):
            await group.call_tool("a_missing")
