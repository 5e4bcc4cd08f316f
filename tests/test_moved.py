"""ferrule._moved: modules under their old names."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from ferrule._moved import MOVED


@pytest.mark.parametrize(
    "old_name", ["ferrule.transports.http_client", "ferrule.client.results", "ferrule.app.content"]
)
def test_an_old_name_warns_and_gives_the_same_module(old_name: str) -> None:
    """Programs of 0.1 go on, and learn where to look."""
    sys.modules.pop(old_name, None)
    with pytest.warns(DeprecationWarning, match=f"{old_name} is now {MOVED[old_name]}") as warned:
        module = import_module(old_name)
    assert module is import_module(MOVED[old_name])
    assert module.__name__ == MOVED[old_name]
    assert module.__spec__ is not None
    assert module.__spec__.name == MOVED[old_name]
    assert len(warned) == 1


def test_every_old_name_leads_to_a_module() -> None:
    """Otherwise a user would find an entry of the table whose target does not exist."""
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from importlib import import_module\n"
        "from ferrule._moved import MOVED\n"
        "for old, new in MOVED.items():\n"
        "    assert import_module(old) is import_module(new), old\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_warning_names_the_line_of_the_import() -> None:
    """And not one of Python's own import machinery, or of ours."""
    program = "import sys\n\nimport ferrule.transports.http_client\n"
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "<string>:3: DeprecationWarning: ferrule.transports.http_client is now" in done.stderr


def test_what_is_not_there_is_still_not_there() -> None:
    """Only names in the table are looked for."""
    with pytest.raises(ModuleNotFoundError):
        import_module("ferrule.transports.nothing")
