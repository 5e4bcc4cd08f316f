"""The public surface of Ferrule as text, so that a change of it shows in a review.

``scripts/surface.py`` prints it, ``--write`` stores it in ``tests/architecture/public_surface.txt`` and ``--check``
compares the two. The surface is every name in ``__all__`` of the modules below, with the parameters of what can be
called and the public members of classes. Annotations are left out: how Python prints them differs between versions.
"""

from __future__ import annotations

import ast
import difflib
import enum
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = (
    "ferrule",
    "ferrule.bridges",
    "ferrule.errors",
    "ferrule.forms",
    "ferrule.middleware",
    "ferrule.questions",
    "ferrule.types",
    "ferrule.testing",
)
SNAPSHOT = Path(__file__).resolve().parent.parent / "tests" / "architecture" / "public_surface.txt"


def _default(value: Any) -> str:
    """A default as it reads in source where that is stable, else an ellipsis."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(repr, value)))}}}"  # in one order, whatever the hashes of this process
    if value is None or isinstance(value, (bool, int, float, str, bytes, tuple)):
        return repr(value)
    if isinstance(value, type):
        return value.__name__
    return "..."


def _parameters(target: Callable[..., Any], *, skip_first: bool = False) -> str:
    """The parameters of a callable, without annotations; ``(...)`` when Python cannot tell."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for parameter in parameters
    ]
    shown: list[str] = []
    star_seen = slash_due = False
    for parameter, plain in zip(parameters, bare, strict=True):
        options = _options(target, parameter)
        if options:
            shown += [*(["/"] if slash_due else []), "*", *(f"{name}=..." for name in options)]
            slash_due = False
            continue
        if slash_due and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY:
            shown.append("/")
        slash_due = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star_seen:
            shown.append("*")
            star_seen = True
        star_seen = star_seen or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        default = "" if parameter.default is inspect.Parameter.empty else f"={_default(parameter.default)}"
        shown.append(f"{plain}{default}")
    if slash_due:
        shown.append("/")
    return f"({', '.join(shown)})"


def _options(target: Callable[..., Any], parameter: inspect.Parameter) -> list[str]:
    """The names in ``**options: Unpack[SomeTypedDict]``; nothing for any other parameter."""
    written = str(parameter.annotation)
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD or not written.startswith("Unpack["):
        return []
    return _keys(sys.modules[target.__module__], written[len("Unpack[") : -1])


def _keys(module: ModuleType, name: str) -> list[str]:
    """The keys of a `TypedDict` that a module defines, be it for type checkers only, or that stands in ``keywords``."""
    known = vars(module).get(name)
    if known is None and module.__package__ == "ferrule.app.components":
        known = vars(importlib.import_module("ferrule.app.components.keywords")).get(name)
    if known is not None:
        return list(known.__annotations__)
    found = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ClassDef)]
    body = [line for node in found if node.name == name for line in node.body]
    return [ast.unparse(line.target) for line in body if isinstance(line, ast.AnnAssign)]


def _members(cls: type) -> Iterator[str]:
    """Public members that the class or a base of ours defines."""
    names = {
        name: base
        for base in reversed(cls.__mro__)
        if base.__module__.split(".")[0] == "ferrule"
        for name in vars(base)
        if not name.startswith("_")
    }
    for name in sorted(names):
        value = vars(names[name])[name]
        if isinstance(value, staticmethod):
            yield f"{name}{_parameters(value.__func__)}"
        elif isinstance(value, classmethod):
            yield f"{name}{_parameters(value.__func__, skip_first=True)}"
        elif inspect.isfunction(value):
            prefix = "async " if inspect.iscoroutinefunction(inspect.unwrap(value)) else ""
            yield f"{prefix}{name}{_parameters(value, skip_first=True)}"
        else:
            yield name


def _entry(qualified: str, value: Any) -> Iterator[str]:
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield f"{qualified}: {', '.join(member.name for member in value)}"
    elif isinstance(value, type):
        yield f"{qualified}{_parameters(value)}"
        for member in _members(value):
            yield f"    .{member}"
    elif inspect.isfunction(value):
        prefix = "async " if inspect.iscoroutinefunction(inspect.unwrap(value)) else ""
        yield f"{prefix}{qualified}{_parameters(value)}"
    else:
        yield qualified


def surface() -> str:
    """The whole surface, one name or member a line."""
    lines: list[str] = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(getattr(module, "__all__", ())):
            lines += _entry(f"{module_name}.{name}", getattr(module, name))
    return "\n".join(lines) + "\n"


def difference() -> str:
    """A unified diff from the stored surface to the present one; empty when they agree."""
    stored = SNAPSHOT.read_text(encoding="utf-8") if SNAPSHOT.exists() else ""
    return "".join(
        difflib.unified_diff(
            stored.splitlines(keepends=True), surface().splitlines(keepends=True), "stored surface", "present surface"
        )
    )


def main(arguments: list[str]) -> int:
    """Print, write or check, by the command line."""
    if arguments == ["--write"]:
        SNAPSHOT.write_text(surface(), encoding="utf-8")
    elif arguments == ["--check"]:
        if changed := difference():
            print(changed)
            print(
                "The public surface changed. If that is meant: scripts/surface.py --write, and a fragment in changes/."
            )
            return 1
    elif not arguments:
        print(surface(), end="")
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
