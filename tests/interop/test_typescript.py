"""The official TypeScript packages: their clients against our server, and our client against their server.

Another language, another HTTP stack, another reading of the specification. `features_program.py` is our server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError
from tests.processes import free_port, wait_until_served

pytestmark = pytest.mark.peer

HERE = Path(__file__).parent
MODERN = "2026-07-28"


@pytest.fixture(scope="module")
def command() -> list[str]:
    """The server as a host's configuration would start it."""
    return [sys.executable, "-W", "ignore", str(HERE / "features_program.py")]


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[str]:
    """The URL of a server that a command serves on the port after it."""
    port = free_port()
    log = folder / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen([*command, str(port)], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    try:
        wait_until_served(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text(errors="replace")


@pytest.fixture
def url(command: list[str], tmp_path: Path) -> Iterator[str]:
    """A server of its own per test: what it counts starts at nothing."""
    with serving([*command, "http"], tmp_path) as found:
        yield found


@pytest.fixture
def run(peer_node: tuple[str, Path]) -> Any:
    """Runs a script of this folder with Node and returns what it printed."""
    node, folder = peer_node

    def run(script: str, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [node, str(HERE / script), str(folder), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=60,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    return run


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("generation", "mode"), [("v2", MODERN), ("v2", "auto"), ("v2", "legacy"), ("v1", "legacy")])
def test_the_client_sees_what_the_server_offers(
    run: Any, command: list[str], request: pytest.FixtureRequest, generation: str, mode: str, transport: str
) -> None:
    """Tools, results, headers, errors, progress, log, questions, cancellation, changes, resources, prompts."""
    where = command if transport == "stdio" else [request.getfixturevalue("url")]
    seen = run("typescript_client.cjs", generation, mode, transport, *where)
    is_modern = mode != "legacy"

    def wrapped(value: Any) -> Any:
        return value if is_modern else {"result": value}

    if generation == "v2":
        assert seen["version"] == (MODERN if is_modern else "2025-11-25")
    assert seen["instructions"] == "Try everything."
    assert seen["errors"] == []
    assert {"shift", "plan", "brew"} <= set(seen["tools"])
    assert seen["shift"]["structured"] == {"x": 3, "y": 0.5}
    assert seen["several"]["structured"] == wrapped([1, 2, 3])
    assert seen["regional"]["structured"] == wrapped("nörd: hi")
    assert seen["mixed"] == ["text", "image", "resource_link", "resource"]
    assert seen["broken"] == {"structured": None, "content": [{"type": "text", "text": "not today"}], "isError": True}
    assert seen["invalid"]["isError"]
    assert "point.x" in seen["invalid"]["content"][0]["text"]
    assert seen["counted"] == wrapped(3)
    assert seen["progress"] == [[step, 3, f"step {step}"] for step in (1, 2, 3)]
    assert seen["logs"] == [f"did {step}" for step in (1, 2, 3)]
    assert seen["asked"] == ["Where to?", "Which class?", "One word about Oslo"]
    assert seen["plan"] == "Oslo x2 first fjord ['file:///home']"
    assert seen["cancelled"]
    assert seen["happened"] == wrapped(["cancelled"])
    assert seen["updates"] == ["data://counter"]
    assert seen["listChanges"] == 1
    assert seen["counter"] == {"value": 1}
    assert seen["templates"] == ["file:///notes/{name}.txt"]
    assert seen["note"] == "note a b"
    # The 2.x client gives the modern code in either era.
    assert seen["missing"] == (-32002 if generation == "v1" else -32602)
    assert seen["prompt"] == "Review x in a warm tone"
    assert seen["completed"] == ["calm", "cold"]
    assert seen["unknown"] == {"code": -32602}
    if is_modern:
        assert seen["closed"] == "local"


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_tasks_package_drives_a_task(run: Any, url: str, era: str) -> None:
    """Start, question, status, result and cancellation, on both of the wires that tasks have.

    In the legacy era it never opens tasks/result while a task needs input.
    """
    seen = run("typescript_tasks.mjs", era, url)
    assert seen["errors"] == []
    assert (seen["kind"], seen["status"]) == ("task", "completed")
    assert seen["events"][-1] == "outcome"
    assert seen["asked"] == ["Milk?"]
    assert seen["result"] == "2 cups, milk: True"
    assert seen["cancelled"] == "cancelled"


# -- our client against the package's server -----------------------------------------------------------------------


@pytest.fixture
def server_command(peer_node: tuple[str, Path]) -> list[str]:
    """A server written with the 2.x package."""
    node, folder = peer_node
    return [node, str(HERE.parent / "peers" / "typescript_server.cjs"), str(folder)]


async def use_everything(target: Any, mode: str) -> None:
    """Each thing that the server has, and what comes of it."""
    asked: list[str] = []
    logs: list[Any] = []
    progress: list[tuple[float, float | None, str | None]] = []

    def answer(question: Any) -> dict[str, str]:
        asked.append(question.message)
        return {"city": "Oslo"}

    def said(question: Any) -> str:
        asked.append(question.messages[0].content.text)
        return "fjord"

    async with Client(
        target,
        mode=mode,
        elicitation_handler=answer,
        sampling_handler=said,
        roots=["file:///home"],
        log_handler=lambda entry: logs.append(entry.data),
        timeout_s=30,
    ) as client:
        over_http = isinstance(target, str)
        is_modern = client.is_modern
        assert client.protocol_version == (MODERN if mode != "legacy" else "2025-11-25")
        assert client.instructions == "Try everything."
        assert len(await client.list_tools()) == 7
        moved = await client.call_tool("shift", {"x": 1, "by": 2})
        assert (moved.structured_content, moved.is_error) == ({"x": 3}, False)
        broken = await client.call_tool("broken")
        assert (broken.text, broken.is_error) == ("not today", True)
        assert (await client.call_tool("shift", {"x": "many"})).is_error
        await client.call_tool("count_up", {"steps": 3}, on_progress=lambda *told: progress.append(told))
        assert progress == [(step, 3, f"step {step}") for step in (1, 2, 3)]
        # Over HTTP its legacy era is stateless: no level is kept, and no question or cancellation can be sent.
        stateless = over_http and not is_modern
        if not stateless:
            assert logs == [f"did {step}" for step in (1, 2, 3)]
            assert (await client.call_tool("plan")).text == "Oslo fjord file:///home"
            assert sorted(asked) == ["One word", "Where to?"]
            with anyio.move_on_after(0.3) as waited:
                await client.call_tool("wait_long")
            assert waited.cancelled_caught
            with anyio.fail_after(30):
                while "cancelled" not in (await client.call_tool("what_happened")).text:
                    await anyio.sleep(0.02)
            async with client.listen(tools=True, uris=["data://counter"]) as changes:
                await client.call_tool("increment")
                with anyio.fail_after(30):
                    heard = {(await anext(changes)).method for _ in range(2)}
            assert heard == {"notifications/tools/list_changed", "notifications/resources/updated"}
        assert (await client.read_resource("data://counter")).contents[0].text == f'{{"value":{0 if stateless else 1}}}'
        assert [found.uri_template for found in await client.list_resource_templates()] == ["file:///notes/{name}.txt"]
        assert (await client.read_resource("file:///notes/a.txt")).contents[0].text == "note a"
        with pytest.raises(MCPError) as missing:
            await client.read_resource("file:///nowhere")
        assert missing.value.code in (-32602, -32002)
        prompt = await client.get_prompt("review", {"tone": "warm"})
        assert prompt.messages[0].content.text == "Review in a warm tone"
        reference = {"type": "ref/prompt", "name": "review"}
        assert (await client.complete(reference, "tone", "c")).values == ["calm", "cold"]
        await client.ping()


@pytest.mark.anyio
@pytest.mark.parametrize("mode", [MODERN, "auto", "legacy"])
async def test_our_client_uses_its_server_over_stdio(server_command: list[str], mode: str) -> None:
    """In either era, and the one that we find out."""
    await use_everything([*server_command, "stdio"], mode)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", [MODERN, "auto", "legacy"])
async def test_our_client_uses_its_server_over_http(server_command: list[str], tmp_path: Path, mode: str) -> None:
    """The legacy era of its HTTP handler has no sessions."""
    with serving([*server_command, "http"], tmp_path) as url:
        await use_everything(url, mode)
