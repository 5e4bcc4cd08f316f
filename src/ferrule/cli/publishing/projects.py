"""Finds the project of a server and what its ``pyproject.toml`` says: or the block of a script (PEP 723), or neither.

A file that has a block belongs to no project, as for `uv run`: a project is then made of the block, and of the file
alone. So it is for a file without a ``pyproject.toml`` in a folder above it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final

import click

from ferrule import __version__
from ferrule.cli.hosts.edits import FormatError, quoted
from ferrule.cli.hosts.toml_text import parse as parse_toml
from ferrule.cli.projects import read_pyproject
from ferrule.cli.targets import split_path
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import Value

__all__ = [
    "OPTIONS",
    "ServerProject",
    "dependency_name",
    "generated_pyproject",
    "lowest_python",
    "project_name",
    "read_project",
    "slug",
]

OPTIONS: Final = ("server", "include", "not-secret", "icon", "author", "manifest")
"""The keys of ``[tool.ferrule.bundle]``."""

_BLOCK: Final = re.compile(r"(?m)^# /// script[ \t]*$\s(?P<content>(^#(| .*)$\s)+)^# ///[ \t]*$")
_USUAL_FILES: Final = ("server.py", "app.py", "main.py")
_NAME: Final = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_GENERIC: Final = frozenset({"server", "app", "main", "mcp", "__init__", "__main__"})


class ServerProject(Value, frozen=True, kw_only=True):
    """A server and the project around it.

    Attributes:
        root: the folder of ``pyproject.toml``; of the file for a file alone.
        file: the file of the server, relative to the root, with slashes.
        attribute: the server's name in the file; ``None`` for the usual ones.
        is_single: whether the file is alone.
        text: ``pyproject.toml``; the content of the file's block for a file alone.
        project: the table ``[project]``; the block's keys for a file alone.
        tool: the table ``[tool]``.
        is_built: whether the project is installed as a package (``[build-system]``).
    """

    root: Path
    file: str
    attribute: str | None
    is_single: bool
    text: str
    project: Mapping[str, Any]
    tool: Mapping[str, Any]
    is_built: bool

    @property
    def options(self) -> Mapping[str, Any]:
        """The table ``[tool.ferrule.bundle]``; empty without."""
        return _table(_table(self.tool, "ferrule"), "bundle")

    @property
    def dependencies(self) -> list[str]:
        """The requirements of the server, as they are written."""
        found: Any = self.project.get("dependencies")
        return [str(each) for each in found] if is_list(found) else []

    @property
    def sources(self) -> Mapping[str, Any]:
        """The table ``[tool.uv.sources]``, by normalized names; empty without."""
        return {slug(name): value for name, value in _table(_table(self.tool, "uv"), "sources").items()}


def read_project(target: str) -> ServerProject:
    """Return the project of a TARGET: a folder with ``pyproject.toml``, or a Python file, with ``:NAME`` or without.

    Raises:
        click.UsageError: there is no such file, no server in the folder, or the TOML is malformed.
    """
    path, attribute = split_path(target, Path.exists)
    if path is None:
        raise click.UsageError(f"There is no file or folder {target!r} in {Path.cwd()}")
    if path.is_dir():
        path, attribute = _server_of_folder(path, attribute)
    if path.suffix != ".py":
        raise click.UsageError(f"{path} is not a Python file: a bundle is made of a Python server or its project")
    path = path.resolve()
    block = _BLOCK.search(path.read_text(encoding="utf-8", errors="replace"))
    if block is not None:
        lines = block["content"].splitlines()
        return _single(path, attribute, "".join(f"{line.removeprefix('#').removeprefix(' ')}\n" for line in lines))
    for folder in path.parents:
        config = folder / "pyproject.toml"
        if config.is_file():
            text, parsed = _read_config(config)
            if is_mapping(parsed.get("project")):
                return _checked(
                    ServerProject(
                        root=folder,
                        file=path.relative_to(folder).as_posix(),
                        attribute=attribute,
                        is_single=False,
                        text=text,
                        project=_table(parsed, "project"),
                        tool=_table(parsed, "tool"),
                        is_built="build-system" in parsed,
                    )
                )
        if (folder / ".git").exists():
            break
    return _single(path, attribute, "")


def generated_pyproject(project: ServerProject, *, name: str, version: str, description: str, extra: list[str]) -> str:
    """Return the ``pyproject.toml`` of a file that is alone.

    Args:
        project: the file; the content of its block is taken over.
        name: the name of the project.
        version: its version.
        description: what the server is for.
        extra: further requirements.
    """
    block = project.text
    lines = ["[project]", f"name = {quoted(name)}", f"version = {quoted(version)}"]
    lines += [f"description = {quoted(description)}"]
    if "requires-python" not in project.project:
        lines.append(f"requires-python = {quoted(lowest_python())}")
    if "dependencies" not in project.project:
        lines.append(f"dependencies = [{', '.join(map(quoted, [f'ferrule>={__version__}', *extra]))}]")
    elif extra:
        raise click.UsageError("--with REQUIREMENT is for a file without a list of dependencies: add it to that list")
    return "\n".join([*lines, block]) if block else "\n".join([*lines, ""])


def lowest_python() -> str:
    """Return the versions of Python on which Ferrule runs."""
    try:
        return metadata("ferrule")["Requires-Python"] or ">=3.11"
    except PackageNotFoundError:  # a copy of the sources
        return ">=3.11"


def dependency_name(requirement: str) -> str:
    """Return the normalized name of the package that a requirement is about; empty if it names none."""
    found = _NAME.match(requirement)
    return "" if found is None else slug(found[1])


def slug(text: str) -> str:
    """Return a text as the normalized name of a package."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def project_name(project: ServerProject, server_name: str) -> str:
    """Return the name of a bundle: of the project; for a file alone of the file, if that says more than ``server``."""
    if not project.is_single:
        return str(project.project.get("name") or slug(server_name))
    stem = Path(project.file).stem
    return slug(server_name if stem in _GENERIC else stem) or "server"


def _server_of_folder(folder: Path, attribute: str | None) -> tuple[Path, str | None]:
    config = folder / "pyproject.toml"
    if not config.is_file():
        raise click.UsageError(f"{folder} has no pyproject.toml; name the file of the server")
    _, parsed = _read_config(config)
    named = _table(_table(_table(parsed, "tool"), "ferrule"), "bundle").get("server")
    if isinstance(named, str):
        file, _, own = named.partition(":")
        if not (folder / file).is_file():
            raise click.UsageError(f"{config}: tool.ferrule.bundle.server is {named!r}, and there is no such file")
        return folder / file, attribute or own or None
    package = slug(str(_table(parsed, "project").get("name") or "")).replace("-", "_")
    places = [folder, folder / "src" / package, folder / package] if package else [folder]
    found = next((place / name for place in places for name in _USUAL_FILES if (place / name).is_file()), None)
    if found is None:
        raise click.UsageError(
            f"{folder} has no server.py, app.py or main.py, nor its package: name the file of the server, here or as "
            '`server = "FILE:NAME"` in [tool.ferrule.bundle]'
        )
    return found, attribute


def _single(path: Path, attribute: str | None, block: str) -> ServerProject:
    parsed = _parsed(block, f"{path}: the block '# /// script'")
    project: dict[str, Any] = {key: parsed[key] for key in ("dependencies", "requires-python") if key in parsed}
    return _checked(
        ServerProject(
            root=path.parent,
            file=path.name,
            attribute=attribute,
            is_single=True,
            text=block,
            project=project,
            tool=_table(parsed, "tool"),
            is_built=False,
        )
    )


def _checked(project: ServerProject) -> ServerProject:
    unknown = [key for key in project.options if key not in OPTIONS]
    if unknown:
        raise click.UsageError(f"tool.ferrule.bundle has no key {unknown[0]!r}; it has {', '.join(OPTIONS)}")
    for key in ("include", "not-secret"):
        if not is_list(project.options.get(key, [])):
            raise click.UsageError(f"tool.ferrule.bundle.{key} is a list of texts")
    return project


def _read_config(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        return read_pyproject(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except FormatError as error:
        raise click.UsageError(f"{where} is malformed: {error}") from error


def _table(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if is_mapping(found) else {}
