"""The names of ``mcp`` 1.x: where they exist, and what a missing one says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.tests.support import SOURCES
from ferrule_compat.names import MODULES


def said(program: str, *, path: str = SOURCES) -> str:
    """What a program prints, or the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def test_all_names_of_the_table_are_there() -> None:
    """Each is what its module offers, and `import *` takes them."""
    program = (
        "from ferrule_compat.names import MODULES, install; install(); from importlib import import_module\n"
        "for module, names in MODULES.items():\n"
        "    made = import_module(module)\n"
        "    [getattr(made, name) for name in [*names, *dir(made)] if name != '*']\n"
        "exec('from mcp.types import *'); print(len(MODULES), Tool.__name__, ListToolsRequest().method)"
    )
    assert said(program) == f"{len(MODULES)} Tool tools/list"


def test_they_exist_only_after_they_were_installed() -> None:
    """A program that only imports the package sees what is installed, or nothing."""
    assert "No module named 'mcp'" in said("import ferrule_compat.fastmcp, mcp")


def test_they_hide_an_installed_package(tmp_path: Path) -> None:
    """In the environment of a server there is some `mcp`; it must not be taken, nor its other modules."""
    package = tmp_path / "mcp"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the wrong one')")
    path = os.pathsep.join([str(tmp_path), SOURCES])
    program = "from ferrule_compat.names import install; install(); from mcp.server.fastmcp import FastMCP; print('ok')"
    assert said(program, path=path) == "ok"


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("import mcp.server.auth.provider", "the module 'mcp.server.auth"),
        ("from mcp.server import auth", "the module 'mcp.server.auth'"),
        ("from mcp.types import Nothing", "'Nothing' of 'mcp.types'"),
        ("from mcp.server.stdio import Nothing", "'Nothing' of 'mcp.server.stdio'"),
        ("import mcp.types; mcp.types.Nothing", "'Nothing' of 'mcp.types'"),
        ("from mcp import ClientSession; ClientSession(1, 2)", "the use of ClientSession"),
    ],
)
def test_what_is_missing_is_named(statement: str, what: str) -> None:
    """A user can copy the line into a report."""
    line = said(f"from ferrule_compat.names import install; install(); {statement}")
    assert f"ferrule-compat does not offer {what}" in line
    assert "report this line" in line


def test_servers_can_ask_whether_a_name_exists() -> None:
    """`hasattr`, and `except ImportError` around an import."""
    program = (
        "from ferrule_compat.names import install; install(); import mcp.types\n"
        "try:\n    from mcp.types import Nothing\nexcept ImportError:\n    found = 'none'\n"
        "print(hasattr(mcp.types, 'Nothing'), getattr(mcp.types, 'Tool', None) is not None, found)"
    )
    assert said(program) == "False True none"


@pytest.mark.parametrize("module", ["pydantic", "starlette", "uvicorn", "aiohttp", "jsonschema_rs", "click"])
def test_a_server_loads_only_what_it_uses(module: str) -> None:
    """That is most of what a server of the old SDK saves in memory and start."""
    program = (
        "from ferrule_compat.names import install; install(); import sys\n"
        "from mcp.server.fastmcp import FastMCP, Context\nfrom mcp.types import Tool\n"
        "app = FastMCP('x')\n@app.tool()\ndef add(a: int, ctx: Context) -> int: return a\n"
        f"app._mcp_server.application(); print({module!r} in sys.modules)"
    )
    assert said(program) == "False"
