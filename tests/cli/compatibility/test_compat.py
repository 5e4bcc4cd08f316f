"""``ferrule compat``: finds the other distribution, and otherwise says how to get it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.support import ferrule

RUNNER = """
import sys
print("ran", sys.argv[1:], "ferrule.cli" in sys.modules)
"""


def test_without_the_distribution_it_says_how_to_get_it(tmp_path: Path) -> None:
    """It is no part of Ferrule."""
    # A folder of this name hides an installed one and is no package with a module to run.
    done = ferrule("compat", "mcp-dice", PYTHONPATH=str(tmp_path), PYTHONNOUSERSITE="1")
    if done.returncode == 0:
        pytest.skip("ferrule-compat is installed here")
    assert done.returncode == 2
    assert "pip install ferrule-compat" in done.stderr
    assert "uvx --from PACKAGE --with ferrule-compat" in done.stderr


def test_the_command_and_its_options_are_passed_on(tmp_path: Path) -> None:
    """In place of this process: the server does not pay for the command line, and `--help` may be its own."""
    package = tmp_path / "ferrule_compat"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(RUNNER)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = ferrule("compat", "-m", "my_server", "--port", "1", "--dry-run", PYTHONPATH=path)
    assert done.stdout.strip() == "ran ['-m', 'my_server', '--port', '1', '--dry-run'] False"
    assert done.returncode == 0
