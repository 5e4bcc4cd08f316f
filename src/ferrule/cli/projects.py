"""The project that a server's file belongs to: what ``pyproject.toml`` says of its package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ferrule.cli.hosts.toml_text import parse as parse_toml
from ferrule.wire.json_types import is_mapping, is_object
from ferrule.wire.struct import Value

__all__ = ["SOURCE_LABELS", "Project", "project_of", "read_bounded", "read_pyproject", "url_of"]

_MAX_BYTES: Final = 1 << 20
_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    "name": (str, "text"),
    "version": (str, "text"),
    "description": (str, "text"),
    "requires-python": (str, "text"),
    "readme": ((str, dict), "text or a table"),
    "urls": (dict, "a table"),
    "scripts": (dict, "a table"),
    "dependencies": (list, "a list"),
}
"""The types of keys of ``[project]`` that are read here (PEP 621)."""

_HOME = ("homepage", "home", "documentation", "docs")
SOURCE_LABELS = ("repository", "source", "sourcecode", "github", "code")
"""Labels of the URL of the sources in ``[project.urls]``."""


class Project(Value, frozen=True, kw_only=True):
    """A project with a package.

    Attributes:
        folder: the folder of ``pyproject.toml``.
        name: the name of the package.
        version: its version; ``None`` where a build computes it.
        description: a sentence; empty without one.
        scripts: the names of its commands.
        readme: the file with the long description; ``None`` without.
        homepage: the URL of its page; ``None`` without.
        repository: the URL of its source; ``None`` without.
    """

    folder: Path
    name: str
    version: str | None
    description: str
    scripts: tuple[str, ...]
    readme: Path | None
    homepage: str | None
    repository: str | None

    @property
    def command(self) -> list[str]:
        """The command that runs the published package with ``uvx``."""
        if not self.scripts or self.name in self.scripts:
            return ["uvx", self.name]
        return ["uvx", "--from", self.name, self.scripts[0]]


def project_of(file: Path) -> Project | None:
    """Return the project that a file belongs to: of the nearest ``pyproject.toml``; ``None`` without a name in it.

    Raises:
        ValueError: ``pyproject.toml`` is malformed; see `read_pyproject`.
        OSError: it cannot be read.
    """
    for folder in file.resolve().parents:
        path = folder / "pyproject.toml"
        if path.is_file():
            table: Any = read_pyproject(path)[1].get("project")
            return _read(folder, table) if is_object(table) and table.get("name") else None
    return None


def read_pyproject(path: Path) -> tuple[str, dict[str, Any]]:
    """Return text and content of a ``pyproject.toml``.

    Raises:
        ValueError: it is larger than 1 MiB, not UTF-8, no TOML, or a key of ``[project]`` has a value of another type.
        OSError: it cannot be read.
    """
    try:
        text = read_bounded(path).decode()
        document = parse_toml(text)
        table = document.get("project")
        if is_mapping(table):
            _check_types(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return text, document


def read_bounded(path: Path) -> bytes:
    """Return the content of a file of a project.

    Raises:
        ValueError: it is larger than 1 MiB.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES} bytes")
    return data


def _check_types(table: Mapping[str, Any]) -> None:
    for key, (kind, called) in _TYPES.items():
        value = table.get(key)
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"project.{key} is not {called}")
    for key in ("urls", "scripts"):
        if not all(isinstance(value, str) for value in table.get(key, {}).values()):
            raise ValueError(f"project.{key} has a value that is not text")
    if not all(isinstance(value, str) for value in table.get("dependencies", ())):
        raise ValueError("project.dependencies has a value that is not text")


def _read(folder: Path, table: dict[str, Any]) -> Project:
    urls: Any = table.get("urls") or {}
    scripts: Any = table.get("scripts") or {}
    readme: Any = table.get("readme")
    name = readme.get("file") if is_mapping(readme) else readme
    return Project(
        folder=folder,
        name=str(table["name"]),
        version=None if table.get("version") is None else str(table["version"]),
        description=str(table.get("description") or ""),
        scripts=tuple(scripts),
        readme=folder / str(name) if name else None,
        homepage=url_of(urls, _HOME),
        repository=url_of(urls, SOURCE_LABELS),
    )


def url_of(urls: Mapping[str, Any], labels: tuple[str, ...]) -> str | None:
    """Return the first URL with one of the well-known labels, which are compared without case and punctuation."""
    named = {re.sub(r"[^a-z]", "", label.lower()): str(url) for label, url in urls.items()}
    return next((named[label] for label in labels if label in named), None)
