"""``ferrule diff``: what changed, and an exit status for a build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import ferrule

OLD = """\
from ferrule import MCPServer
app = MCPServer("s", version="1")
@app.tool
def find(word: str, limit: int = 5) -> list[str]:
    '''Find.'''
    return []
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A snapshot of the old version."""
    (tmp_path / "s.py").write_text(OLD, encoding="utf-8")
    ferrule("snapshot", "s.py", "--to", "old.json", cwd=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (("", ""), 0, "no difference"),
        (("limit: int = 5", "limit: int"), 1, "tools/find#/inputSchema/required: argument: 'limit' is required now"),
        (("'''Find.'''", "'''Look for it.'''"), 0, "wording (1)\n  tools/find#/description: the description changed"),
        (("limit: int = 5", "limit: int = 5, more: bool = False"), 0, "compatible (1)"),
        (("def find", "def search"), 1, "tools/find: is gone"),
    ],
)
def test_what_changed(old: Path, change: tuple[str, str], status: int, words: str) -> None:
    """From a snapshot to the file."""
    (old / "s.py").write_text(OLD.replace(*change), encoding="utf-8")
    done = ferrule("diff", "old.json", "s.py", cwd=old)
    assert done.returncode == status, done.stdout + done.stderr
    assert words in done.stdout


def test_a_stricter_build_and_json(old: Path) -> None:
    """``--fail-on wording`` fails for any change."""
    (old / "s.py").write_text(OLD.replace("'''Find.'''", "'''Look for it.'''"), encoding="utf-8")
    assert ferrule("diff", "old.json", "s.py", "--fail-on", "wording", cwd=old).returncode == 1
    found = json.loads(ferrule("diff", "old.json", "s.py", "-o", "json", cwd=old).stdout)
    assert found["counts"] == {"breaking": 0, "compatible": 0, "wording": 1}
    assert found["changes"][0]["path"] == "/description"


def test_a_file_that_is_no_snapshot(old: Path) -> None:
    """Another format is named."""
    (old / "bad.json").write_text('{"ferruleSnapshot": 9}', encoding="utf-8")
    done = ferrule("diff", "bad.json", "s.py", cwd=old)
    assert (done.returncode, "format 9" in done.stderr) == (2, True)
