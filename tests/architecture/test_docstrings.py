"""Docstrings can be read where an editor shows them: alone, and without the line before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ferrule

SOURCE = Path(ferrule.__file__).parent
BARE = re.compile(r"^ +[a-z_]+(, [a-z_]+)*: of ", re.M)


def docstrings() -> Iterator[tuple[str, str]]:
    """Return each docstring of a class or function, with its place."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}: {node.name}", ast.get_docstring(node) or ""


def test_no_docstring_of_a_class_or_function_is_a_reference_to_its_module() -> None:
    """An editor shows the docstring of the name; "See the module." says nothing there."""
    assert [place for place, text in docstrings() if re.match(r"See the module\b", text)] == []


def test_every_described_argument_has_its_noun() -> None:
    """\"target: of the client" leaves open what it is of the client: its name, its URL or its type."""
    found = [f"{place}: {match[0].strip()}" for place, text in docstrings() for match in BARE.finditer(text)]
    assert found == []
