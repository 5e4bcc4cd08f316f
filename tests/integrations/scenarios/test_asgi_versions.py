"""The tests of ASGI frameworks in environments with their newest and with the lowest supported versions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, peer_program

FOLDER = Path(__file__).parents[1]
FASTAPI = FOLDER / "fastapi"


@pytest.mark.peer
@pytest.mark.parametrize(
    ("environment", "files"),
    [
        ("asgi-newest", [FOLDER / f"test_{name}.py" for name in ("starlette_api", "litestar", "quart", "blacksheep")]),
        ("asgi-lowest", [FOLDER / f"test_{name}.py" for name in ("litestar", "quart", "blacksheep")]),
        ("fastapi-lowest", [FOLDER / "test_starlette_api.py", *sorted(FASTAPI.glob("test_*.py"))]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_versions_do_the_same(environment: str, files: list[Path]) -> None:
    python = peer_program(environment)
    done = subprocess.run(
        # What old versions are warned of by what is newer than they are says nothing of ours.
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=", *map(str, files)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "passed" in done.stdout.strip().splitlines()[-1]
