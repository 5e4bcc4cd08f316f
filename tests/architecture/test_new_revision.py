"""A new revision of the protocol costs one file, one line in the index, and the handler of what is new."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ferrule"
LAST = "from ferrule.wire.revisions.r2026_07_28 import REVISION as R2026_07_28\n"


@pytest.mark.parametrize(("exercise", "version"), [("new_revision", "2027_01_01"), ("result_variants", "2027_06_01")])
def test_a_new_revision_is_one_file_and_one_line_in_the_index(exercise: str, version: str, tmp_path: Path) -> None:
    """Tables that only look complete are found by adding to them: on a copy of the package, in both roles.

    The first revision has one new request, renamed fields (of structs and of bundles) and two notifications less; it
    also takes a method out of two sets, so that code which reads the set of another revision fails. The second one
    arranges tools and their results in another way (SEP-3279).
    """
    folder = Path(__file__).resolve().parent / exercise
    copy = tmp_path / "ferrule"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    revisions = copy / "wire" / "revisions"
    shutil.copy(folder / f"r{version}.py", revisions)
    index = revisions / "index.py"
    text = index.read_text(encoding="utf-8")
    assert text.count(LAST) == 1
    line = f"from ferrule.wire.revisions.r{version} import REVISION as R{version}\n"
    index.write_text(text.replace(LAST, LAST + line), encoding="utf-8")
    command = [sys.executable, str(folder / "exercise.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["done"]), done.stderr[-4000:]
