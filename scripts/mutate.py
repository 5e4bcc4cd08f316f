"""Mutation testing of a random sample: ``scripts/mutate.py FOLDER [--count N] [--seed S]``.

cosmic-ray makes the mutants: one small change of the source each, such as ``<`` for ``<=``. This script draws ``N`` of
them from the modules of a folder, tries each against the folder's own tests in a copy of the tree, and prints the
*survivors*: changes that no test noticed. The test file of the mutated module runs first, the folder only if that
passes.

Left out are changes that cannot be noticed: in annotations (which are never evaluated), in imports for type checkers,
and in ``__all__``.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Only `scripts/mutate` installs cosmic-ray.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportPrivateUsage=false
from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import MutationSpec, TestOutcome

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "examples", "docs", "scripts", "conformance", "pyproject.toml")
LONG_S = 300


def unnoticeable_lines(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield (start, end) of what is never evaluated, or only by type checkers; each a pair of line and column."""
    for node in ast.walk(tree):
        parts: list[Any] = []
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            parts.append(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts.append(node.returns)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts.append(node)
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def sample_of(folder: Path, count: int, draw: random.Random) -> list[MutationSpec]:
    """Return ``count`` mutants of the modules below a folder, or all if there are fewer."""
    modules = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    left_out = {path: list(unnoticeable_lines(ast.parse(path.read_text(encoding="utf-8")))) for path in modules}
    found = [
        mutation
        for item in _all_work_items(modules, {})
        for mutation in item.mutations
        if not any(start <= mutation.start_pos < end for start, end in left_out[mutation.module_path])
    ]
    return draw.sample(found, min(count, len(found)))


def tests_of(module: Path, root: Path, folder: str) -> list[Path]:
    """Return what to run for a module, first its own test file and then the folder's tests, as far as they exist."""
    inner = module.relative_to(root / "src" / "ferrule")
    own = root / "tests" / inner.parent / f"test_{inner.stem.lstrip('_')}.py"
    return [path for path in (own, root / "tests" / folder) if path.exists()]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="Mutation testing of a random sample.")
    parser.add_argument("folder", help="below src/ferrule, such as wire or app/rounds")
    parser.add_argument("--count", type=int, default=60, help="how many mutants (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the random sample (1)")
    options = parser.parse_args()
    survivors = tried = 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        root = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
            else:
                shutil.copy(source, root / name)
        os.chdir(root)
        os.environ["PYTHONPATH"] = str(root / "src")
        command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider -m 'not slow and not peer'"
        outcome, output = run_tests(f"{command} tests/{options.folder}", LONG_S)
        if outcome is not TestOutcome.SURVIVED:
            print(f"The tests fail without any change:\n{output[-2000:]}")
            return 1
        draw = random.Random(options.seed)
        for mutation in sample_of(root / "src" / "ferrule" / options.folder, options.count, draw):
            tried += 1
            for tests in tests_of(Path(mutation.module_path), root, options.folder):
                result = mutate_and_test([mutation], f"{command} {tests}", LONG_S)
                if result.is_killed:
                    break
            else:
                survivors += 1
                print("\n".join((result.diff or "").split("\n")[1:]).replace(f"{root}/", ""), flush=True)
            print(f"{tried} tried, {survivors} survived", file=sys.stderr, flush=True)
    print(f"{options.folder}: {tried} mutants, {survivors} survived, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
