"""The tables of docs/topics/at-scale.md are what the simulation prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [[], ["scale"]], ids=["points", "scale"])
def test_the_page_has_the_tables_of_the_simulation(arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "bench" / "simulate.py"), *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert printed.count("|") > 20
    assert printed in (ROOT / "docs" / "topics" / "at-scale.md").read_text(encoding="utf-8")
