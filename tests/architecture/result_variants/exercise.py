"""Serve and call the revision of ``r2027_06_01.py`` beside the others; run by ``test_new_revision.py`` in a process.

``exercise.py FOLDER``: the folder with the copy of the package that has the revision. Prints ``done`` at the end.
"""

import sys
from dataclasses import dataclass
from typing import Any

import anyio

sys.path.insert(0, sys.argv[1])

from ferrule import Client, MCPServer
from ferrule.client.gateway.proxy import proxy
from ferrule.testing.carriers import open_carrier
from ferrule.wire.revisions import REVISIONS

NEW, OLD, LEGACY, OLDEST = "2027-06-01", "2026-07-28", "2025-11-25", "2024-11-05"
CARRIERS = ("direct", "memory", "bytes", "asgi")
TEXT = '{"celsius":21.5}'


@dataclass
class Weather:
    """What the weather is."""

    celsius: float


class SelectOutputs:
    """The handler of what is new: sends only the variants that a call requests."""

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """Serve a request."""
        result = await call_next(ctx)
        # Middleware gets the params as JSON, and the result in the form of the request's revision.
        wanted = ctx.params.get("requestedOutputs")
        if wanted is None or not isinstance(result, dict) or result.get("isError"):
            return result
        return {**result, "outputs": [output for output in result["outputs"] if output["variant"] in wanted]}


def make_server() -> MCPServer:
    """Return a server whose tools have each kind of result."""
    app = MCPServer("variants", middleware=[SelectOutputs()])

    @app.tool
    async def weather() -> Weather:
        return Weather(21.5)

    @app.tool
    def numbers() -> list[int]:
        return [1, 2]

    @app.tool(structured=False)
    async def words() -> str:
        return "some words"

    @app.tool
    async def fail() -> str:
        raise RuntimeError

    return app


def envelope(version: str) -> dict[str, Any]:
    """Return the ``_meta`` of a modern request."""
    prefix = "io.modelcontextprotocol/"
    return {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}


async def ask(carrier: Any, version: str, method: str, **params: Any) -> Any:
    """Return the result of a request."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": envelope(version)}}
    await carrier.send(request, {})
    answer = await carrier.receive()
    assert "result" in answer, answer
    return answer["result"]


async def serve(carrier_name: str, version: str) -> None:
    """The server's role: what is on the wire in the new revision, and in the old one beside it."""
    async with open_carrier(carrier_name, make_server().lowlevel, REVISIONS[version]) as carrier:
        tools = {tool["name"]: tool for tool in (await ask(carrier, version, "tools/list"))["tools"]}
        called = await ask(carrier, version, "tools/call", name="weather", arguments={})
        assert called["resultType"] == "complete", called
        if version == OLD:
            assert "outputSchema" in tools["weather"], tools
            assert "outputVariants" not in tools["weather"], tools
            assert called["structuredContent"] == {"celsius": 21.5}, called
            assert "outputs" not in called, called
            return
        assert "outputSchema" not in tools["weather"], tools
        structured, content = tools["weather"]["outputVariants"]
        assert content == {"name": "content"}, content
        assert structured["schema"]["properties"]["celsius"]["type"] == "number", structured
        assert [variant["name"] for variant in tools["words"]["outputVariants"]] == ["content"], tools
        value = {"variant": "structured", "value": {"celsius": 21.5}}
        text = {"variant": "content", "content": [{"type": "text", "text": TEXT}]}
        assert called["outputs"] == [value, text], called
        assert called.keys() == {"resultType", "outputs", "_meta"}, called
        for wanted, outputs in ((["structured"], [value]), (["content"], [text]), ([], []), (["other"], [])):
            requested = {"name": "weather", "arguments": {}, "requestedOutputs": wanted}
            found = await ask(carrier, version, "tools/call", **requested)
            assert found["outputs"] == outputs, (wanted, found)
        failed = await ask(carrier, version, "tools/call", name="fail", arguments={}, requestedOutputs=["structured"])
        assert failed["isError"] is True, failed
        assert failed["outputs"][0]["variant"] == "content", failed


async def call(server: Any, mode: str, *, selects: bool = True) -> None:
    """The client's role: the same results in each revision; ``selects``: the server knows ``requestedOutputs``."""
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == mode, client.protocol_version
        tools = {tool.name: tool for tool in await client.list_tools()}
        if mode != OLDEST:
            assert tools["weather"].output_schema["required"] == ["celsius"], tools
        for _ in range(3):  # the second call may take another path than the first
            result = await client.call_tool("weather")
            assert result.text.replace(" ", "") == TEXT, result
            if mode != OLDEST:
                assert result.structured_content == {"celsius": 21.5}, result
            assert (await client.call_tool("words")).text == "some words"
            if mode != OLDEST:
                assert (await client.call_tool("numbers")).data == [1, 2]
            failed = await client.call_tool("fail", raise_on_error=False)
            assert failed.is_error, failed
            assert failed.text, failed
        if mode == NEW and selects:
            params = {"name": "weather", "arguments": {}, "requestedOutputs": ["structured"]}
            part = await client.request("tools/call", params)
            assert part["structuredContent"] == {"celsius": 21.5}, part
            assert part["content"] == [], part


async def main() -> None:
    """Run everything."""
    assert list(REVISIONS)[-2:] == [OLD, NEW]
    for version in (NEW, OLD):
        for carrier in CARRIERS:
            await serve(carrier, version)
    for mode in (NEW, OLD, LEGACY, OLDEST):
        await call(make_server(), mode)
        for behind in (NEW, OLD, LEGACY):
            await call(proxy(make_server(), mode=behind), mode, selects=behind == NEW)
    print("done")


anyio.run(main)
