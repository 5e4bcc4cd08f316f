"""Clients that others wrote and that many hosts run: every progress notification reaches their caller.

The official TypeScript clients forget the progress handler of a call when its answer is parsed, before they handle the
notifications that came out of the same read. `progress_program.py` reports fifty steps, with and without pauses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import free_port, wait_until_served

pytestmark = pytest.mark.peer

HERE = Path(__file__).parent
PROGRAM = [sys.executable, "-W", "ignore", str(HERE / "progress_program.py")]
STEPS, CALLS = 50, 10


@contextmanager
def target_of(transport: str, folder: Path) -> Iterator[list[str]]:
    """How a client reaches the server: a command, or the address of a process that this starts."""
    if transport == "stdio":
        yield PROGRAM
        return
    port, log = free_port(), folder / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*PROGRAM, transport, str(port)], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
    try:
        wait_until_served(process, port, log)
        yield [f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"]
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text(errors="replace")


def converse(command: list[str]) -> dict[str, Any]:
    """What a client program printed."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=100,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize(
    ("transport", "generation", "mode"),
    [
        *(
            (transport, generation, mode)
            for transport in ("stdio", "http")
            for generation, mode in (("v1", "legacy"), ("v2", "legacy"), ("v2", "2026-07-28"))
        ),
        ("sse", "v1", "legacy"),
        ("sse", "v2", "legacy"),
    ],
)
def test_the_typescript_clients_hear_every_step(
    peer_node: tuple[str, Path], tmp_path: Path, transport: str, generation: str, mode: str
) -> None:
    """A notification that shares a read with the answer would be lost."""
    node, folder = peer_node
    complete = dict.fromkeys(("without_pause", "with_pauses", "with_log"), [STEPS] * CALLS)
    seen: dict[str, Any] = {}
    with target_of(transport, tmp_path) as target:
        # The server waits a bounded time before the answer, and a client that has no processor for so long reads both
        # together. A server that does not wait loses notifications in each conversation.
        for _ in range(4):
            seen = converse(
                [node, str(HERE / "typescript_progress.cjs"), str(folder), generation, mode, transport, *target]
            )
            if seen == complete:
                return
    assert seen == complete


@pytest.mark.parametrize(
    ("version", "transport"),
    [
        ("1.6.0", "stdio"),
        ("1.6.0", "sse"),
        ("1.9.4", "stdio"),
        ("1.9.4", "http"),
        ("1.9.4", "sse"),
        ("1.12.4", "stdio"),
        ("1.12.4", "http"),
        ("1.12.4", "sse"),
    ],
)
def test_the_older_python_clients_use_everything(
    old_peer_python: Callable[[str], str], tmp_path: Path, version: str, transport: str
) -> None:
    """Hosts are not kept up to date: lists, calls, errors, questions, resources, prompts, a hundred calls at once."""
    python = old_peer_python(version)
    with target_of(transport, tmp_path) as target:
        seen = converse([python, str(HERE / "mcp_1x_client_script.py"), transport, *target])
    revision = {"1.6.0": "2024-11-05", "1.9.4": "2025-03-26", "1.12.4": "2025-06-18"}[version]
    assert seen["protocol_version"] == revision
    assert {"add", "broken", "ask_for_a_word"} <= set(seen["tools"])
    assert seen["sum"]["content"][0]["text"] == "42"
    assert seen["broken"]["isError"]
    assert "not today" in seen["broken"]["content"][0]["text"]
    assert seen["ask"]["content"][0]["text"] == "fjord ['file:///home']"
    assert seen["asked"] == ["One word about Oslo"]
    assert json.loads(seen["resource"]["contents"][0]["text"]) == {"value": 7}
    assert seen["prompt"]["messages"][0]["content"]["text"] == "Review x"
    assert seen["many"] == [str(2 * number) for number in range(100)]
    if version != "1.6.0":  # has no way to hear of progress
        assert seen["progress"] == {"without_pause": [STEPS] * 3, "with_pauses": [STEPS] * 3}
