"""FastAPI programs that others published, exposed whole; one of them called by the official client in both eras."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, peer_program
from tests.processes import free_port, wait_until_served

PROGRAMS = Path(__file__).with_name("exposed_programs.py")
CALLS = Path(__file__).with_name("mcp_calls_script.py")

pytestmark = [pytest.mark.peer, pytest.mark.slow]


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of the environment that has the programs."""
    return peer_program("fastapi-programs")


def environment(tmp_path: Path) -> dict[str, str]:
    """Ours in the place of an installed one, and no configuration of the user's for the programs."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}


def test_their_descriptions_are_converted_whole(python: str, tmp_path: Path) -> None:
    """Every operation is a tool whose schema is valid, and none was left out or simplified."""
    done = subprocess.run(
        [python, str(PROGRAMS), "convert"], capture_output=True, text=True, timeout=200, env=environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: facts["described"] for name, facts in found.items()} == {"optimade": 8, "rq": 19}
    for facts in found.values():
        assert facts["described"] == facts["converted"] == facts["tools"]
        assert facts["skipped"] == []
        assert not any("simplified" in note for note in facts["notes"])
        assert facts["largest"] < 8000


@pytest.fixture(scope="module")
def url(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the first program, served as tools."""
    port = free_port()
    folder = tmp_path_factory.mktemp("optimade")
    with (folder / "log").open("wb") as stream:
        process = subprocess.Popen(
            [python, str(PROGRAMS), "serve", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=environment(folder),
        )
    try:
        wait_until_served(process, port, folder / "log")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


STRUCTURE = {"page_limit": 1, "response_fields": "nelements"}

CASES: list[tuple[str, dict[str, Any], bool, str]] = [
    ("get_info", {}, False, '"api_version"'),
    ("get_entry_info", {"entry": "structures"}, False, "structures"),
    ("get_entry_info", {"entry": "nothing"}, True, "404"),
    ("get_links", {"page_limit": 2}, False, '"links"'),
    ("get_versions", {}, False, "version"),
    ("get_references", {}, False, "dijkstra1968"),
    ("get_single_reference", {"entry_id": "dijkstra1968"}, False, "dijkstra1968"),
    ("get_structures", STRUCTURE, False, '"nelements":'),
    ("get_structures", {**STRUCTURE, "filter": "nelements=2"}, False, '"nelements":2'),
    ("get_structures", {"filter": "=bad"}, True, "400"),
    ("get_single_structure", {"entry_id": "mpf_1", "response_fields": "nelements"}, False, '"data"'),
]
"""Name, arguments, whether the program refuses, and a part of what the model reads."""


@pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_operations_are_called_by_the_official_client(url: str, peer_python: str, mode: str, revision: str) -> None:
    """Each of the eight operations, filters and refusals."""
    calls = json.dumps([(name, arguments) for name, arguments, _, _ in CASES])
    done = subprocess.run([peer_python, str(CALLS), mode, url, calls], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["protocol_version"] == revision
    assert set(seen["tools"]) == {name for name, *_ in CASES}
    for (name, arguments, is_refused, part), result in zip(CASES, seen["results"], strict=True):
        assert result["is_error"] is is_refused, (name, arguments, result["text"][:300])
        assert part in result["text"], (name, arguments, result["text"][:300])
