"""A kind of import contract that import-linter does not have: only public names of other parts of the package.

import-linter judges which module imports which. This contract also judges *what* is imported: a name counts as public
when neither it nor a part of its module's path begins with an underscore, and when the module lists it in ``__all__``.
``pyproject.toml`` registers it as the type ``public_names``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

SOURCE = Path(__file__).resolve().parent.parent / "src"


def path_of(module: str, source: Path = SOURCE) -> Path:
    """Return the file of a module of the package below ``source``; it need not exist."""
    path = source.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def exported_by(path: Path) -> frozenset[str] | None:
    """Return the names that a module lists in ``__all__``, or ``None`` if it lists none as text."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, (ast.Assign, ast.AnnAssign))
            try:
                return frozenset(ast.literal_eval(node.value))  # type: ignore[arg-type]
            except (TypeError, ValueError):
                return None  # computed from a table, which only running the module could tell
    return None


def private_names(module: str, own: str, source: Path = SOURCE) -> Iterator[tuple[int, str]]:
    """Yield (line, what is wrong) for each import of a private name of another part of the package.

    Args:
        module: dotted name of the module to look at.
        own: the part whose private names the module may use, such as ``ferrule.extensions``.
        source: folder that holds the package.
    """
    package = module.partition(".")[0]
    for node in ast.walk(ast.parse(path_of(module, source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            imported = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for other, name in imported:
            if other.partition(".")[0] != package or other == own or other.startswith(f"{own}."):
                continue
            if any(part.startswith("_") and not part.endswith("__") for part in other.split(".")):
                yield node.lineno, f"{other} is a private module"
            elif name is None or path_of(f"{other}.{name}", source).is_file():
                if name is not None and name.startswith("_"):
                    yield node.lineno, f"{other}.{name} is a private module"
            elif name.startswith("_") and not name.endswith("__"):
                yield node.lineno, f"{other}.{name} is a private name"
            elif (exported := exported_by(path_of(other, source))) is not None and name not in exported:
                yield node.lineno, f"{name} is not in __all__ of {other}"


class PublicNamesContract(Contract):
    """Modules of the given parts import only public names from the rest of the package, in annotations too.

    Configuration options:
        parts: packages that are held to this, each free to use its own private names.
    """

    type_name = "public_names"

    parts = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the judgement, with each breach as text."""
        breaches: list[str] = []
        parts: Any = self.parts
        for part in parts:
            for module in sorted({part, *graph.find_descendants(part)}):
                breaches += [f"{module}:{line}: {problem}" for line, problem in private_names(module, part)]
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each breach on a line."""
        for breach in check.metadata["breaches"]:
            output.print_error(breach)
