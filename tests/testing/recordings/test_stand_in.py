"""A recording answers as the recorded server did: in both eras, for calls, lists, questions, progress and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, MCPError, MCPServer, Secret, StdioServer
from ferrule.cli.tracing.recording import Recorder
from ferrule.testing import Recording
from ferrule.testing.recordings.lines import Line
from ferrule.wire.codec import encode

pytestmark = pytest.mark.anyio

SERVER = """\
from ferrule import Context, MCPServer, ToolError

app = MCPServer("notes", version="3", instructions="Be brief.")
count = 0

@app.tool
async def find(word: str, ctx: Context, api_key: str = "") -> list[str]:
    '''Find notes.'''
    global count
    count += 1
    await ctx.progress(1, 2, "half")
    return [word, str(count)]

@app.tool
async def drop(note: int, ctx: Context) -> str:
    '''Delete a note.'''
    answer = await ctx.elicit(f"Delete {note}?", bool)
    return f"{note}: {answer.data}"

@app.tool
def fail() -> str:
    '''Fail.'''
    raise ToolError("no ink")

@app.resource("memo://today")
def today() -> str:
    '''The memo.'''
    return "buy milk"

@app.prompt
def review(language: str) -> str:
    '''Review code.'''
    return f"Review this {language}"
"""


async def accept(_: Any, __: Any) -> dict[str, Any]:
    """Answer every question with yes."""
    return {"action": "accept", "content": {"value": True}}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the server."""
    path = tmp_path_factory.mktemp("recorded") / "notes.py"
    path.write_text(SERVER, encoding="utf-8")
    return path


async def record(source: Path, mode: str) -> Path:
    """Use the server through `ferrule trace`."""
    to = source.with_name(f"{mode}.jsonl")
    server = StdioServer(sys.executable, ["-m", "ferrule", "trace", str(source), "--to", str(to)])
    async with Client(server, mode=mode, elicitation_handler=accept) as client:
        await use(client)
    return to


async def use(client: Client) -> list[Any]:
    """What is done with the real server, and with the stand-in."""
    seen: list[Any] = []

    def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    found: list[Any] = [
        client.server_info,
        client.instructions,
        [(tool.name, tool.description) for tool in await client.list_tools()],
        [resource.uri for resource in await client.list_resources()],
        [prompt.name for prompt in await client.list_prompts()],
        (await client.call_tool("find", {"word": "brass"}, on_progress=progress)).text,
        (await client.call_tool("find", {"word": "brass"})).text,
        (await client.call_tool("find", {"word": "x", "api_key": "hunter2-is-secret"})).text,
        (await client.call_tool("drop", {"note": 3})).text,
        (await client.call_tool("fail")).is_error,
        (await client.read_resource("memo://today")).contents,
        (await client.get_prompt("review", {"language": "python"})).messages,
    ]
    return [*found, seen]


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_the_stand_in_says_what_the_server_said(source: Path, mode: str) -> None:
    """The same program, the same answers; equal calls in the order of the recording."""
    path = await record(source, mode)
    text = path.read_text(encoding="utf-8")
    assert "hunter2" not in text
    async with Client(Recording(path), mode=mode, elicitation_handler=accept) as client:
        found = await use(client)
    assert found[0].name == "notes"
    assert found[5:9] == ['["brass","1"]', '["brass","2"]', '["x","3"]', "3: True"]
    assert found[9] is True
    assert found[12] == [(1, 2, "half")]
    async with Client(Recording(path), mode=mode, elicitation_handler=accept) as client:
        assert await use(client) == found


async def test_what_was_not_recorded_is_an_error_that_says_so(source: Path) -> None:
    """With what there is instead; the last answer of equal calls stays."""
    recording = Recording(await record(source, "2026-07-28"))
    async with Client(recording, mode="2026-07-28") as client:
        with pytest.raises(MCPError, match=r'no tools/call of .find. with these arguments; it has \{"word":"brass"\}'):
            await client.call_tool("find", {"word": "steel"})
        with pytest.raises(MCPError, match="has no tools/call of 'melt'"):
            await client.call_tool("melt")
        for expected in ("1", "2", "2"):
            assert (await client.call_tool("find", {"word": "brass"})).structured_content[1] == expected


async def test_one_era_is_recorded_and_the_other_is_spoken(source: Path) -> None:
    """What has the same meaning in both is served in both."""
    path = await record(source, "2025-11-25")
    async with Client(Recording(path), mode="2026-07-28") as client:
        assert (await client.call_tool("find", {"word": "brass"})).text
        assert [tool.name for tool in await client.list_tools()] == ["find", "drop", "fail"]


def lines(*messages: tuple[str, dict[str, Any]]) -> list[Line]:
    """The lines of a recording that is made by hand."""
    return [Line(float(at), sender, {"jsonrpc": "2.0", **body}) for at, (sender, body) in enumerate(messages)]  # type: ignore[arg-type]


async def test_calls_without_a_handshake_and_a_list() -> None:
    """A part of a recording is enough: the tools that were called are listed."""
    recording = Recording(
        lines(
            ("client", {"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}),
            ("server", {"id": 1, "result": {"content": [{"type": "text", "text": "2"}]}}),
            ("client", {"id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2}}}),
            ("server", {"id": 2, "error": {"code": -32050, "message": "too large", "data": 5}}),
        )
    )
    async with Client(recording) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]
        assert (await client.call_tool("add", {"a": 1})).text == "2"
        with pytest.raises(MCPError, match="too large") as caught:
            await client.call_tool("add", {"a": 2})
        assert (caught.value.code, caught.value.data) == (-32050, 5)


async def test_pages_become_one_list() -> None:
    """Their cursors belong to the old server."""
    tool = {"inputSchema": {"type": "object"}}
    recording = Recording(
        lines(
            ("client", {"id": 1, "method": "tools/list"}),
            ("server", {"id": 1, "result": {"tools": [{"name": "a", **tool}], "nextCursor": "x"}}),
            ("client", {"id": 2, "method": "tools/list", "params": {"cursor": "x"}}),
            ("server", {"id": 2, "result": {"tools": [{"name": "b", **tool}]}}),
        )
    )
    async with Client(recording) as client:
        assert [tool.name for tool in await client.list_tools()] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "{", '{"at_s": 1}', json.dumps({"at_s": 0, "from": "client", "raw": "hi"})])
def test_what_is_no_recording(tmp_path: Path, text: str) -> None:
    """An error when it is made, not an empty server."""
    path = tmp_path / "x.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.jsonl"):
        Recording(path)


async def test_calls_with_secret_arguments_are_recorded_without_them_and_found_again(tmp_path: Path) -> None:
    """By the schema of the tool, also where the name of the argument says nothing."""
    app: MCPServer[Any] = MCPServer("x")

    @app.tool
    def open_door(pin: Secret[str], door: str) -> str:
        return door

    recorder = Recorder(tmp_path / "session.jsonl")
    async with Client(app, mode="2026-07-28") as client:
        tools = [tool.name for tool in await client.list_tools()]
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    definition = app.list_tools()[0]
    call = {"name": "open_door", "arguments": {"pin": "4711-secret", "door": "left"}, "_meta": meta}
    sent: list[tuple[Any, Any]] = [
        ("client", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}),
        ("server", {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "tools": [definition]}}),
        ("client", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
        ("server", {"jsonrpc": "2.0", "id": 2, "result": {"resultType": "complete", "content": []}}),
    ]
    for sender, message in sent:
        recorder.note(sender, encode(message))
    recorder.close()
    assert "4711-secret" not in (tmp_path / "session.jsonl").read_text()
    assert tools == ["open_door"]
    async with Client(Recording(tmp_path / "session.jsonl"), mode="2026-07-28") as client:
        found = await client.call_tool("open_door", {"pin": "another", "door": "left"})
        assert found.is_error is False
