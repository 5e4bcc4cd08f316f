"""A project without Django REST framework: functions as tools, with the users and sessions of Django."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host_processes import program_environment
from tests.processes import free_port, wait_until_served

PROGRAM = Path(__file__).parents[1] / "programs" / "without_rest_framework.py"
CLIENT = Path(__file__).parents[2] / "interop" / "mcp_django_script.py"


@pytest.mark.peer
def test_functions_are_served_to_the_users_of_django(peer_python: str, tmp_path: Path) -> None:
    """In a process of its own, where the framework cannot be imported."""
    port, log = free_port(), tmp_path / "log.txt"
    command = [sys.executable, str(PROGRAM), f"127.0.0.1:{port}"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, env=program_environment(), stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()[-5000:]
            check_what_it_says(json.loads(line))
            wait_until_served(process, port, log)
            for mode, revision in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
                check_what_a_client_sees(peer_python, mode, revision, f"http://127.0.0.1:{port}/mcp/")
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()


def check_what_it_says(seen: dict[str, object]) -> None:
    """Check what its commands and its client in process say."""
    assert seen["check"] == "System check identified no issues (0 silenced).\n"
    assert "count_users" in str(seen["list"])
    assert "for_staff" not in str(seen["list"])
    assert str(seen["token"]).startswith("The server accepts no tokens that can be made here: it has a function, the ")
    assert seen["tools"] == [["count_users", "for_staff", "where"], ["count_users", "where"]]
    refused = [401, "Bearer", "Authentication credentials were not provided."]
    assert (seen["anonymous"], seen["wrong"], seen["right"]) == (refused, refused, 200)
    without_token, with_token = seen["session"]  # type: ignore[misc]
    assert (without_token[0], with_token) == (403, [200, None, None])
    assert "CSRF" in without_token[2]
    assert seen["metadata"] == 404
    assert str(seen["exposed"]).startswith("TypeError: ")
    assert "A plain function becomes a tool with @mcp.tool" in str(seen["exposed"])
    assert seen["ninja"] == {"user": "ada"}
    assert seen["imported"] == []


def check_what_a_client_sees(python: str, mode: str, revision: str, url: str) -> None:
    """Check what the official client sees."""
    calls = json.dumps([("where", {}), ("count_users", {})])
    done = subprocess.run([python, str(CLIENT), mode, url, "bob", calls], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["protocol_version"] == revision
    assert {"where", "count_users"} <= set(seen["tools"])
    assert "for_staff" not in seen["tools"]
    assert [each["text"] for each in seen["results"]] == ["bob", "2"]
