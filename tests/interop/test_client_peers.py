"""Ferrule's client with servers of others: the official package's in every era, and published ones. Everything is
listed, several tools are called, resources read, prompts filled in; over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, MCPError, StdioServer
from tests.conftest import cache_dir, missing_peer
from tests.processes import free_port

pytestmark = pytest.mark.anyio

OFFICIAL = str(Path(__file__).parents[1] / "peers" / "mcp_server.py")


@asynccontextmanager
async def running(port: int, *command: str, env: dict[str, str] | None = None) -> AsyncIterator[None]:
    """A server process that listens on a port."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL, env={**os.environ, **(env or {})},
    )  # fmt: skip
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


# -- servers written with the official package -------------------------------------------------------------------


async def try_official(target: Any, mode: str) -> str:
    """Use everything that the server has; the revision that was spoken."""
    async with Client(target, mode=mode, elicitation_handler=lambda params: {"name": "Ada"}, timeout_s=30) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.instructions) == ("official", "Ask politely.")
        assert {tool.name for tool in await client.list_tools()} == {"add", "words", "count", "crash", "greet"}
        result = await client.call_tool("add", {"a": 1, "b": 2})
        if client.session.revision.structured_output != "none":
            assert result.data.total == 3
            assert (await client.call_tool("words", {"text": "a b"})).data == ["a", "b"]
        assert (await client.call_tool("crash")).is_error
        seen: list[float] = []
        await client.call_tool("count", {"to": 3}, on_progress=lambda progress, total, message: seen.append(progress))
        assert seen == [1, 2, 3]
        if not client.is_modern and "elicitation/create" in client.session.revision.server_requests:
            assert (await client.call_tool("greet")).text == "Hello, Ada!"
        assert [resource.uri for resource in await client.list_resources()] == ["note://one"]
        assert [t.uri_template for t in await client.list_resource_templates()] == ["note://of/{who}"]
        assert (await client.read_resource("note://of/me")).contents[0].text == "note of me"
        assert (await client.get_prompt("ask", {"topic": "tea"})).messages[0].content.text == "What about tea?"
        with pytest.raises(MCPError):
            await client.read_resource("note://no/such/thing")
        await client.ping()
        return client.protocol_version


MODES = [
    ("auto", "2026-07-28"),
    ("2026-07-28", "2026-07-28"),
    ("legacy", "2025-11-25"),
    ("2025-06-18", "2025-06-18"),
    ("2025-03-26", "2025-03-26"),
    ("2024-11-05", "2024-11-05"),
]


@pytest.mark.parametrize(("mode", "spoken"), MODES)
async def test_official_server_over_stdio(peer_python: str, mode: str, spoken: str) -> None:
    """The official package's server in each revision."""
    assert await try_official([peer_python, OFFICIAL, "stdio"], mode) == spoken


async def test_official_server_over_http(peer_python: str) -> None:
    """The same over Streamable HTTP, one process for both eras."""
    port = free_port()
    async with running(port, peer_python, OFFICIAL, "http", str(port)):
        for mode, spoken in MODES[:-1]:
            assert await try_official(f"http://127.0.0.1:{port}/mcp", mode) == spoken


# -- published servers --------------------------------------------------------------------------------------------


def python_server(name: str) -> str:
    """A program of the environment with published servers."""
    folder = Path(os.environ.get("FERRULE_PEER_SERVERS_DIR", cache_dir() / "peer-servers" / "bin"))
    program = folder / (f"{name}.exe" if os.name == "nt" else name)
    if not program.exists():
        missing_peer(f"{name} is not installed")
    return str(program)


def node_server(peer_node: tuple[str, Path], name: str) -> list[str]:
    """The command of a published server in JavaScript."""
    node, folder = peer_node
    entry = folder / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    if not entry.exists():
        pytest.skip(f"{name} is not installed (scripts/test installs it)")
    return [node, str(entry)]


async def read_everything(client: Client) -> None:
    """List what there is and read it."""
    await client.list_tools()
    capabilities = client.server_capabilities
    if capabilities.resources is not None:
        await client.list_resource_templates()
        for resource in (await client.list_resources())[:3]:
            assert (await client.read_resource(resource.uri)).contents
    if capabilities.prompts is not None:
        for prompt in await client.list_prompts():
            if not prompt.arguments:
                assert (await client.get_prompt(prompt.name)).messages
    await client.ping()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_time_server(mode: str) -> None:
    """mcp-server-time from PyPI."""
    async with Client([python_server("mcp-server-time")], mode=mode) as client:
        await read_everything(client)
        result = await client.call_tool("get_current_time", {"timezone": "UTC"}, raise_on_error=True)
        assert "UTC" in result.text
        moved = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        assert "21:00" in (await client.call_tool("convert_time", moved)).text
        assert (await client.call_tool("get_current_time", {"timezone": "Nowhere/Else"})).is_error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_git_server(mode: str, tmp_path: Path) -> None:
    """mcp-server-git from PyPI."""
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        process = await asyncio.create_subprocess_exec(
            "git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments, cwd=tmp_path
        )
        assert await process.wait() == 0
    async with Client([python_server("mcp-server-git"), "-r", str(tmp_path)], mode=mode) as client:
        await read_everything(client)
        assert "first" in (await client.call_tool("git_log", {"repo_path": str(tmp_path)}, raise_on_error=True)).text
        assert (await client.call_tool("git_status", {"repo_path": str(tmp_path)})).text


async def try_everything(client: Client) -> None:
    """What server-everything shows off, questions to the client included."""
    await read_everything(client)
    assert (await client.call_tool("echo", {"message": "hi"})).text == "Echo: hi"
    assert "3" in (await client.call_tool("get-sum", {"a": 1, "b": 2})).text
    assert (await client.call_tool("get-structured-content", {"location": "New York"})).data.conditions
    seen: list[float] = []
    slow = {"duration": 0.2, "steps": 2}
    await client.call_tool("trigger-long-running-operation", slow, on_progress=lambda p, t, m: seen.append(p))
    assert seen
    asked = await client.call_tool("trigger-sampling-request", {"prompt": "x", "maxTokens": 5})
    assert "from the model" in asked.text
    assert (await client.call_tool("trigger-elicitation-request")).text
    assert "file:///" in (await client.call_tool("get-roots-list")).text
    assert [block.type for block in (await client.call_tool("get-tiny-image")).content].count("image") == 1


def everything_client(target: Any) -> Client:
    return Client(
        target,
        elicitation_handler=lambda params: {},
        sampling_handler=lambda params: "from the model",
        roots=[Path(__file__).parent],
        timeout_s=30,
    )


async def test_everything_server_over_stdio(peer_node: tuple[str, Path]) -> None:
    """@modelcontextprotocol/server-everything from npm."""
    async with everything_client(node_server(peer_node, "server-everything")) as client:
        await try_everything(client)


@pytest.mark.parametrize(("kind", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
async def test_everything_server_over_http(peer_node: tuple[str, Path], kind: str, path: str) -> None:
    """The same over Streamable HTTP, and found by itself over the two-endpoint transport of 2024-11-05."""
    port = free_port()
    command = node_server(peer_node, "server-everything")
    async with (
        running(port, *command, kind, env={"PORT": str(port)}),
        everything_client(f"http://127.0.0.1:{port}{path}") as client,
    ):
        await try_everything(client)


async def test_filesystem_server(peer_node: tuple[str, Path], tmp_path: Path) -> None:
    """@modelcontextprotocol/server-filesystem from npm."""
    (tmp_path / "note.txt").write_text("häßlich")
    folder = os.path.realpath(tmp_path)
    async with Client([*node_server(peer_node, "server-filesystem"), folder], roots=[folder]) as client:
        await read_everything(client)
        assert "note.txt" in (await client.call_tool("list_directory", {"path": folder})).text
        read = await client.call_tool("read_text_file", {"path": f"{folder}/note.txt"}, raise_on_error=True)
        assert "häßlich" in read.text
        assert (await client.call_tool("read_text_file", {"path": "/etc/hostname"})).is_error


async def test_memory_server(peer_node: tuple[str, Path], tmp_path: Path) -> None:
    """@modelcontextprotocol/server-memory from npm."""
    command, *arguments = node_server(peer_node, "server-memory")
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    async with Client(StdioServer(command, arguments, env=env)) as client:
        await read_everything(client)
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
        await client.call_tool("create_entities", {"entities": [entity]}, raise_on_error=True)
        graph = await client.call_tool("read_graph")
        assert graph.structured_content["entities"][0]["name"] == "Ada"


if sys.platform == "win32":
    pytestmark = [pytestmark, pytest.mark.skip(reason="the published servers are not tried on Windows")]
