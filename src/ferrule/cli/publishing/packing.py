"""Chooses the files of a bundle.

Of a project those are chosen that a wheel would be built of: what git tracks, or without git all files but hidden ones,
and of these the packages and what a build reads. Of a file alone it is the file. ``include`` adds further ones.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ferrule.cli.exits import EXIT_FAILED, EXIT_USAGE, Quit
from ferrule.cli.publishing.projects import ServerProject
from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["MAX_BYTES", "MAX_FILES", "check_size", "choose_files"]

MAX_BYTES: Final = 50 * 1024 * 1024
MAX_FILES: Final = 5_000
_GIT_S: Final = 60.0

# At the root of a project whose files are not in a package.
_NOT_SERVED: Final = frozenset(
    {"tests", "test", "docs", "doc", "examples", "bench", "benchmarks", "build", "dist", "site", "venv", "env"}
)
_NEVER_FOLDERS: Final = frozenset({"__pycache__", "node_modules"})
_NEVER_FILES: Final = ("*.pyc", "*.pyo", "*.mcpb", "*.log", "*.egg-info", "*~", "*.swp")
_BUILD_FILES: Final = (
    "pyproject.toml", "uv.lock", ".python-version", "README*", "LICENSE*", "LICENCE*", "COPYING*", "NOTICE*",
    "AUTHORS*", "setup.py", "setup.cfg", "MANIFEST.in", "hatch_build.py",
)  # fmt: skip


def choose_files(project: ServerProject, include: Iterable[str] = ()) -> dict[str, Path]:
    """Return the files of a bundle: path in the bundle, with slashes, to the file; in the order of the paths.

    Args:
        project: the project; its option ``include`` counts, too.
        include: patterns of further files, relative to the root: ``data/*.csv``, ``data/**/*``, ``icon.png``.

    Raises:
        Quit: git does not track the server, a link leads out of the project, a name is none on every system, a pattern
            matches nothing, or the files are too many or too large.
    """
    own = [project.file] if project.is_single else _of_project(project)
    more: list[str] = []
    for pattern in [*project.options.get("include", ()), *include]:
        found = [path for path in _matching(project.root, str(pattern)) if not _is_never(path)]
        if not found:
            raise Quit(EXIT_USAGE, f"no file in {project.root} matches {str(pattern)!r}, or none that may be packed")
        more += found
    chosen = sorted({*own, *more})
    _check_names(chosen)
    root = project.root.resolve()
    outside = [path for path in chosen if not (root / path).resolve().is_relative_to(root)]
    if outside:
        raise Quit(EXIT_FAILED, f"{outside[0]} is a link to a place outside of the project")
    files = {path: root / path for path in chosen if (root / path).is_file()}
    check_size({path: file.stat().st_size for path, file in files.items()})
    return files


def check_size(sizes: Mapping[str, int]) -> None:
    """Refuse too many or too large files.

    Args:
        sizes: path to bytes.

    Raises:
        Quit: there are more than `MAX_FILES`, or they have together more than `MAX_BYTES`.
    """
    if len(sizes) > MAX_FILES:
        raise Quit(EXIT_FAILED, f"{len(sizes)} files are too many for a bundle: {MAX_FILES} at most")
    total = sum(sizes.values())
    if total > MAX_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise Quit(
            EXIT_FAILED,
            f"the files have {total / 1e6:.0f} MB, and {MAX_BYTES / 1e6:.0f} MB at most are packed; the largest is "
            f"{largest} ({sizes[largest] / 1e6:.0f} MB)",
        )


# -- which files -------------------------------------------------------------------------------------------------------


def _of_project(project: ServerProject) -> list[str]:
    tracked = _tracked(project.root)
    for path in (project.file, "pyproject.toml"):
        if tracked is not None and path not in tracked:
            raise Quit(EXIT_FAILED, f"git does not track {path}, so it is not packed: git add {path}")
    found = _walk(project.root) if tracked is None else tracked
    environments = tuple(f"{path.removesuffix('pyvenv.cfg')}" for path in tracked or () if path.endswith("/pyvenv.cfg"))
    candidates = [path for path in found if not _is_never(path) and not path.startswith(environments)]
    packages = _packages(project)
    build = {*_BUILD_FILES, *_named_files(project)}
    chosen: list[str] = []
    for path in candidates:
        first, *rest = PurePosixPath(path).parts
        is_root_file = not rest
        if path == project.file or (any(fnmatchcase(path, pattern) for pattern in build) and is_root_file):
            chosen.append(path)
        elif first.startswith("."):
            continue
        elif packages is None:
            if is_root_file or first not in _NOT_SERVED:
                chosen.append(path)
        elif (
            any(path.startswith(f"{package}/") for package in packages)
            or (is_root_file and path.endswith(".py"))
            or path in build
        ):
            chosen.append(path)
    return chosen


def _packages(project: ServerProject) -> list[str] | None:
    """Return the folders with the packages of a project; ``None`` for modules at its root."""
    hatch: Any = project.tool.get("hatch")
    for key in ("build", "targets", "wheel", "packages"):
        hatch = hatch.get(key) if is_mapping(hatch) else None
    if is_list(hatch) and hatch:
        return [str(each).strip("/").removeprefix("./") for each in hatch]
    if (project.root / "src").is_dir():
        return ["src"]
    name = str(project.project.get("name") or "").lower().replace("-", "_").replace(".", "_")
    return [name] if name and (project.root / name / "__init__.py").is_file() else None


def _named_files(project: ServerProject) -> set[str]:
    """Return the files that ``[project]`` names, which a build reads."""
    readme: Any = project.project.get("readme")
    licence: Any = project.project.get("license")
    files: list[Any] = [readme.get("file") if is_mapping(readme) else readme]
    files += [licence.get("file") if is_mapping(licence) else None]
    more: Any = project.project.get("license-files")
    files += more if is_list(more) else []
    return {each for each in files if isinstance(each, str)}


def _tracked(root: Path) -> list[str] | None:
    """Return the files that git tracks; ``None`` without git, or outside of a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--", "."], capture_output=True, timeout=_GIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name and (root / os.fsdecode(name)).exists()]


def _walk(root: Path) -> Iterator[str]:
    for folder, names, files in os.walk(root):
        # A folder with pyvenv.cfg is an environment, whatever its name is.
        names[:] = sorted(
            name for name in names if not _is_never(f"{name}/") and not (Path(folder) / name / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = (Path(folder) / name).relative_to(root).as_posix()
            if not name.startswith(".") or path == ".python-version":
                yield path


def _is_never(path: str) -> bool:
    """Return whether a path is never packed: of caches, of git, hidden folders, and files with variables."""
    parts = PurePosixPath(path).parts
    folders = parts if path.endswith("/") else parts[:-1]
    if any(part.startswith(".") or part in _NEVER_FOLDERS or part.endswith(".egg-info") for part in folders):
        return True
    name = parts[-1].lower()
    return name.startswith((".env", ".git")) or any(fnmatchcase(name, pattern) for pattern in _NEVER_FILES)


def _matching(root: Path, pattern: str) -> list[str]:
    if pattern.startswith(("/", "~")) or ".." in PurePosixPath(pattern).parts:
        raise Quit(EXIT_USAGE, f"{pattern!r} leads out of the project: patterns are relative to {root}")
    found = (root / pattern,) if (root / pattern).is_file() else root.glob(pattern)
    return sorted(path.relative_to(root).as_posix() for path in found if path.is_file())


def _check_names(paths: Collection[str]) -> None:
    for path in paths:
        if re.search(r'[\\:*?"<>|\x00-\x1f]|[ .](/|$)', path):
            raise Quit(
                EXIT_FAILED, f"{path!r} cannot be the name of a file on Windows, where bundles are installed, too"
            )
    seen: dict[str, str] = {}
    for path in paths:
        if (other := seen.setdefault(path.casefold(), path)) != path:
            raise Quit(EXIT_FAILED, f"{other!r} and {path!r} are one file on macOS and Windows")
