"""The core does not know this distribution, and this one uses public names of the core."""

from __future__ import annotations

import ast
import tomllib
from importlib import import_module

from compat.tests.support import COMPAT

CORE = COMPAT.parent / "src" / "ferrule"
OWN = COMPAT / "src" / "ferrule_compat"


def test_nothing_in_the_core_imports_it() -> None:
    """Its names are those of another library; a plain install has none of it."""
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.partition(".")[0] in ("ferrule_compat", "mcp")], path


def test_it_imports_public_names_of_the_core() -> None:
    """What is in no `__all__`, or has an underscore, may change in any release."""
    seen = 0
    for path in OWN.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ferrule":
                module = node.module or ""
                assert "._" not in module, path
                offered = import_module(module).__all__
                for alias in node.names:
                    seen += 1
                    assert alias.name in offered, (path.name, module, alias.name)
    assert seen > 20


def test_it_is_a_distribution_of_its_own() -> None:
    """With Ferrule as its dependency; the core depends on none of it."""
    own = tomllib.loads((COMPAT / "pyproject.toml").read_text())["project"]
    core = tomllib.loads((COMPAT.parent / "pyproject.toml").read_text())
    assert own["dependencies"] == ["ferrule"]
    assert own["scripts"] == {"ferrule-compat": "ferrule_compat.runner:main"}
    assert not [each for each in core["project"]["dependencies"] if "compat" in each]
    assert core["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/ferrule"]
