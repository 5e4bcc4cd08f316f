"""Mutation testing of a random sample: ``scripts/mutate.py FOLDER [--count N] [--seed S] [--only N,N] [--quick]``.

cosmic-ray makes the mutants: one small change of the source each, such as ``<`` for ``<=``. This script draws ``N`` of
them from the modules of a folder, tries each against the folder's own tests in a copy of the tree, and prints the
*survivors*: changes that no test noticed, each with its number in the sample. The test file of the mutated module runs
first, the folder only if that passes.

A process for each mutant is forked from one that has already imported pytest and every library that the tests use, and
nothing of this project: that saves most of the second which a start takes.

Left out are changes that no test of behaviour could notice: in annotations (which are never evaluated), in imports for
type checkers, and in how a class is stored and guarded (``slots``, ``gc``, ``frozen``), which type checkers look after.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Only `scripts/mutate` installs cosmic-ray.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportPrivateUsage=false
import cosmic_ray.plugins
import pytest
from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import _make_diff, use_mutation
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "examples", "docs", "scripts", "conformance", "bench", "changes", "pyproject.toml")
FORK = multiprocessing.get_context("fork")

# The libraries are imported before pytest could rewrite their assertions, which it would warn of.
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
MARKED = ("-m", "not slow and not peer")
LONG_S = 0.5
NO_TESTS = pytest.ExitCode.NO_TESTS_COLLECTED
STORAGE = ("slots", "gc", "frozen")
OURS = ("ferrule", "tests", "conftest", "scripts", "examples", "bench", "__mp_main__")


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
        elif isinstance(node, ast.keyword) and node.arg in STORAGE:
            parts.append(node.value)
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


def own_tests_of(module: Path, root: Path) -> Path:
    """Return the test file of a module, or its folder if the tests are several files; it need not exist."""
    inner = module.relative_to(root / "src" / "ferrule")
    folder = root / "tests" / inner.parent / inner.stem
    return folder if folder.is_dir() else folder.with_name(f"test_{inner.stem.strip('_')}.py")


@dataclass
class Run:
    """What one run of pytest came to."""

    code: int | None = None
    """The exit code; None if the process crashed or did not end in time."""
    loaded: list[str] = field(default_factory=list)
    """The modules of others that the tests loaded."""
    long: list[str] = field(default_factory=list)
    """The tests that took longer than ``LONG_S``."""


class _Durations:
    """A plugin of pytest that collects the names of long tests."""

    def __init__(self) -> None:
        self.long: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest with the result of each test."""
        if report.when == "call" and report.duration > LONG_S:
            self.long.append(report.nodeid)


def _child(arguments: list[str], output: Path, reports: Connection) -> None:
    """Run pytest in a forked process and report a ``Run``."""
    os.setsid()
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.dont_write_bytecode = True
    with contextlib.suppress(ImportError):
        from hypothesis import HealthCheck, Phase, settings

        # Without shrinking, which takes longer than finding, and without judging the speed of this machine.
        settings.register_profile(
            "mutation",
            phases=(Phase.explicit, Phase.generate),
            database=None,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
        settings.load_profile("mutation")
    durations = _Durations()
    code = pytest.main([*PYTEST, *arguments], plugins=[durations])
    loaded = sorted(name for name in sys.modules if name.split(".")[0] not in OURS)
    reports.send(Run(int(code), loaded, durations.long))


def run_tests(arguments: list[str], limit_s: float, output: Path) -> Run:
    """Run pytest in a process of its own, which ends with all that it started.

    Args:
        arguments: For pytest.
        limit_s: After so many seconds the process is killed.
        output: The file that gets what pytest prints.
    """
    reports, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_child, args=(arguments, output, sender))
    process.start()
    sender.close()
    try:
        return reports.recv() if reports.poll(limit_s) else Run()
    except EOFError:
        return Run()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()


def copy_tree(root: Path) -> None:
    """Copy what the tests need, and make it what Python imports, also in processes that tests start."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("node_modules", ".hypothesis"))
        else:
            shutil.copy(source, root / name)
    os.chdir(root)
    os.environ |= {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0] = [str(root / "src"), str(root)]


def survives(mutation: MutationSpec, runs: list[list[str]], limit_s: float, output: Path) -> str | None:
    """Try one mutant in runs of pytest, given by their arguments; return the change if each of them passes."""
    operator = cosmic_ray.plugins.get_operator(mutation.operator_name)(**mutation.operator_args)
    written = os.stat(mutation.module_path)
    try:
        with use_mutation(mutation.module_path, operator, mutation.occurrence) as (before, after):
            if any(run_tests(arguments, limit_s, output).code not in (0, NO_TESTS) for arguments in runs):
                return None
            return "\n".join(_make_diff(before, after, mutation.module_path)[3:])
    finally:
        # What Python compiled for the module holds for its time of writing.
        os.utime(mutation.module_path, ns=(written.st_atime_ns, written.st_mtime_ns))


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="Mutation testing of a random sample.")
    parser.add_argument("folder", help="below src/ferrule, such as wire or app/rounds")
    parser.add_argument("--count", type=int, default=60, help="how many mutants (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the random sample (1)")
    parser.add_argument("--only", default="", help="try only these of the sample: numbers with commas between them")
    parser.add_argument("--quick", action="store_true", help="leave out tests that take longer than half a second")
    options = parser.parse_args()
    only = {int(number) for number in options.only.split(",") if number}
    survivors = tried = 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as temporary:
        root = Path(temporary).resolve()
        copy_tree(root)
        folder, output = root / "tests" / options.folder, root / "output.txt"
        run = run_tests([*MARKED, str(folder)], 900, output)
        if run.code == 0:
            for name in run.loaded:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            began = time.monotonic()
            run = run_tests([*MARKED, str(folder)], 900, output)
        if run.code != 0:
            print(f"The tests fail without any change:\n{output.read_text(encoding='utf-8')[-2000:]}")
            return 1
        limit_s = 20 + 3 * (time.monotonic() - began)
        common = [*MARKED, *(f"--deselect={name}" for name in run.long if options.quick)]
        sample = sample_of(root / "src" / "ferrule" / options.folder, options.count, random.Random(options.seed))
        began = time.monotonic()
        for number, mutation in enumerate(sample, 1):
            if only and number not in only:
                continue
            tried += 1
            own = own_tests_of(Path(mutation.module_path), root)
            runs = [[*common, str(own)], [*common, f"--ignore={own}", str(folder)]]
            change = survives(mutation, runs if own.exists() else runs[1:], limit_s, output)
            if change is not None:
                survivors += 1
                module = Path(mutation.module_path).relative_to(root)
                print(f"{number}: {module}, {mutation.definition_name}\n{change}\n", flush=True)
            print(f"{tried} tried, {survivors} survived, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{options.folder}: {tried} mutants, {survivors} survived, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
