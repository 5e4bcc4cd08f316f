"""ferrule.cli.publishing.projects: which project a server belongs to."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click
import pytest

from ferrule import __version__
from ferrule.cli.publishing.projects import generated_pyproject, project_name, read_project
from tests.cli.publishing.samples import PLAIN, PYPROJECT, write

BLOCK = """\
# /// script
# requires-python = ">=3.12"
# dependencies = [
#   "ferrule[auth]",
#   "rich",
# ]
# [tool.uv.sources]
# rich = { git = "https://git.example.com/rich" }
# ///
"""


def test_a_file_belongs_to_the_nearest_project(tmp_path: Path) -> None:
    """A project inside of a repository has its own."""
    write(tmp_path, {"pyproject.toml": PYPROJECT, "inner/src/x/server.py": PLAIN, "inner/pyproject.toml": PYPROJECT})
    project = read_project(f"{tmp_path}/inner/src/x/server.py:app")
    assert (project.root, project.file) == ((tmp_path / "inner").resolve(), "src/x/server.py")
    assert (project.attribute, project.is_single, project.is_built) == ("app", False, False)


def test_a_file_without_project_is_alone(tmp_path: Path) -> None:
    """A pyproject.toml that configures tools only, or that lies outside of the repository, is no project."""
    write(tmp_path, {"pyproject.toml": PYPROJECT, "a/pyproject.toml": "[tool.ruff]\n", "a/weather.py": PLAIN})
    (tmp_path / "a" / ".git").mkdir()
    project = read_project(str(tmp_path / "a" / "weather.py"))
    assert project.is_single
    assert project_name(project, "Plain Server") == "weather"
    made = tomllib.loads(generated_pyproject(project, name="n", version="1.0.0", description='say "hi"', extra=["x>1"]))
    assert made["project"]["dependencies"] == [f"ferrule>={__version__}", "x>1"]
    assert made["project"]["description"] == 'say "hi"'


def test_the_block_of_a_script_is_its_project(tmp_path: Path) -> None:
    """As for `uv run`, even inside of a project."""
    write(tmp_path, {"pyproject.toml": PYPROJECT, "server.py": f"#!/usr/bin/env python\n{BLOCK}\n{PLAIN}"})
    project = read_project(str(tmp_path / "server.py"))
    assert project.is_single
    assert project_name(project, "Plain Server") == "plain-server"
    made = tomllib.loads(generated_pyproject(project, name="n", version="1.0.0", description="d", extra=[]))
    assert made["project"]["dependencies"] == ["ferrule[auth]", "rich"]
    assert made["project"]["requires-python"] == ">=3.12"
    assert made["tool"]["uv"]["sources"]["rich"]["git"] == "https://git.example.com/rich"
    with pytest.raises(click.UsageError, match="add it to that list"):
        generated_pyproject(project, name="n", version="1", description="d", extra=["x"])


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"server.py": PLAIN}, "server.py"),
        ({"src/weather_mcp/server.py": PLAIN}, "src/weather_mcp/server.py"),
        ({"weather_mcp/main.py": PLAIN}, "weather_mcp/main.py"),
    ],
)
def test_a_folder_has_its_server_in_a_usual_place(tmp_path: Path, files: dict[str, str | bytes], found: str) -> None:
    """``ferrule bundle .`` is what people try first."""
    assert read_project(str(write(tmp_path, {"pyproject.toml": PYPROJECT, **files}))).file == found


def test_a_folder_names_its_server(tmp_path: Path) -> None:
    """Where it is in no usual place."""
    text = f'{PYPROJECT}\n[tool.ferrule.bundle]\nserver = "lib/x.py:make"\n'
    project = read_project(str(write(tmp_path, {"pyproject.toml": text, "lib/x.py": PLAIN, "server.py": PLAIN})))
    assert (project.file, project.attribute) == ("lib/x.py", "make")


@pytest.mark.parametrize(
    ("files", "target", "said"),
    [
        ({}, "server.py", "no file or folder"),
        ({}, ".", "no pyproject.toml"),
        ({"pyproject.toml": PYPROJECT}, ".", "name the file of the server"),
        ({"server.js": ""}, "server.js", "not a Python file"),
        ({"pyproject.toml": "[project\n", "server.py": PLAIN}, "server.py", r"pyproject\.toml: .*declaration"),
        ({"pyproject.toml": b"\xff", "server.py": PLAIN}, "server.py", r"pyproject\.toml: 'utf-8'"),
        ({"pyproject.toml": b"#" * 1_100_000, "server.py": PLAIN}, ".", "more than 1048576 bytes"),
        ({"pyproject.toml": "[project]\nname = 1\n", "server.py": PLAIN}, "server.py", "project.name is not text"),
        ({"server.py": "# /// script\n# dependencies = 1 2\n# ///\n"}, "server.py", "malformed"),
        ({"pyproject.toml": f"{PYPROJECT}[tool.ferrule.bundle]\nincludes = []\n", "server.py": ""}, ".", "'includes'"),
        ({"pyproject.toml": f"{PYPROJECT}[tool.ferrule.bundle]\ninclude = 'x'\n", "server.py": ""}, ".", "is a list"),
        ({"pyproject.toml": f"{PYPROJECT}[tool.ferrule.bundle]\nserver = 'x.py'\n"}, ".", "no such file"),
    ],
)
def test_wrong_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str | bytes], target: str, said: str
) -> None:
    """Each with what to do about it."""
    monkeypatch.chdir(write(tmp_path, files))
    with pytest.raises(click.UsageError, match=said):
        read_project(target)
