"""ferrule.cli.publishing.packing: which files a bundle has, and which never."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ferrule.cli.exits import Quit
from ferrule.cli.publishing import packing
from ferrule.cli.publishing.packing import choose_files
from ferrule.cli.publishing.projects import read_project
from tests.cli.publishing.samples import PLAIN, PYPROJECT, add_to_git, write

BESIDE: dict[str, str | bytes] = {
    ".env": "A=1", ".env.local": "", ".gitignore": "", ".github/workflows/ci.yml": "", ".venv/pyvenv.cfg": "",
    "env2/pyvenv.cfg": "", "env2/lib/x.py": "", "__pycache__/server.cpython-311.pyc": b"", "node_modules/x/x.js": "",
    "tests/test_it.py": "", "docs/index.md": "", "old-1.0.0.mcpb": b"", "debug.log": "", "x.egg-info/PKG-INFO": "",
}  # fmt: skip
FLAT: dict[str, str | bytes] = {
    "pyproject.toml": PYPROJECT, "server.py": PLAIN, "helper.py": "", "data/cities.csv": "", "README.md": "",
    "uv.lock": "", ".python-version": "3.12", "LICENSE": "",
}  # fmt: skip
PACKAGE: dict[str, str | bytes] = {
    "pyproject.toml": PYPROJECT, "src/weather_mcp/__init__.py": "", "src/weather_mcp/server.py": PLAIN,
    "src/weather_mcp/cities.csv": "", "README.md": "", "uv.lock": "", "setup.py": "",
}  # fmt: skip


@pytest.mark.parametrize("files", [FLAT, PACKAGE], ids=["flat", "package"])
@pytest.mark.parametrize("is_tracked", [True, False], ids=["git", "no git"])
def test_the_sources_and_nothing_beside_them(tmp_path: Path, files: dict[str, str | bytes], is_tracked: bool) -> None:
    """The same choice, whether git knows the files or not; also where git tracks what never leaves the machine."""
    write(tmp_path, {**files, **BESIDE})
    if is_tracked:
        if shutil.which("git") is None:
            pytest.skip("no git")
        add_to_git(tmp_path, *files, *BESIDE)
    assert set(choose_files(read_project(str(tmp_path)))) == set(files)


def test_of_a_package_only_the_package(tmp_path: Path) -> None:
    """As a wheel: notebooks and data beside it are the author's own. ``include`` adds some."""
    write(tmp_path, {**PACKAGE, "notes/plan.md": "", "data/a.csv": "", "data/b.csv": "", "data/c.txt": ""})
    project = read_project(str(tmp_path))
    assert set(choose_files(project)) == set(PACKAGE)
    assert set(choose_files(project, ["data/*.csv", "notes/plan.md"])) - set(PACKAGE) == {
        "data/a.csv", "data/b.csv", "notes/plan.md",
    }  # fmt: skip


def test_packages_that_hatch_names(tmp_path: Path) -> None:
    """The build's own choice counts."""
    text = f'{PYPROJECT}[tool.hatch.build.targets.wheel]\npackages = ["lib/weather"]\n'
    files: dict[str, str | bytes] = {"pyproject.toml": text, "lib/weather/__init__.py": "", "lib/weather/x.py": PLAIN}
    write(tmp_path, {**files, "lib/other/y.py": "", "src/z.py": ""})
    assert set(choose_files(read_project(str(tmp_path / "lib/weather/x.py")))) == set(files)


def test_what_git_does_not_track_is_not_packed(tmp_path: Path) -> None:
    """It is not part of the project yet, and may be private; but the server itself must be."""
    if shutil.which("git") is None:
        pytest.skip("no git")
    write(tmp_path, {**FLAT, "private.csv": "", "gone.py": ""})
    add_to_git(tmp_path, *FLAT, "gone.py")
    (tmp_path / "gone.py").unlink()
    assert set(choose_files(read_project(str(tmp_path)))) == set(FLAT)
    write(tmp_path, {"other.py": PLAIN})
    with pytest.raises(Quit, match=r"git add other\.py"):
        choose_files(read_project(str(tmp_path / "other.py")))
    add_to_git(tmp_path, "other.py")
    subprocess.run(["git", "-C", str(tmp_path), "rm", "-q", "--cached", "pyproject.toml"], check=True)
    with pytest.raises(Quit, match=r"git add pyproject\.toml"):
        choose_files(read_project(str(tmp_path / "other.py")))


def test_a_file_alone(tmp_path: Path) -> None:
    """Nothing of its folder, unless it is named."""
    write(tmp_path, {"weather.py": PLAIN, "holiday.jpg": b"", "data/x.csv": "", ".env": ""})
    project = read_project(str(tmp_path / "weather.py"))
    assert list(choose_files(project)) == ["weather.py"]
    assert list(choose_files(project, ["data/**/*"])) == ["data/x.csv", "weather.py"]
    for pattern in (".env", "nothing/*", "../*", "/etc/passwd"):
        with pytest.raises(Quit):
            choose_files(project, [pattern])


def test_links(tmp_path: Path) -> None:
    """A link inside of the project is packed as what it leads to; one to a place outside is refused."""
    write(tmp_path, {"p/pyproject.toml": PYPROJECT, "p/server.py": PLAIN, "p/a.txt": "a", "secret.txt": "s"})
    try:
        (tmp_path / "p" / "b.txt").symlink_to("a.txt")
    except OSError:
        pytest.skip("no links here")
    project = read_project(str(tmp_path / "p"))
    assert choose_files(project)["b.txt"].read_text() == "a"
    (tmp_path / "p" / "c.txt").symlink_to("../secret.txt")
    with pytest.raises(Quit, match=r"c\.txt is a link"):
        choose_files(project)


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's weights in a folder of data are found before they are read."""
    project = read_project(str(write(tmp_path, {**FLAT, "big.bin": b"\0" * 5000})))
    monkeypatch.setattr(packing, "MAX_BYTES", 4000)
    with pytest.raises(Quit, match=r"the largest is big\.bin"):
        choose_files(project)
    monkeypatch.setattr(packing, "MAX_FILES", 3)
    with pytest.raises(Quit, match="too many"):
        choose_files(project)


def test_names_that_other_systems_do_not_have(tmp_path: Path) -> None:
    """One bundle is for all systems."""
    packing._check_names(["a.py", "b/a.py"])  # pyright: ignore[reportPrivateUsage]
    for names in (["a:b.py"], ["b/a. "], ["A.py", "a.py"]):
        with pytest.raises(Quit):
            packing._check_names(names)  # pyright: ignore[reportPrivateUsage]
