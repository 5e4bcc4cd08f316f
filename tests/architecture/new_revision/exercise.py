"""Serve and call the revision of ``r2027_01_01.py`` beside the others; run by ``test_new_revision.py`` in a process.

``exercise.py FOLDER``: the folder with the copy of the package that has the revision. Prints ``done`` at the end.
"""

import sys
from typing import Any

import anyio
import pytest

sys.path.insert(0, sys.argv[1])

from ferrule import Client, Context, MCPServer
from ferrule.client.gateway.proxy import proxy
from ferrule.kernel.connection import Connection
from ferrule.protocol.errors import LocalError, MCPError, MethodNotFound
from ferrule.testing.carriers import open_carrier
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS
from ferrule.wire.types import InputRequiredResult, Tool

NEW, OLD, LEGACY = "2027-01-01", "2026-07-28", "2025-11-25"
CARRIERS = ("direct", "memory", "bytes", "asgi")


def make_server(**options: Any) -> MCPServer:
    """Return a server with one tool, one prompt and the handler of the new request."""
    app = MCPServer("exercise", **options)

    @app.tool(title="Add numbers", annotations={"readOnlyHint": True})
    async def add(a: int, b: int, ctx: Context) -> int:
        await ctx.info("adding")
        return a + b

    @app.prompt()
    def greet() -> str:
        return "Hello"

    async def archive(ctx: Any) -> Any:
        assert ctx.params.tool_name == "add", ctx.params
        return {"tool": Tool(name="add", input_schema={"type": "object"}, title="Add numbers")}

    app.lowlevel.add_request_handler("tools/archive", archive)
    return app


def envelope(version: str) -> dict[str, Any]:
    """Return the ``_meta`` of a request that wants log messages."""
    prefix = "io.modelcontextprotocol/"
    return {
        f"{prefix}protocolVersion": version,
        f"{prefix}clientInfo": {"name": "exercise", "version": "1"},
        f"{prefix}clientCapabilities": {},
        f"{prefix}logLevel": "debug",
    }


async def ask(carrier: Any, version: str, method: str, **params: Any) -> list[Any]:
    """Return every message from the server up to the answer."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": envelope(version)}}
    await carrier.send(request, {})
    said = [await carrier.receive()]
    while "id" not in said[-1]:
        said.append(await carrier.receive())
    return said


async def serve(carrier_name: str, version: str) -> None:
    """The server's role: what is on the wire in the new revision, and in the old one beside it."""
    is_new = version == NEW
    async with open_carrier(carrier_name, make_server().lowlevel, REVISIONS[version]) as carrier:
        (listed,) = await ask(carrier, version, "tools/list")
        assert "result" in listed, (carrier_name, listed)
        (tool,) = listed["result"]["tools"]
        assert tool.get("displayTitle" if is_new else "title") == "Add numbers", tool
        assert ("title" if is_new else "displayTitle") not in tool, tool
        assert tool["annotations"] == {"readOnly" if is_new else "readOnlyHint": True}, tool
        assert "ttlMs" in listed["result"], listed
        (prompts,) = await ask(carrier, version, "prompts/list")
        assert ("ttlMs" in prompts["result"]) is not is_new, prompts
        (archived,) = await ask(carrier, version, "tools/archive", toolName="add")
        if is_new:
            assert archived["result"]["tool"]["displayTitle"] == "Add numbers", archived
        else:
            assert archived["error"]["code"] == -32601, archived
        called = await ask(carrier, version, "tools/call", name="add", arguments={"a": 1, "b": 2})
        assert called[-1]["result"]["content"][0]["text"] == "3", called
        logged = [message["method"] for message in called[:-1]]
        assert logged == ([] if is_new else ["notifications/message"]), called


async def refuse_questions_by_prompt() -> None:
    """The set of methods that may ask comes from the connection."""
    app = make_server()

    async def get(ctx: Any) -> Any:
        return InputRequiredResult(request_state="state")

    app.lowlevel.add_request_handler("prompts/get", get)
    for version, accepted in ((NEW, False), (OLD, True)):
        async with open_carrier("memory", app.lowlevel, REVISIONS[version]) as carrier:
            (answer,) = await ask(carrier, version, "prompts/get", name="greet")
            assert ("result" in answer) is accepted, answer


async def forward(behind: str, before: str) -> None:
    """The proxy's role: a method exists when it exists in the revisions of both of its sides."""
    backend = proxy(make_server(), mode=behind)
    async with Client(backend, mode=before) as client:
        (tool,) = await client.list_tools()
        assert tool.title == "Add numbers", tool
        assert tool.annotations.read_only_hint is True, tool
        if before == behind == NEW:
            result = await client.request("tools/archive", {"toolName": "add"})
            assert result["tool"]["title"] == "Add numbers", result
            return
        with pytest.raises(MCPError) as raised:
            await client.request("tools/archive", {"toolName": "add"})
        assert raised.value.code == MethodNotFound("").code


async def call(mode: str, expected: str) -> None:
    """The client's role: against a server that speaks every revision."""
    async with Client(make_server(), mode=mode) as client:
        assert client.protocol_version == expected, client.protocol_version
        (tool,) = await client.list_tools()
        assert tool.title == "Add numbers", tool
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        if expected == NEW:
            result = await client.request("tools/archive", {"toolName": "add"})
            assert result["tool"]["title"] == "Add numbers", result
            return
        with pytest.raises(MCPError) as raised:
            await client.request("tools/archive", {"toolName": "add"})
        assert raised.value.code == MethodNotFound("").code


async def notify_what_is_gone() -> None:
    """A handler that sends the notification by hand learns that the revision does not have it."""
    app = make_server()
    refused: list[str] = []

    @app.tool()
    async def send(ctx: Context) -> str:
        with pytest.raises(LocalError, match=NEW) as raised:
            await ctx.request.session.notify("notifications/message", {"level": "info", "data": "x"})
        refused.append(str(raised.value))
        return "sent"

    async with Client(app, mode=NEW) as client:
        await client.call_tool("send")
    assert len(refused) == 1


async def notify_what_is_gone_outside_requests() -> None:
    """The same holds for the connection; and a subscription grants no changes for which there is no notification."""
    app = make_server()
    app.lowlevel.list_changed |= {"tools", "prompts"}
    for version in (NEW, OLD):
        connection = Connection.from_envelope(version, None, {})
        await connection.notify("notifications/tools/list_changed")
        if version == NEW:
            with pytest.raises(LocalError, match=NEW):
                await connection.notify("notifications/prompts/list_changed")
        async with open_carrier("memory", app.lowlevel, REVISIONS[version]) as carrier:
            wanted = {"toolsListChanged": True, "promptsListChanged": True}
            (found,) = await ask(carrier, version, "server/discover")
            name = "tellsChanges" if version == NEW else "listChanged"
            assert found["result"]["capabilities"]["tools"] == {name: True}, found
            assert found["result"]["capabilities"]["prompts"] == ({} if version == NEW else {name: True}), found
            params = {"notifications": wanted, "_meta": envelope(version)}
            await carrier.send({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": params}, {})
            granted = (await carrier.receive())["params"]["notifications"]
            assert granted == ({"toolsListChanged": True} if version == NEW else wanted), granted


async def rename_keys_of_capabilities() -> None:
    """What client and server declare is written and read by the names of the revision."""
    app = make_server()
    app.lowlevel.list_changed.add("tools")
    seen: list[Any] = []

    @app.tool()
    async def look(ctx: Context) -> str:
        seen.append((ctx.request.meta["io.modelcontextprotocol/clientCapabilities"], ctx.client_capabilities))
        return "seen"

    def form(*_: Any) -> None:
        """Answer a form."""

    for version, name in ((NEW, "forms"), (OLD, "form")):
        async with Client(app, mode=version, elicitation_handler=form) as client:
            assert client.server_capabilities.tools.list_changed is True, client.server_capabilities
            await client.call_tool("look")
            written, read = seen.pop()
            assert written["elicitation"] == {name: {}}, written
            assert read.elicitation == {"form": {}}, read


async def main() -> None:
    """Run everything."""
    assert list(REVISIONS)[-2:] == [OLD, NEW]
    assert LATEST_MODERN_VERSION == NEW
    for version in (NEW, OLD):
        for carrier in CARRIERS:
            await serve(carrier, version)
    await refuse_questions_by_prompt()
    for behind in (NEW, OLD, LEGACY):
        for before in (NEW, OLD, LEGACY):
            await forward(behind, before)
    for mode, expected in ((NEW, NEW), ("auto", NEW), (OLD, OLD), (LEGACY, LEGACY), ("legacy", LEGACY)):
        await call(mode, expected)
    await notify_what_is_gone()
    await notify_what_is_gone_outside_requests()
    await rename_keys_of_capabilities()
    print("done")


anyio.run(main)
