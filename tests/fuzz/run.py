"""Runs one target under Atheris (libFuzzer for Python): ``run.py TARGET CORPUS-FOLDER... [-OPTION=VALUE...]``.

Started by ``scripts/fuzz``. Coverage of our own modules guides the inputs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

atheris: Any = import_module("atheris")  # only `scripts/fuzz` installs it

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

with atheris.instrument_imports(include=["ferrule"]):
    from tests.fuzz.targets import TARGETS, silent


def main() -> None:
    """Fuzz until libFuzzer's own options say stop."""
    name, *arguments = sys.argv[1:]
    atheris.Setup([f"{sys.argv[0]} {name}", *arguments], TARGETS[name])
    with silent():
        atheris.Fuzz()


if __name__ == "__main__":
    main()
