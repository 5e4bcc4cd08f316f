"""Mutation testing of a random sample: ``scripts/mutate.py FOLDER [--count N] [--seed S] [--only N,N] [--quick]``.

cosmic-ray makes the mutants: one small change of the source each, such as ``<`` for ``<=``. This script draws ``N`` of
them from the modules of a folder, tries each against the folder's own tests in a copy of the tree, and prints the
*survivors*: changes that no test noticed, each with its number in the sample. Each mutant is tried by the tests that
execute the changed statement, the fastest first (one run under coverage.py finds them), and by the test file of its
module, as a test may see what another one made a cache keep. What only imports execute is tried by the whole folder.

``scripts/mutate_survivors.toml`` lists survivors that no test should kill, each with the reason, by module and text of
the changed lines. They are tried like the others and printed in one line with their reason.

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
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Only `scripts/mutate` installs cosmic-ray.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportPrivateUsage=false
import cosmic_ray.plugins
import coverage
import pytest
from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import _make_diff, use_mutation
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "scripts" / "mutate_survivors.toml"
COPIED = ("src", "tests", "examples", "docs", "scripts", "conformance", "bench", "changes", "pyproject.toml")
FORK = multiprocessing.get_context("fork")

# The libraries are imported before pytest could rewrite their assertions, which it would warn of.
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
MARKED = ("-m", "not slow and not peer")
LONG_S = 0.5
FIRST_TESTS = 40
"""So many of the tests that execute the changed lines run before all others."""
PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
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


Lines = tuple[str, int, int]
"""A file, the first and the last line of a statement."""


def statement_of(mutation: MutationSpec, trees: Mapping[Path, ast.AST]) -> Lines:
    """Return the lines of the innermost statement that a mutant changes; of a compound statement only its head."""
    at, last = mutation.start_pos[0], mutation.end_pos[0]
    first = at
    for node in ast.walk(trees[mutation.module_path]):
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= at <= end:
                first, last = node.lineno, end
    return str(mutation.module_path), first, last


@dataclass
class Run:
    """What one run of pytest came to."""

    code: int | None = None
    """The exit code; None if the process crashed or did not end in time."""
    loaded: list[str] = field(default_factory=list)
    """The modules of others that the tests loaded."""
    durations: dict[str, float] = field(default_factory=dict)
    """How long each test took, in seconds."""
    tests: dict[Lines, list[str]] = field(default_factory=dict)
    """The tests that execute a statement, for each that was asked about."""


class _Observer:
    """A plugin of pytest that collects the durations of tests and, if asked, which statements each executes."""

    def __init__(self, coverage_of: coverage.Coverage | None) -> None:
        self.durations: dict[str, float] = {}
        self.coverage_of = coverage_of

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Called by pytest before each test."""
        if self.coverage_of is not None:
            self.coverage_of.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest with the result of each part of a test."""
        self.durations[report.nodeid] = self.durations.get(report.nodeid, 0) + report.duration


def _tests_of(statements: Sequence[Lines], recorded: coverage.CoverageData) -> dict[Lines, list[str]]:
    """Return which tests executed each of some statements."""
    by_file = {name: recorded.contexts_by_lineno(name) for name in recorded.measured_files()}
    return {
        (name, first, last): sorted(
            {test for line in range(first, last + 1) for test in by_file.get(name, {}).get(line, []) if test}
        )
        for name, first, last in statements
    }


def _child(arguments: list[str], output: Path, reports: Connection, statements: Sequence[Lines]) -> None:
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
    files = sorted({name for name, _, _ in statements})
    recorder = coverage.Coverage(data_file=None, config_file=False, include=files) if files else None
    observer = _Observer(recorder)
    with recorder.collect() if recorder else contextlib.nullcontext():
        code = pytest.main([*PYTEST, *arguments], plugins=[observer])
    loaded = sorted(name for name in sys.modules if name.split(".")[0] not in OURS)
    tests = _tests_of(statements, recorder.get_data()) if recorder else {}
    reports.send(Run(int(code), loaded, observer.durations, tests))


def run_tests(arguments: list[str], limit_s: float, output: Path, statements: Sequence[Lines] = ()) -> Run:
    """Run pytest in a process of its own, which ends with all that it started.

    Args:
        arguments: For pytest.
        limit_s: After so many seconds the process is killed.
        output: The file that gets what pytest prints.
        statements: Find out which tests execute these.
    """
    reports, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_child, args=(arguments, output, sender, statements))
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


@dataclass(frozen=True)
class Attempt:
    """One run of pytest against a mutant."""

    arguments: list[str]
    """For pytest."""
    limit_s: float
    """A longer run counts as a noticed change."""
    is_decisive: bool = True
    """Whether it may also notice that pytest refuses the arguments, as it does when a module cannot be imported."""


def survives(mutation: MutationSpec, attempts: Sequence[Attempt], output: Path) -> str | None:
    """Try one mutant; return the change as a unified diff if each attempt passes, None if it was noticed."""
    operator = cosmic_ray.plugins.get_operator(mutation.operator_name)(**mutation.operator_args)
    written = os.stat(mutation.module_path)
    try:
        with use_mutation(mutation.module_path, operator, mutation.occurrence) as (before, after):
            for attempt in attempts:
                code = run_tests(attempt.arguments, attempt.limit_s, output).code
                if code not in PASSED and (attempt.is_decisive or code != pytest.ExitCode.USAGE_ERROR):
                    return None
            return "\n".join(_make_diff(before, after, mutation.module_path)[3:])
    finally:
        # What Python compiled for the module holds for its time of writing.
        os.utime(mutation.module_path, ns=(written.st_atime_ns, written.st_mtime_ns))


@dataclass
class Explanations:
    """The explained survivors of ``scripts/mutate_survivors.toml``."""

    reasons: dict[tuple[str, str, str], str]
    """By module, text of the changed lines, and text after the change; without white space at the ends."""

    @classmethod
    def read(cls) -> Explanations:
        """Return what the file says."""
        entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["survivor"]
        return cls(
            {
                (entry["module"], entry["line"], mutant): entry["reason"]
                for entry in entries
                for mutant in entry["mutants"]
            }
        )

    def reason(self, module: str, change: str) -> str | None:
        """Return why a survivor, given as a unified diff, is right to survive, or None."""
        lines = change.splitlines()
        before, after = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
        return self.reasons.get((module, before, after))

    def outdated(self, folder: str) -> Iterator[str]:
        """Yield the explained lines of a folder that its source does not have any more."""
        for module, line in sorted({key[:2] for key in self.reasons}):
            if module.startswith(f"{folder}/"):
                path = ROOT / "src" / "ferrule" / module
                source = " ".join(path.read_text(encoding="utf-8").split()) if path.exists() else ""
                if " ".join(line.split()) not in source:
                    yield f"{module}: {line}"


class Trial:
    """The tests of a folder, and what one run of them without any change said."""

    def __init__(self, root: Path, folder: str, options: argparse.Namespace) -> None:
        self.root = root
        self.folder = root / "tests" / folder
        self.output = root / "output.txt"
        source = root / "src" / "ferrule" / folder
        self.sample = sample_of(source, options.count, random.Random(options.seed))
        paths = {mutation.module_path for mutation in self.sample}
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
        self.statements = [statement_of(mutation, trees) for mutation in self.sample]
        self.run = self._baseline()
        long = [name for name, duration in self.run.durations.items() if duration > LONG_S] if options.quick else []
        self.common = [*MARKED, *(f"--deselect={name}" for name in long)]
        self.limit_s = 20 + 3 * sum(self.run.durations.values())

    def _baseline(self) -> Run:
        """Load what the tests load, then run them with nothing changed; raise ``SystemExit`` if they fail."""
        arguments = [*MARKED, str(self.folder)]
        run = run_tests(arguments, 900, self.output)
        if run.code == 0:
            for name in run.loaded:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            run = run_tests(arguments, 900, self.output)
        if run.code != 0:
            text = self.output.read_text(encoding="utf-8")[-2000:]
            raise SystemExit(f"The tests fail without any change:\n{text}")
        # A test of counts or of times may fail under coverage.py; the others still say what they execute.
        run.tests = run_tests([*arguments, "--maxfail=1000"], 900, self.output, self.statements).tests
        return run

    def attempts(self, number: int) -> tuple[list[Attempt], bool]:
        """Return the runs of pytest for a mutant of the sample, and whether a test executes what it changes."""
        own = own_tests_of(Path(self.sample[number].module_path), self.root)
        place, durations = own.relative_to(self.root).as_posix(), self.run.durations
        executing = sorted(
            self.run.tests.get(self.statements[number], []),
            key=lambda name: (not name.startswith(place), durations.get(name, 0)),
        )
        attempts: list[Attempt] = []
        for names in (executing[:FIRST_TESTS], executing[FIRST_TESTS:]):
            if names:
                limit_s = 15 + 4 * sum(durations.get(name, 0) for name in names)
                attempts.append(Attempt([*self.common, *names], limit_s, is_decisive=False))
        if own.exists():
            attempts.append(Attempt([*self.common, str(own)], self.limit_s))
        if not executing:
            attempts.append(Attempt([*self.common, f"--ignore={own}", str(self.folder)], self.limit_s))
        return attempts, bool(executing)


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
    explanations = Explanations.read()
    survivors = explained = tried = 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as temporary:
        root = Path(temporary).resolve()
        copy_tree(root)
        trial = Trial(root, options.folder, options)
        began = time.monotonic()
        for number, mutation in enumerate(trial.sample, 1):
            if only and number not in only:
                continue
            tried += 1
            attempts, is_executed = trial.attempts(number - 1)
            change = survives(mutation, attempts, trial.output)
            if change is not None:
                survivors += 1
                module = Path(mutation.module_path).relative_to(root / "src" / "ferrule").as_posix()
                reason = explanations.reason(module, change)
                explained += reason is not None
                place = f"{number}: {module}, {mutation.definition_name}"
                place += "" if is_executed else ", executed at import or never"
                print(f"{place}\n{change}\n" if reason is None else f"{place}: explained, {reason}\n", flush=True)
            print(f"{tried} tried, {survivors} survived, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    for line in explanations.outdated(options.folder):
        print(f"explained, but not in the source: {line}")
    print(f"{options.folder}: {tried} mutants, {survivors} survived, {explained} explained, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
