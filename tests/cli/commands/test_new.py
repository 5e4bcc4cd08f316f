"""``ferrule new`` makes a project whose tests pass and can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.support import environment, ferrule


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    """The project's own tests."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project, capture_output=True, text=True, env=environment(), timeout=120, check=False,
    )  # fmt: skip


def test_a_new_project_works_and_its_tests_can_fail(tmp_path: Path) -> None:
    """The newcomer's path: made, called, tested, broken."""
    done = ferrule("new", "My Tools", cwd=tmp_path)
    assert (done.returncode, "next: cd 'My Tools' && ferrule call" in done.stdout + done.stderr) == (0, True)
    project = tmp_path / "My Tools"
    assert ferrule("call", "server.py", "add", "a=2", "b=40", cwd=project).stdout == "42\n"
    done = run_tests(project)
    assert done.returncode == 0, done.stdout
    source = project / "server.py"
    source.write_text(source.read_text().replace("return a + b", "return a - b"))
    assert run_tests(project).returncode == 1
    assert ferrule("new", "My Tools", cwd=tmp_path).returncode == 2  # nothing is overwritten
    assert "return a - b" in source.read_text()
