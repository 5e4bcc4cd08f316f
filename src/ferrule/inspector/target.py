"""The inspected server: the target that the command line named, and the credentials for it."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.client.targets import HttpTarget, StdioTarget

__all__ = ["InspectedTarget", "import_of"]

_USUAL_NAMES = ("app", "mcp", "server")
_MAKERS = frozenset({"MCPServer", "Server"})


@dataclass(frozen=True, slots=True)
class InspectedTarget:
    """A server and its credentials.

    Attributes:
        text: as typed on the command line; shown, and used in generated commands.
        target: a URL or a process.
        file: the Python file that defines a Ferrule server; ``None`` for other servers.
        attribute: name of the server's variable in that file; ``None``: ``app``, ``mcp`` or ``server``.
        headers: sent with each request to a URL.
        token: bearer token for a URL.
        oauth: sign in with OAuth where the server requires it.
        token_storage: keeps the tokens of a sign-in; ``None``: in memory.
    """

    text: str
    target: HttpTarget | StdioTarget
    file: Path | None = None
    attribute: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str | None = None
    oauth: bool = False
    token_storage: Any = None

    @property
    def is_http(self) -> bool:
        """Whether it is a URL."""
        return self._http is not None

    @property
    def url(self) -> str:
        """The endpoint; empty for a process."""
        return "" if self._http is None else self._http.url

    @property
    def _http(self) -> HttpTarget | None:
        from ferrule.client.targets import HttpTarget

        return self.target if isinstance(self.target, HttpTarget) else None

    def with_stderr(self, on_stderr: Callable[[str], object]) -> HttpTarget | StdioTarget:
        """Return the target with ``on_stderr`` as receiver of the lines that the process writes to stderr."""
        target: Any = self.target
        if self.is_http:
            return self.target
        return cast("StdioTarget", replace(target, server=replace(target.server, stderr=on_stderr)))


def import_of(target: InspectedTarget) -> tuple[str, str] | None:
    """Return module and variable from which a test can import the server, or ``None`` if it has to start a process.

    The file is parsed, not imported: its code runs in the server's process only.
    """
    path = target.file
    if path is None or not path.stem.isidentifier() or (path.parent / "__init__.py").exists():
        return None
    name = target.attribute or _server_name(path)
    return (path.stem, name) if name is not None and name.isidentifier() else None


def _server_name(path: Path) -> str | None:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    found = [
        name.id
        for statement in tree.body
        if isinstance(statement, ast.Assign) and _makes_server(statement.value)
        for name in statement.targets
        if isinstance(name, ast.Name)
    ]
    for name in _USUAL_NAMES:
        if name in found:
            return name
    return found[0] if len(found) == 1 else None


def _makes_server(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return name in _MAKERS


def shown_path(path: Path) -> str:
    """Return the path relative to the current directory if it is inside, else as it is."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return str(path) if relative.startswith("..") else relative
