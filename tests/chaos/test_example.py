"""examples/scale: the steps of its page, run to the end."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="no workers there")
def test_the_example_prints_each_step(redis_url: str, examples_dir: Path) -> None:
    """A client and a worker are killed, the metal is ordered once, and the answer arrives."""
    command = [
        sys.executable,
        str(examples_dir / "scale" / "run.py"),
        f"{redis_url}?prefix=scale-{secrets.token_hex(6)}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "asked: How many rings?  answered: 3" in done.stdout
    assert "has got: 3 rings from the order of brass" in done.stdout
    assert "metal was ordered 1 time(s)" in done.stdout
