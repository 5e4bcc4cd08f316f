"""What an import costs, counted in modules: a number that does not depend on the machine or the hour."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ferrule

# Each must wait until something uses it: the import of one of these costs more than the whole library.
HEAVY = {
    "aiohttp", "asyncio", "attr", "attrs", "click", "cryptography", "docstring_parser", "email", "h11", "http",
    "httpcore", "httptools", "httpx", "joserfc", "jsonschema", "jsonschema_rs", "multiprocessing", "opentelemetry",
    "pydantic", "pydantic_core", "pyreqwest", "redis", "requests", "rich", "socket", "sqlite3", "ssl", "starlette",
    "toons", "trio", "urllib.request", "uvicorn", "uvloop",
}  # fmt: skip

MAX_MODULES = 120

_PROGRAM = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter loads for a statement, beyond those it starts with."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(statement=statement)], check=True, capture_output=True, text=True
    )
    return set(json.loads(done.stdout))


def heavy_among(modules: set[str]) -> set[str]:
    """Those of the modules that must not be loaded before they are used, by package."""
    return {name for name in HEAVY if any(module == name or module.startswith(f"{name}.") for module in modules)}


def test_import_ferrule_is_light() -> None:
    """Command lines and serverless functions pay for the import at every start."""
    modules = loaded_by("import ferrule")
    assert heavy_among(modules) == set()
    assert len(modules) <= MAX_MODULES


@pytest.mark.parametrize("name", sorted(set(ferrule.__all__) - {"__version__"}))
def test_a_root_name_loads_no_library_that_it_does_not_use_yet(name: str) -> None:
    """Naming the server class must not load what only the other transport or the other annotations need."""
    modules = loaded_by(f"from ferrule import {name}")
    assert heavy_among(modules) <= {"asyncio", "socket", "ssl", "email"}


def test_the_search_finds_a_heavy_import() -> None:
    """A rule that cannot fail guards nothing."""
    assert heavy_among(loaded_by("import ssl, click")) >= {"ssl", "click"}
