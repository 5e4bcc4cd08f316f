"""``ferrule snapshot``: a file that is the same for the same server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import PROBE, ferrule


def test_a_file_and_stdout_have_the_same(tmp_path: Path) -> None:
    """With a digest for each definition."""
    to = tmp_path / "tools.json"
    done = ferrule("snapshot", PROBE, "--to", str(to))
    assert done.returncode == 0, done.stderr
    assert "definitions" in done.stderr
    assert ferrule("snapshot", PROBE).stdout == to.read_text(encoding="utf-8")
    found = json.loads(to.read_text(encoding="utf-8"))
    assert found["server"] == {"name": "probe", "version": "3"}
    assert all(each["digest"].startswith("sha256:") for each in found["tools"].values())


def test_a_snapshot_can_be_checked(tmp_path: Path) -> None:
    """It stands for the server."""
    to = tmp_path / "tools.json"
    ferrule("snapshot", PROBE, "--to", str(to))
    assert json.loads(ferrule("check", str(to), "-o", "json").stdout)["server"]["name"] == "probe"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The sentence names the file."""
    done = ferrule("snapshot", PROBE, "--to", str(tmp_path / "no" / "x.json"))
    assert (done.returncode, "cannot write" in done.stderr) == (2, True)
