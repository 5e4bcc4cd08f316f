"""The tests of agent libraries in an environment with their newest versions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, peer_program

FOLDER = Path(__file__).parents[1] / "agents"


@pytest.mark.peer
def test_agent_libraries() -> None:
    """None of them is in the environment of the other tests; there each would be skipped."""
    python = peer_program("agent-libraries")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=", str(FOLDER)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "6 passed" in done.stdout.strip().splitlines()[-1]
