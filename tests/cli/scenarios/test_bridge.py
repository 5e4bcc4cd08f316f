"""``ferrule run`` between the transports: the official client on one side, any server on the other, both eras on both.

Progress, questions and cancellation pass through.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import FERRULE, LIMIT_S, PROBE, environment, ferrule, serving

pytestmark = pytest.mark.peer

CLIENT = str(Path(__file__).with_name("bridge_client.py"))
ERAS = ["2026-07-28", "2025-11-25"]


def official_client(peer_python: str, mode: str, record: Path, *target: str) -> dict[str, Any]:
    """What the official client saw."""
    done = subprocess.run(
        [peer_python, CLIENT, mode, str(record), *target],
        capture_output=True, text=True, timeout=LIMIT_S, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def check(seen: dict[str, Any], mode: str) -> None:
    """Everything that must have passed through."""
    assert (seen["version"] == "2026-07-28") == (mode == "auto")  # it finds the modern era by itself
    assert seen["server"] == "probe"
    assert {"add", "greet", "steps"} <= set(seen["tools"])
    assert seen["add"] in (42, {"result": 42})
    assert (seen["memo"], seen["ask"]) == ("tea on monday", "What about tea, short?")
    assert (seen["steps"], seen["progress"]) == ("done", [[n, 3, f"step {n}"] for n in (1, 2, 3)])
    assert seen["asked"] == ["Who are you?", "brass"]
    assert (seen["greet"], seen["think"]) == ("Hello, Ada (36)", "It thinks: an alloy")
    assert seen["cancelled"]
    assert seen["after"] in (3, {"result": 3})


@pytest.mark.parametrize("behind", ERAS)
@pytest.mark.parametrize("before", ["auto", "legacy"])
def test_a_stdio_client_reaches_an_http_server(tmp_path: Path, peer_python: str, before: str, behind: str) -> None:
    """``ferrule run URL``."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        target = ("stdio", *FERRULE, "run", server.url, "--mode", behind)
        check(official_client(peer_python, before, tmp_path / "record", *target), before)


@pytest.mark.parametrize("behind", ERAS)
@pytest.mark.parametrize("before", ["auto", "legacy"])
def test_an_http_client_reaches_a_stdio_server(tmp_path: Path, peer_python: str, before: str, behind: str) -> None:
    """``ferrule run COMMAND --http``."""
    command = f"{sys.executable} {PROBE}"
    with serving(tmp_path / "log", "run", command, "--http", "--port", "0", "--mode", behind) as server:
        check(official_client(peer_python, before, tmp_path / "record", "http", server.url), before)


@pytest.mark.parametrize("before", ["auto", "legacy"])
def test_a_trace_changes_nothing_of_what_passes(tmp_path: Path, peer_python: str, before: str) -> None:
    """Over HTTP, and in the place of a process; afterwards everything that was said is in the recording."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        arguments = ("trace", server.url, "--http", "--port", "0", "--to", str(tmp_path / "web"))
        with serving(tmp_path / "traced", *arguments) as trace:
            url = trace.wait_for(r"tracing (http://\S+)")[1]
            check(official_client(peer_python, before, tmp_path / "record", "http", url), before)
    target = ("stdio", *FERRULE, "trace", PROBE, "--to", str(tmp_path / "pipe"))
    check(official_client(peer_python, before, tmp_path / "record2", *target), before)
    for name in ("web", "pipe"):
        text = (tmp_path / name).read_text()
        for words in ("elicitation/create", "sampling/createMessage", "notifications/progress", "It thinks: an alloy"):
            assert words in text, (name, words)


def test_a_server_of_others_is_carried_to_http(tmp_path: Path, peer_python: str) -> None:
    """The official package's server, on another transport and in another era than the client."""
    command = f"{peer_python} {Path(__file__).parents[2] / 'peers' / 'mcp_server.py'} stdio"
    with serving(tmp_path / "log", "run", command, "--http", "--port", "0", "--mode", "legacy") as server:
        done = ferrule("call", server.url, "add", "a=1", "b=2", "--mode", "2026-07-28", "-o", "json")
        assert json.loads(done.stdout)["structuredContent"] == {"total": 3}
