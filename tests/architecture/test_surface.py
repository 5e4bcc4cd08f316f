"""The public surface is a file in the repository, so that every change of it is seen and meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_public_surface_is_the_stored_one(project_root: Path) -> None:
    """A renamed parameter breaks callers as surely as a removed function."""
    done = subprocess.run(
        [sys.executable, str(project_root / "scripts" / "surface.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
