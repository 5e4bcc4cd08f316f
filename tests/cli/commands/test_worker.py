"""``ferrule worker``: what it refuses; what it does is tested with the engines (tests/integrations)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import ferrule

HEAD = "from ferrule import MCPServer\n"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("app = MCPServer('x')\n", "no tool with task="),
        ("app = MCPServer('x')\n@app.tool(task='optional')\ndef work() -> int:\n    return 1\n", "in memory"),
        ("from ferrule.kernel.server import Server\napp = Server('x')\n", "low-level"),
    ],
)
def test_a_program_without_work_for_a_worker_is_refused_with_the_reason(tmp_path: Path, program: str, why: str) -> None:
    """It would wait for ever."""
    file = tmp_path / "server.py"
    file.write_text(HEAD + program)
    done = ferrule("worker", str(file))
    assert done.returncode == 2
    assert why in done.stderr


def test_a_url_is_no_program() -> None:
    """A worker runs the functions themselves."""
    done = ferrule("worker", "http://127.0.0.1:1/mcp")
    assert done.returncode == 2
    assert "Python files" in done.stderr
