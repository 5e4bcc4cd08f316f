"""The programs "before" and "after" of the pages for those who come from other libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "snippets" / "coming_from"


def run(python: str, name: str, *arguments: str) -> list[str]:
    """What a program prints, line by line."""
    done = subprocess.run(
        [python, str(FOLDER / name), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "FASTMCP_SHOW_SERVER_BANNER": "false"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_after() -> None:
    """One body in both eras; in the modern era middleware runs for each round."""
    assert run(sys.executable, "after.py") == [
        "1100",
        "1100",
        "['order', 'parts_count', 'sizes']",
        "['M', 'S']",
        "['order', 'order', 'order', 'sizes']",
    ]


def test_a_fastapi_application_after() -> None:
    """The tool that its page promises."""
    pytest.importorskip("fastapi")
    assert run(sys.executable, "fastapi_after.py") == ["['get_item']", "{'id': 3}"]


def test_a_django_project_after() -> None:
    """The pages of the view are kept, and a wrong field is named."""
    pytest.importorskip("rest_framework")
    pytest.importorskip("drf_spectacular")
    names, listed, made, refused, count = run(sys.executable, "django_books.py", "with_ferrule")
    assert names == "['count_books', 'book_list', 'book_create']"
    assert '{"id":2,"title":"Faust","price":"9.00"}]}' in listed
    assert made == '{"id":4,"title":"Ulysses","price":"12.50"}'
    assert "`title`: the value is longer than 80 characters" in refused
    assert count == "4"


def test_specifications_of_a_django_project_after() -> None:
    """They are used as they are, and checked as those of the other package."""
    for package in ("rest_framework", "drf_spectacular", "rest_framework_services"):
        if find_spec(package) is None:  # importing the last one needs the settings of a project
            pytest.skip(f"{package} is not installed")
    names, listed, made, refused = run(sys.executable, "django_books.py", "with_ferrule_services")
    assert names == "['book_list', 'book_create']"
    assert '{"id":2,"title":"Faust","price":"9.00"}]}' in listed
    assert made == '{"id":4,"title":"Ulysses","price":"12.50"}'
    assert "`title`: the value is longer than 80 characters" in refused


def test_before_with_mcp_2(peer_python: str) -> None:
    """With the official package that scripts/test installs."""
    came = run(peer_python, "mcp2_before.py")
    assert came[:3] == ["1100", "['order', 'sizes']", "{'result': ['M', 'S']}"]
    assert "no back-channel" in came[3]


@pytest.mark.parametrize(
    ("variable", "name", "first"),
    [
        ("FERRULE_PEER_FASTMCP_PYTHON", "fastmcp_before.py", ["1100", "['order', 'parts_count', 'sizes']"]),
        ("FERRULE_PEER_MCP1_PYTHON", "mcp1_before.py", ["1100"]),
        ("FERRULE_PEER_FASTAPI_MCP_PYTHON", "fastapi_mcp_before.py", ["['get_item']", "['{', '\"id\":', '3', '}']"]),
    ],
)
def test_before_with_the_others(variable: str, name: str, first: list[str]) -> None:
    """Where the variable names an interpreter that has the package."""
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f"{variable} names no interpreter")
    assert run(python, name)[: len(first)] == first


@pytest.mark.parametrize(
    ("variable", "application", "names"),
    [
        (
            "FERRULE_PEER_DJANGO_MCP_PYTHON",
            "with_django_mcp_server",
            "['get_server_instructions', 'book_list', 'book_create', 'count_books']",
        ),
        ("FERRULE_PEER_DRF_MCP_PYTHON", "with_services", "['book_list', 'book_create']"),
    ],
)
def test_a_django_project_before(variable: str, application: str, names: str) -> None:
    """Where the variable names an interpreter that has the package, and ``mcp<2``."""
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f"{variable} names no interpreter")
    came = run(python, "django_books.py", application)
    assert came[0] == names
    assert "Emma" in came[1]
    assert "Nana" in came[1]


def test_after_from_openapi() -> None:
    """Only chosen operations are exposed, and a refusal has the API's message."""
    assert run(sys.executable, "openapi_after.py") == [
        "['order']",
        "{'number': 1, 'item': 'nut'}",
        "The API answered 404 Not Found",
        "no order 2",
    ]


def test_before_from_openapi() -> None:
    """With fastmcp, where an environment has it: that of a variable, or the one of the measurements."""
    cache = Path(os.environ.get("FERRULE_CACHE", FOLDER.parents[2] / ".cache"))
    python = os.environ.get("FERRULE_PEER_FASTMCP_PYTHON") or str(cache / "peer-fastmcp" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip("fastmcp is not installed: FERRULE_PEER_FASTMCP_PYTHON, or scripts/bench")
    assert run(python, "fastmcp_openapi_before.py")[:2] == ["['order']", "{'number': 1, 'item': 'nut'}"]
