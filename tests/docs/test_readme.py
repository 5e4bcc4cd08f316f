"""The README's code is what a stranger tries first; it is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def python_blocks(project_root: Path) -> list[str]:
    """The README's Python examples, in order."""
    text = (project_root / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_server_and_the_client_work_together(python_blocks: list[str], tmp_path: Path) -> None:
    """Two blocks: the ten-line server, saved under the name that the README gives it, and the client that starts it."""
    server, client = python_blocks
    assert len([line for line in server.splitlines() if line.strip()]) <= 10
    (tmp_path / "calculator.py").write_text(server, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", client],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    revision, answer = done.stdout.split(maxsplit=1)
    assert revision == "2026-07-28"
    assert answer.strip() in ("42", "{'result': 42}")


def test_the_demo_shows_both_revisions_over_both_transports(examples_dir: Path) -> None:
    """`scripts/demo` is this program: one conversation in full and three that must answer the same."""
    command = [sys.executable, str(examples_dir / "demo.py")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=100)
    assert done.returncode == 0, done.stderr
    # The server of the HTTP half says where it serves; anything else would be a warning or a traceback.
    assert re.fullmatch(r"(Serving http://127\.0\.0\.1:\d+/mcp \(Ctrl-C ends it\)\nTry it: .*\n)?", done.stderr)
    for revision in ("2025-11-25", "2026-07-28"):
        for transport in ("stdio", "HTTP"):
            assert len(re.findall(rf"^{revision} over {transport}, ", done.stdout, flags=re.MULTILINE)) == 1
    assert done.stdout.count("the same 7 answers") == 3
    assert re.search(r"^ +[\d.]+ ms  add\(a=2, b=40\) +42$", done.stdout, flags=re.MULTILINE)
    assert "\x1b" not in done.stdout  # a pipe is not a terminal
    done = subprocess.run([*command, "--all"], capture_output=True, encoding="utf-8", timeout=100)
    assert len(re.findall(r"  add\(a=2, b=40\) +42$", done.stdout, flags=re.MULTILINE)) == 4


def test_the_two_commands_exist(project_root: Path) -> None:
    """The README names them; they must be there and start."""
    for name in ("demo", "test"):
        script = project_root / "scripts" / name
        assert os.access(script, os.X_OK)
        assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
