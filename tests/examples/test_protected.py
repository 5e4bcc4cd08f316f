"""examples/protected is run as it stands: it checks every step that it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_protected_example_walks_the_whole_flow(examples_dir: Path) -> None:
    """Refusal, discovery, registration, consent, step-up, storage, one refresh for fifty calls; no token is shown."""
    done = subprocess.run(
        [sys.executable, str(examples_dir / "protected" / "demo.py")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "every step was checked" in done.stdout
    assert done.stderr == ""
    assert "eyJ" not in done.stdout
