"""The tests of the other modules with each supported version of Django."""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path

import django
import pytest

from tests.conftest import ROOT
from tests.host_processes import program_environment

FOLDER = Path(__file__).parents[1]
FILES = sorted(path for place in (".", "access", "exposing") for path in FOLDER.glob(f"{place}/test_*.py"))


OWN_VERSION = ".".join(map(str, django.VERSION[:2]))


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(2900)  # 400 tests, at most twice, beside other work
@pytest.mark.filterwarnings("default:Django .* signal:UserWarning")
@pytest.mark.parametrize("version", ["4.2", "5.2", "6.0"])
def test_each_version_of_django_does_the_same(version: str) -> None:
    if version == OWN_VERSION:
        pytest.skip(f"these tests run with Django {version} themselves")
    cache = Path(os.environ.get("FERRULE_CACHE", ROOT / ".cache"))
    python = cache / f"django-{version}" / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        reason = os.environ.get("FERRULE_NO_DJANGO_6_0") if version == "6.0" else None
        if os.environ.get("FERRULE_REQUIRE_PEERS") and reason is None:
            pytest.fail(f"no environment {python.parent.parent.name}, though scripts/test installs it")
        pytest.skip(reason or f"no environment {python.parent.parent.name} (scripts/test installs it)")
    done = run(python)
    if done.returncode < 0:
        # No code of Ferrule ends an interpreter by a signal: a package in C did, and not because of one test.
        warnings.warn(f"Django {version}: signal {-done.returncode}, run again:\n{done.stderr[:4000]}", stacklevel=1)
        done = run(python)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[:4000]
    assert "passed" in done.stdout.strip().splitlines()[-1]


def run(python: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests with an interpreter."""
    return subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not peer and not slow", *map(str, FILES)],
        cwd=ROOT,
        env={**program_environment(), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=1400,
    )
