"""The root package: lazy, complete and honest about what it exports."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ferrule

ROOT_FILE = Path(inspect.getsourcefile(ferrule) or "")


def test_every_name_leads_to_the_object_of_its_module() -> None:
    """A table of names is a second truth; this holds it to the first."""
    for name, module in ferrule._MODULES.items():
        assert getattr(ferrule, name) is getattr(importlib.import_module(module), name)


def test_all_is_the_table() -> None:
    """`from ferrule import *` and the documentation see the same names as `getattr`."""
    assert set(ferrule.__all__) == {*ferrule._MODULES, *ferrule._SUBMODULES, "__version__"}
    assert list(ferrule.__all__) == sorted(ferrule.__all__)


def test_type_checkers_see_what_runtime_serves() -> None:
    """The imports under TYPE_CHECKING name each table entry once, from the same module."""
    tree = ast.parse(ROOT_FILE.read_text(encoding="utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    seen = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name: module for name, module in seen.items() if module != "ferrule"} == ferrule._MODULES
    assert {name for name, module in seen.items() if module == "ferrule"} == set(ferrule._SUBMODULES)


def test_dir_shows_the_names_before_they_are_loaded() -> None:
    """Completion in a shell must not depend on what was used already."""
    assert set(ferrule.__all__) <= set(dir(ferrule))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """`hasattr` and `from ferrule import Typo` rely on it."""
    with pytest.raises(AttributeError, match="no attribute 'Typo'"):
        _ = ferrule.Typo  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", ferrule._SUBMODULES)
def test_submodules_are_reachable_from_the_root(name: str) -> None:
    """`ferrule.types.Tool` works after `import ferrule` alone, in a fresh interpreter."""
    statement = f"import ferrule; print(ferrule.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == f"ferrule.{name}"


def test_the_version_is_the_distribution_version() -> None:
    """Two version numbers would disagree one day."""
    from importlib.metadata import version

    assert ferrule.__version__ == version("ferrule")
