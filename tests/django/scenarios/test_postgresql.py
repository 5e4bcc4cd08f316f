"""The tests of exposed views in both eras, on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.host_processes import program_environment


@pytest.mark.slow
def test_exposed_views_do_the_same_on_postgresql(postgres_url: str) -> None:
    """A process can have one database for the models of the project."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/django/scenarios/test_eras.py"],
        cwd=ROOT,
        env={**program_environment(), "FERRULE_DJANGO_DATABASE": postgres_url},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "40 passed" in done.stdout.strip().splitlines()[-1]
