"""The import of a copied test: the server's variable, found by parsing its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.client.targets import HttpTarget
from ferrule.inspector.target import InspectedTarget, import_of

HEAD = "from ferrule import MCPServer\n"


@pytest.mark.parametrize(
    ("text", "attribute", "expected"),
    [
        ("app = MCPServer('a')", None, ("server", "app")),
        ("press = MCPServer('a')", None, ("server", "press")),
        ("a = MCPServer('a')\nmcp = MCPServer('b')", None, ("server", "mcp")),
        ("a = MCPServer('a')\nb = MCPServer('b')", None, None),
        ("a = MCPServer('a')\nb = MCPServer('b')", "b", ("server", "b")),
        ("def make():\n    return MCPServer('a')\n", None, None),
        ("import ferrule\nit = ferrule.MCPServer('a')", None, ("server", "it")),
        ("a = (", None, None),
        ("print(1 / 0)\napp = MCPServer('a')", None, ("server", "app")),
    ],
    ids=range(9),
)
def test_the_name_is_found_without_running_the_file(
    tmp_path: Path, text: str, attribute: str | None, expected: tuple[str, str] | None
) -> None:
    """By the same order of names as the command line has."""
    path = tmp_path / "server.py"
    path.write_text(HEAD + text)
    target = InspectedTarget("server.py", HttpTarget("http://x"), file=path, attribute=attribute)
    assert import_of(target) == expected


def test_a_file_that_cannot_be_imported_is_started(tmp_path: Path) -> None:
    """Inside a package, under a name that is none, or no file at all."""
    for name in ("my-server.py", "pkg/server.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + "app = MCPServer('a')")
    (tmp_path / "pkg" / "__init__.py").touch()
    for file in (tmp_path / "my-server.py", tmp_path / "pkg" / "server.py", tmp_path / "gone.py", None):
        assert import_of(InspectedTarget("x", HttpTarget("http://x"), file=file)) is None
