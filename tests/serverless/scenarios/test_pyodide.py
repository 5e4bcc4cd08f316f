"""Server and function in Pyodide (CPython for WebAssembly), as Cloudflare Workers and browsers run Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import cache_dir

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@pytest.fixture
def pyodide() -> Path:
    """The folder with the npm package, unpacked, and the packages for it in `site`."""
    folder = cache_dir() / "pyodide"
    if not (folder / "package" / "pyodide.mjs").is_file() or not (folder / "site" / "msgspec").is_dir():
        pytest.skip(
            os.environ.get("FERRULE_NO_PYODIDE")
            or "no Pyodide: scripts/test fetches it from npm, and msgspec for WebAssembly from the package index"
        )
    return folder


@pytest.mark.peer
@pytest.mark.slow
def test_both_eras_are_served_in_pyodide(pyodide: Path) -> None:
    """Without threads, sockets and a file system of the platform: modules that need one are not imported."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the path")
    command = [
        node,
        str(HERE / "pyodide_run.mjs"),
        str(pyodide / "package"),
        str(ROOT / "src"),
        str(pyodide / "site"),
        str(HERE / "pyodide_program.py"),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=250)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["platform"] == "emscripten"
    assert found["2026-07-28"] == found["2025-11-25"] == ["brass is liquid", "tin"]
