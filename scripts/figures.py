"""Figures of the source tree that say whether a reader finds the way: ``scripts/figures.py [--check] [FOLDER]``.

Prints one table; ``--check``, a part of ``scripts/check``, exits with 1 when a figure that is a rule is above its bound
and lists the places. A bound above 0 is what there was when the rule came: lower it when the figure falls.
What is counted:

- modules per folder (``__init__`` not counted), and arrows back up: imports inside a folder against the order that puts
  what imports least lowest;
- circles of imports, with those that stand under ``TYPE_CHECKING``;
- ``getattr`` and ``hasattr`` with a literal name and no comment that gives the reason;
- parameters of constructors; class names used more than once; files that ask ``is_modern``;
- comment lines per line of code; codes of papers that a reader cannot open (``TA-8``);
- Python calls of one ``tools/call`` by transport and era (`frames.py`), for the installed package only.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Sized
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "ferrule"

MAX_MODULES = 15
MAX_PARAMETERS = 12
MAX_WIDE_CONSTRUCTORS = 0
MAX_LOOKUPS = 1
NAMED_BY_DJANGO = {"Meta", "Migration", "Command"}
"""Class names that Django looks for."""

WIDE_BY_DESIGN = frozenset({"MCPServer", "Client", "Gateway"})
"""The public constructors, whose parameters are the documented options."""
CODE = re.compile(r"\b[A-Z]{2}-\d{1,3}\b")
NO_CODE = re.compile(r"UTF-\d+|SH-\d|RS-\d|IP-\d|AES-\d+")


def modules_of(source: Path) -> dict[str, Path]:
    """Return dotted name → path of every module of the package in ``source``."""
    found: dict[str, Path] = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(tree: ast.AST, modules: Iterable[str]) -> set[str]:
    """Return the modules that a tree imports anywhere, under ``TYPE_CHECKING`` and in functions too."""
    known = set(modules)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found & known


def circles_of(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of more than one module that reach each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group: list[str] = []
            while True:
                other = stack.pop()
                on_stack.discard(other)
                group.append(other)
                if other == node:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def arrows_back(folder: str, edges: dict[str, set[str]]) -> int:
    """Return how many imports inside one folder point against the order that puts the most imported modules lowest."""
    members = {name for name in edges if name.rpartition(".")[0] == folder}
    inner = {name: edges[name] & members for name in members}
    order: list[str] = []
    left = set(members)
    while left:  # the module with the fewest imports of what is left comes next
        lowest = min(sorted(left), key=lambda name: (len(inner[name] & left - {name}), name))
        order.append(lowest)
        left.discard(lowest)
    place = {name: at for at, name in enumerate(order)}
    return sum(place[other] > place[name] for name in members for other in inner[name])


class Figures:
    """Everything that is counted, of one source folder."""

    def __init__(self, source: Path) -> None:
        self.modules = modules_of(source)
        self.texts = {name: path.read_text(encoding="utf-8") for name, path in self.modules.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        self.edges = {name: imports_of(tree, self.modules) - {name} for name, tree in self.trees.items()}

    def folders(self) -> dict[str, int]:
        """Return folder → modules in it."""
        found: dict[str, int] = defaultdict(int)
        for name, path in self.modules.items():
            if path.stem != "__init__":
                found[name.rpartition(".")[0]] += 1
        return dict(found)

    def circles(self) -> list[list[str]]:
        """Return circles of modules; a package's own ``__init__`` is left out, since it only names what is inside."""
        packages = {name for name, path in self.modules.items() if path.stem == "__init__"}
        return circles_of(
            {name: others - packages for name, others in self.edges.items() if name not in packages}
            | {name: set() for name in packages}
        )

    def lookups(self) -> list[str]:
        """Return the places of ``getattr`` and ``hasattr`` with a literal name and without a comment beside them."""
        found: list[str] = []
        for name, tree in self.trees.items():
            lines = self.texts[name].splitlines()
            found += [
                f"{name}:{node.lineno}"
                for node in ast.walk(tree)
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in ("getattr", "hasattr")
                    and len(node.args) > 1
                    and isinstance(node.args[1], ast.Constant)
                    and "#" not in lines[node.lineno - 1]
                    and not lines[node.lineno - 2].lstrip().startswith("#")
                )
            ]
        return found

    def constructors(self) -> list[tuple[int, str]]:
        """Return (parameters, class) of constructors above the bound, generated ones of dataclasses left out."""
        found: list[tuple[int, str]] = []
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and node.name not in WIDE_BY_DESIGN:
                    for inner in node.body:
                        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                            count = len(inner.args.args) - 1 + len(inner.args.kwonlyargs)
                            if count > MAX_PARAMETERS:
                                found.append((count, node.name))
        return sorted(found, reverse=True)

    def repeated_classes(self) -> dict[str, list[str]]:
        """Return public class names that are defined more than once, with their modules."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                    continue
                if node.name not in NAMED_BY_DJANGO:
                    found[node.name].append(name)
        return {name: places for name, places in found.items() if len(places) > 1}

    def era_judges(self) -> list[str]:
        """Return the modules that ask ``is_modern``."""
        return [name for name, text in self.texts.items() if re.search(r"\bis_modern\b", text)]

    def comment_share(self) -> tuple[int, int]:
        """Return (comment lines, lines of code)."""
        comments = code = 0
        for text in self.texts.values():
            kinds: dict[int, bool] = {}
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    kinds.setdefault(token.start[0], False)
                    comments += 1
                elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                    kinds[token.start[0]] = True
            code += sum(kinds.values())
        return comments, code

    def codes(self) -> list[str]:
        """Return the places of private codes."""
        return [
            f"{name}:{at}"
            for name, text in self.texts.items()
            for at, line in enumerate(text.splitlines(), 1)
            if any(not NO_CODE.match(found) for found in CODE.findall(line))
        ]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="Figures of the source tree.")
    parser.add_argument("source", nargs="?", type=Path, default=SOURCE)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a rule is broken")
    options = parser.parse_args()
    figures = Figures(options.source)
    folders = figures.folders()
    crowded = {name: count for name, count in folders.items() if count > MAX_MODULES}
    arrows = {name: count for name in folders if (count := arrows_back(name, figures.edges)) > 5}
    circles = figures.circles()
    large = [circle for circle in circles if len(circle) > 2]
    lookups = figures.lookups()
    wide = figures.constructors()
    repeated = figures.repeated_classes()
    comments, code = figures.comment_share()
    codes = figures.codes()
    rows: list[tuple[str, object, Sized | str, int | None]] = [
        (f"folders with more than {MAX_MODULES} modules", len(crowded), crowded, 0),
        ("folders with more than 5 arrows back up", len(arrows), arrows, 0),
        ("circles of more than two modules", len(large), large, 0),
        ("string look-ups without a reason", len(lookups), lookups, MAX_LOOKUPS),
        (f"constructors over {MAX_PARAMETERS} parameters", len(wide), wide, MAX_WIDE_CONSTRUCTORS),
        ("class names with two meanings", len(repeated), repeated, 0),
        ("modules that ask is_modern", len(figures.era_judges()), "", None),
        ("codes that a reader cannot open", len(codes), codes, 0),
        ("comment lines per 100 lines of code", round(100 * comments / code, 1), f"{comments} in {code}", None),
        ("modules, lines", len(figures.modules), str(sum(text.count("\n") for text in figures.texts.values())), None),
    ]
    if options.source == SOURCE and not options.check:
        from frames import frames  # imports the package, which the other figures only read

        rows += [(f"Python calls of a tools/call, {way}", calls, "", None) for way, calls in frames().items()]
    broken: list[str] = []
    for name, value, detail, bound in rows:
        print(f"{name:42} {value!s:>8} {'' if bound is None else f'of {bound}':>6}   {str(detail)[:120]}")
        if bound is not None and len(detail) > bound:
            broken.append(f"{name}: {len(detail)}, and {bound} may be:\n  {detail}")
    if options.check and broken:
        print("\nabove the bound:", *broken, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
