"""The test of a view that `examples/apps` has: it passes in a browser, and is skipped without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(**environment: str) -> str:
    """Return what pytest prints for the test."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "examples/apps/test_chart.py"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.stdout


def test_the_chart_is_tested_in_a_browser(chromium: str) -> None:
    """As the page says."""
    pytest.importorskip("playwright", reason="playwright is not installed (the dev group has it)")
    said = run(FERRULE_CHROMIUM=chromium, FERRULE_REQUIRE_BROWSER="1")
    assert "1 passed" in said, said
