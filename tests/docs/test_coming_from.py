"""The programs "before" and "after" of the pages for those who come from other libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "snippets" / "coming_from"


def run(python: str, name: str) -> list[str]:
    """What a program prints, line by line."""
    done = subprocess.run(
        [python, str(FOLDER / name)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "FASTMCP_SHOW_SERVER_BANNER": "false"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_after() -> None:
    """One body in both eras; middleware sees each round of the modern one."""
    assert run(sys.executable, "after.py") == [
        "1100",
        "1100",
        "['order', 'parts_count', 'sizes']",
        "['M', 'S']",
        "['order', 'order', 'order', 'sizes']",
    ]


def test_a_fastapi_application_after() -> None:
    """The tool that its page promises."""
    pytest.importorskip("fastapi")
    assert run(sys.executable, "fastapi_after.py") == ["['get_item']", "{'id': 3}"]


def test_before_with_mcp_2(peer_python: str) -> None:
    """With the official package that scripts/test installs."""
    came = run(peer_python, "mcp2_before.py")
    assert came[:3] == ["1100", "['order', 'sizes']", "{'result': ['M', 'S']}"]
    assert "no back-channel" in came[3]


@pytest.mark.parametrize(
    ("variable", "name", "first"),
    [
        ("FERRULE_PEER_FASTMCP_PYTHON", "fastmcp_before.py", ["1100", "['order', 'parts_count', 'sizes']"]),
        ("FERRULE_PEER_MCP1_PYTHON", "mcp1_before.py", ["1100"]),
        ("FERRULE_PEER_FASTAPI_MCP_PYTHON", "fastapi_mcp_before.py", ["['get_item']", "['{', '\"id\":', '3', '}']"]),
    ],
)
def test_before_with_the_others(variable: str, name: str, first: list[str]) -> None:
    """Where the variable names an interpreter that has the package."""
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f"{variable} names no interpreter")
    assert run(python, name)[: len(first)] == first


def test_after_from_openapi() -> None:
    """Nothing is exposed that was not chosen, and a refusal is told in the API's words."""
    assert run(sys.executable, "openapi_after.py") == [
        "['order']",
        "{'number': 1, 'item': 'nut'}",
        "The API answered 404 Not Found",
        "no order 2",
    ]


def test_before_from_openapi() -> None:
    """With fastmcp, where an environment has it: that of a variable, or the one of the measurements."""
    cache = Path(os.environ.get("FERRULE_CACHE", FOLDER.parents[2] / ".cache"))
    python = os.environ.get("FERRULE_PEER_FASTMCP_PYTHON") or str(cache / "peer-fastmcp" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip("fastmcp is not installed: FERRULE_PEER_FASTMCP_PYTHON, or scripts/bench")
    assert run(python, "fastmcp_openapi_before.py")[:2] == ["['order']", "{'number': 1, 'item': 'nut'}"]
