"""ferrule.cli.projects: what pyproject.toml says of a package."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.cli.projects import project_of
from tests.cli.publishing.support import PYPROJECT, made_project


def test_the_nearest_project_is_read(tmp_path: Path) -> None:
    """From a folder inside of it, too."""
    made_project(tmp_path)
    inner = tmp_path / "src" / "weather"
    inner.mkdir(parents=True)
    (inner / "server.py").write_text("")
    found = project_of(inner / "server.py")
    assert found is not None
    assert (found.name, found.version, found.scripts) == ("weather-mcp", "1.2.0", ("weather-mcp",))
    assert (found.folder, found.readme) == (tmp_path, tmp_path / "README.md")
    assert (found.homepage, found.repository) == ("https://weather.example.com", "https://github.com/me/weather")
    assert found.command == ["uvx", "weather-mcp"]


@pytest.mark.parametrize(
    ("scripts", "command"),
    [("", ["uvx", "weather-mcp"]), ('weather = "s:m"', ["uvx", "--from", "weather-mcp", "weather"])],
)
def test_the_command_of_a_published_package(tmp_path: Path, scripts: str, command: list[str]) -> None:
    text = PYPROJECT.replace('weather-mcp = "server:main"', scripts)
    found = project_of(made_project(tmp_path, pyproject=text))
    assert found is not None
    assert found.command == command


def test_a_folder_with_settings_of_tools_is_no_project(tmp_path: Path) -> None:
    assert project_of(made_project(tmp_path, pyproject="[tool.ruff]\n")) is None


@pytest.mark.parametrize("text", ["not toml", "a = " + "[" * 5000], ids=["text", "deep"])
def test_a_malformed_project_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"pyproject\.toml"):
        project_of(made_project(tmp_path, pyproject=text))


def test_a_byte_order_mark_is_no_part_of_a_project(tmp_path: Path) -> None:
    """Editors of Windows write one."""
    found = project_of(made_project(tmp_path, pyproject=f"\ufeff{PYPROJECT}"))
    assert found is not None
    assert found.name == "weather-mcp"


def test_a_readme_in_a_table_and_a_computed_version(tmp_path: Path) -> None:
    text = (
        '[project]\nname = "x"\ndynamic = ["version"]\nreadme = {file = "docs/R.md", content-type = "text/markdown"}\n'
    )
    found = project_of(made_project(tmp_path, pyproject=text))
    assert found is not None
    assert (found.version, found.readme) == (None, tmp_path / "docs" / "R.md")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("name = 1", "project.name is not text"),
        ("version = 2", "project.version is not text"),
        ("urls = 3", "project.urls is not a table"),
        ("urls = {a = 1}", "project.urls has a value that is not text"),
        ("scripts = 'x'", "project.scripts is not a table"),
        ("readme = ['a']", "project.readme is not text or a table"),
        ("dependencies = 3", "project.dependencies is not a list"),
        ("dependencies = [3]", "project.dependencies has a value that is not text"),
    ],
)
def test_a_key_of_another_type_is_named(tmp_path: Path, table: str, said: str) -> None:
    """As any tool refuses it that follows PEP 621."""
    name = "" if table.startswith("name") else 'name = "x"\n'
    with pytest.raises(ValueError, match=said):
        project_of(made_project(tmp_path, pyproject=f"[project]\n{name}{table}\n"))


@pytest.mark.parametrize(
    ("content", "said"), [(b"\xff", "utf-8"), (b"#" * 1_100_000, "more than"), (b"a = '\x00'", r"pyproject\.toml")]
)
def test_a_project_that_is_no_text_or_huge_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    """Not read whole, and no traceback."""
    path = made_project(tmp_path)
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        project_of(path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "x", "1.0", "https://x.example", "README.md"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["file", "home"]), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["name", "version", "urls", "scripts", "readme", "description"]), VALUES))
def test_any_table_is_a_project_or_is_refused(table: dict[str, Any]) -> None:
    """Whatever its keys hold, no other exception comes out."""
    with TemporaryDirectory() as folder:
        path = made_project(Path(folder), pyproject=f"project = {written(table)}\n")
        try:
            found = project_of(path)
        except ValueError:
            return
        assert found is None or isinstance(found.name, str)


def written(value: Any) -> str:
    """TOML of a value; TOML has no null."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {written(part)}" for key, part in value.items() if part is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(part) for part in value if part is not None) + "]"
    return json.dumps(value)
