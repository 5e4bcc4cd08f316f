"""The root package: lazy, complete and honest about what it exports."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ferrule
import ferrule.errors

LAZY = [ferrule, ferrule.errors]


@pytest.mark.parametrize("package", LAZY)
def test_every_name_leads_to_the_object_of_its_module(package: Any) -> None:
    """A table of names is a second truth; this holds it to the first."""
    for name, module in package._MODULES.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)


def test_all_is_the_table() -> None:
    """`from ferrule import *` and the documentation see the same names as `getattr`."""
    assert set(ferrule.__all__) == {*ferrule._MODULES, *ferrule._SUBMODULES, "__version__"}
    assert list(ferrule.__all__) == sorted(ferrule.__all__)
    assert list(ferrule.errors.__all__) == sorted(ferrule.errors._MODULES)


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_what_runtime_serves(package: Any) -> None:
    """The imports under TYPE_CHECKING name each table entry once, from the same module."""
    tree = ast.parse(Path(inspect.getsourcefile(package) or "").read_text(encoding="utf-8"))
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
    submodules = getattr(package, "_SUBMODULES", ())
    assert {name: module for name, module in seen.items() if module != "ferrule"} == package._MODULES
    assert {name for name, module in seen.items() if module == "ferrule"} == set(submodules)


@pytest.mark.parametrize("package", LAZY)
def test_dir_shows_the_names_before_they_are_loaded(package: Any) -> None:
    """Completion in a shell must not depend on what was used already."""
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("package", LAZY)
def test_an_unknown_name_is_an_attribute_error(package: Any) -> None:
    """`hasattr` and `from ferrule import Typo` rely on it."""
    with pytest.raises(AttributeError, match="no attribute 'Typo'"):
        _ = package.Typo


def test_every_error_class_is_among_the_errors() -> None:
    """`except ferrule.errors.…` must not need the depths of the tree."""
    deep = ["ferrule.protocol.errors", "ferrule.client.errors", "ferrule.app.errors", "ferrule.app.rounds.errors"]
    missing = [
        f"{module}.{name}"
        for module in deep
        for name in importlib.import_module(module).__all__
        if inspect.isclass(getattr(importlib.import_module(module), name))
        and getattr(ferrule.errors, name, None) is not getattr(importlib.import_module(module), name)
    ]
    assert missing == []


@pytest.mark.parametrize(("old", "new"), ferrule.errors._RENAMED.items())
def test_the_old_name_of_an_error_warns_and_is_the_same_class(old: str, new: str) -> None:
    """`except ferrule.errors.Divergence` of programs for 0.1 works for one more release."""
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(ferrule.errors, old) is getattr(ferrule.errors, new)


def test_errors_load_no_part_of_the_library_before_one_is_named() -> None:
    """A program that catches a client's error does not pay for the server."""
    statement = "import sys, ferrule.errors; print(sorted(m for m in sys.modules if m.startswith('ferrule.')))"
    done = subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['ferrule._version', 'ferrule.errors']"


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
