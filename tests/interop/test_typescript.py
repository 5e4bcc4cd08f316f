"""The official TypeScript packages as clients: the 2.x client in both eras, the 1.x client, and the tasks package.

Another language, another HTTP stack, another reading of the specification. `features_program.py` is the server.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import wait_until_served

pytestmark = pytest.mark.peer

HERE = Path(__file__).parent
MODERN = "2026-07-28"


@pytest.fixture(scope="module")
def command() -> list[str]:
    """The server as a host's configuration would start it."""
    return [sys.executable, "-W", "ignore", str(HERE / "features_program.py")]


@pytest.fixture
def url(command: list[str], tmp_path: Path) -> Iterator[str]:
    """A server of its own per test: what it counts starts at nothing."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = tmp_path / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "http", str(port)], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
    try:
        wait_until_served(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)
    assert "Traceback" not in log.read_text(errors="replace")


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
    """Start, question (modern), status, result and cancellation, on both of the wires that tasks have."""
    seen = run("typescript_tasks.mjs", era, url)
    assert seen["errors"] == []
    assert (seen["kind"], seen["status"]) == ("task", "completed")
    assert seen["events"][-1] == "outcome"
    if era == "modern":
        assert seen["asked"] == ["Milk?"]
        assert seen["result"] == "2 cups, milk: True"
    else:
        assert seen["result"] == "1 cups, milk: False"
    assert seen["cancelled"] == "cancelled"
