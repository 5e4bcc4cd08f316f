"""The tests beside this one, in environments with other versions: the newest, the lowest, and Connexion 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, peer_program

FOLDER = Path(__file__).parent


@pytest.mark.peer
@pytest.mark.parametrize(
    ("environment", "files"),
    [
        ("newest", ["test_routes.py", "test_extensions.py", "test_connexion.py"]),
        pytest.param(
            "newest",
            ["test_hosts.py::test_gunicorn_serves_by_greenlets_of_gevent"],
            marks=pytest.mark.skipif(sys.platform == "win32", reason="gunicorn needs fork()"),
        ),
        ("lowest", ["test_routes.py", "test_extensions.py", "test_connexion.py"]),
        ("connexion2", ["test_routes.py", "test_connexion.py"]),
    ],
)
def test_other_versions_do_the_same(environment: str, files: list[str]) -> None:
    python = peer_program(f"flask-{environment}")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(FOLDER / name) for name in files)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    summary = done.stdout.strip().splitlines()[-1]
    assert "passed" in summary
    assert ("skipped" in summary) == (environment == "connexion2"), done.stdout[-3000:]
