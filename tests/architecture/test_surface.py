"""The public surface is a file in the repository, so that every change of it is seen and meant."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ferrule


def test_the_public_surface_is_the_stored_one(project_root: Path) -> None:
    """A renamed parameter breaks callers as surely as a removed function."""
    done = subprocess.run(
        [sys.executable, str(project_root / "scripts" / "surface.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def undocumented(names: list[str]) -> Iterator[str]:
    """Return public names, and public methods of public classes, without a docstring."""
    for name in names:
        value = getattr(ferrule, name)
        if inspect.ismodule(value) or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not inspect.getdoc(value):
            yield name
        if inspect.isclass(value):
            for member, function in inspect.getmembers(
                value, lambda part: inspect.isfunction(part) or inspect.ismethod(part)
            ):
                ours = function.__module__.startswith("ferrule")
                if ours and not member.startswith("_") and not inspect.getdoc(function):
                    yield f"{name}.{member}"


def test_every_public_name_is_documented() -> None:
    """An editor shows the docstring where the name is typed; that is where people read."""
    assert list(undocumented(ferrule.__all__)) == []
