"""ferrule.cli.publishing.bundles: what is in a bundle, and what is refused before it is one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from ferrule.cli.exits import Quit
from ferrule.cli.loading import load_app
from ferrule.cli.publishing.bundles import Bundle, BundleOptions, make_bundle
from ferrule.cli.publishing.projects import read_project
from tests.cli.publishing.samples import PLAIN, PNG, PYPROJECT, SERVER, write

MAIN = "\n\nif __name__ == '__main__':\n    app.run({})\n"


def bundle_of(target: Path | str, **options: Any) -> Bundle:
    """Return the bundle of a file or a folder."""
    project = read_project(str(target))
    app = load_app(project.root / project.file, project.attribute)
    return make_bundle(project, app, BundleOptions(**{"author": "Ada", **options}))


def test_of_a_file_alone(tmp_path: Path) -> None:
    """The file, a project made of it, the version of Python, and the manifest."""
    made = bundle_of(write(tmp_path, {"server.py": SERVER}) / "server.py")
    assert set(made.files) == {"server.py", "pyproject.toml", ".python-version"}
    project = tomllib.loads(made.files["pyproject.toml"].decode())["project"]
    assert (project["name"], project["version"]) == ("weather", "1.2.0")
    assert made.manifest["server"]["entry_point"] == "server.py"
    assert made.file_name == "weather-1.2.0.mcpb"
    assert made.samples == {"units": "metric"}


def test_twice_the_same_bytes(tmp_path: Path) -> None:
    """From two folders, at two times: releases are compared by their digests."""
    one, other = (write(tmp_path / name, {"server.py": SERVER, "pyproject.toml": PYPROJECT}) for name in "ab")
    (other / "server.py").touch()
    assert bundle_of(one).archive() == bundle_of(other).archive()


def test_of_a_project(tmp_path: Path) -> None:
    """Its own pyproject.toml, version of Python, lock and icon."""
    files: dict[str, str | bytes] = {
        "pyproject.toml": PYPROJECT, "server.py": SERVER, ".python-version": "3.13\n", "uv.lock": "version = 1\n",
        "icon.png": PNG, "manifest.json": "{}",
    }  # fmt: skip
    made = bundle_of(write(tmp_path, files))
    assert set(made.files) == set(files) - {"manifest.json"}
    assert made.files["pyproject.toml"] == PYPROJECT.encode()
    assert made.files[".python-version"] == b"3.13\n"
    assert made.manifest["icon"] == "icon.png"
    assert made.notes == ("manifest.json of the project is not packed: a new one is made",)
    assert json.loads(json.dumps(made.manifest)) == made.manifest


@pytest.mark.parametrize(
    ("source", "target", "entry_point"),
    [
        (PLAIN + MAIN.format(""), "server.py", "server.py"),
        (PLAIN + MAIN.format("'stdio'"), "server.py", "server.py"),
        (PLAIN + MAIN.format("'http'"), "server.py", "start_server.py"),
        (PLAIN + MAIN.format("transport='http'"), "server.py", "start_server.py"),
        (PLAIN + MAIN.format("").replace("    app", "    import logging\n    app"), "server.py", "server.py"),
        (
            f"{PLAIN}\nif __name__ == '__main__':\n    import asyncio\n    asyncio.run(main())\n",
            "server.py",
            "start_server.py",
        ),
        (PLAIN, "server.py", "start_server.py"),
        (PLAIN + MAIN.format(""), "server.py:app", "start_server.py"),
        (
            f"# /// script\n# dependencies = ['ferrule']\n# ///\n{PLAIN}{MAIN.format('')}",
            "server.py",
            "start_server.py",
        ),
    ],
)
def test_the_file_that_starts_it(tmp_path: Path, source: str, target: str, entry_point: str) -> None:
    """The server's own where it serves over stdio when it is run; else one that `ferrule run` does."""
    made = bundle_of(write(tmp_path, {"server.py": source}) / target)
    assert made.manifest["server"]["entry_point"] == entry_point
    starter = made.files.get("start_server.py", b"").decode()
    assert (repr(target) in starter) == (entry_point == "start_server.py")


def test_a_module_of_a_package_is_not_run_by_itself(tmp_path: Path) -> None:
    """Its relative imports would fail."""
    files: dict[str, str | bytes] = {
        "pyproject.toml": PYPROJECT, "src/parcel_one/__init__.py": "", "src/parcel_one/names.py": "NAME = 'x'\n",
        "src/parcel_one/server.py": f"from .names import NAME\n{PLAIN}{MAIN.format('')}",
    }  # fmt: skip
    made = bundle_of(write(tmp_path, files) / "src/parcel_one/server.py")
    assert made.manifest["server"]["entry_point"] == "start_server.py"
    assert b"'src/parcel_one/server.py'" in made.files["start_server.py"]


def test_a_secret_is_refused_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two settings only the secret one is looked for."""
    monkeypatch.setenv("WEATHER_API_KEY", "pasted-key-1-of-ada")
    monkeypatch.setenv("WEATHER_UNITS", "forecast(city")
    write(tmp_path, {"server.py": f"{SERVER}\nTRIED = 'pasted-key-1-of-ada'\n", "a.pem": ""})
    with pytest.raises(Quit, match="variable WEATHER_API_KEY") as refused:
        bundle_of(tmp_path / "server.py", include=["*.pem"])
    assert "- a.pem: " in str(refused.value)
    assert "pasted-key-1-of-ada" not in str(refused.value)
    assert "WEATHER_UNITS" not in str(refused.value)
    bundle_of(tmp_path / "server.py", include=["*.pem"], not_secret=["*"])


def test_a_carried_wheel_is_the_source_of_its_package(tmp_path: Path) -> None:
    """For what is on no index. The rest of pyproject.toml stays as it is, and the lock does not fit any more."""
    sources = '\n[tool.uv.sources]\nferrule = { path = "../ferrule" }  # mine\nhttpx = { git = "https://x.example" }\n'
    wheel = write(tmp_path, {"ferrule-9.9-py3-none-any.whl": b"wheel"}) / "ferrule-9.9-py3-none-any.whl"
    files: dict[str, str | bytes] = {"pyproject.toml": PYPROJECT + sources, "server.py": SERVER, "uv.lock": ""}
    write(tmp_path / "p", files)
    with pytest.raises(Quit, match=r"takes ferrule from outside .* --with ferrule-….whl"):
        bundle_of(tmp_path / "p")
    made = bundle_of(tmp_path / "p", wheels=[wheel])
    assert made.files["wheels/ferrule-9.9-py3-none-any.whl"] == b"wheel"
    parsed = tomllib.loads(made.files["pyproject.toml"].decode())
    assert parsed["tool"]["uv"]["sources"] == {
        "ferrule": {"path": "wheels/ferrule-9.9-py3-none-any.whl"},
        "httpx": {"git": "https://x.example"},
    }
    assert parsed["project"] == tomllib.loads(PYPROJECT)["project"]
    assert "uv.lock" not in made.files
    assert "uv.lock is not packed" in made.notes[0]


def test_a_project_with_a_byte_order_mark_carries_wheels(tmp_path: Path) -> None:
    """Editors of Windows write one; the rest of the file is edited all the same."""
    wheel = write(tmp_path, {"rich-9.9-py3-none-any.whl": b"wheel"}) / "rich-9.9-py3-none-any.whl"
    write(tmp_path / "p", {"pyproject.toml": f"\ufeff{PYPROJECT}", "server.py": SERVER})
    made = bundle_of(tmp_path / "p", wheels=[wheel])
    parsed = tomllib.loads(made.files["pyproject.toml"].decode("utf-8-sig"))
    assert parsed["tool"]["uv"]["sources"] == {"rich": {"path": "wheels/rich-9.9-py3-none-any.whl"}}


@pytest.mark.parametrize(
    "sources",
    ["[tool.uv]\nsources = { ferrule = { path = 'x' } }\n", "[tool.uv.sources]\nferrule = [\n{ path = 'x' },\n]\n"],
)
def test_a_source_that_cannot_be_replaced_is_left_alone(tmp_path: Path, sources: str) -> None:
    """Better no bundle than one with another project."""
    wheel = write(tmp_path, {"ferrule-9.9-py3-none-any.whl": b""}) / "ferrule-9.9-py3-none-any.whl"
    write(tmp_path / "p", {"pyproject.toml": f"{PYPROJECT}\n{sources}", "server.py": SERVER})
    with pytest.raises(Quit, match=r"write .* as a table"):
        bundle_of(tmp_path / "p", wheels=[wheel])


def test_further_requirements(tmp_path: Path) -> None:
    """Of a file alone; a project lists its own."""
    made = bundle_of(write(tmp_path, {"one.py": PLAIN}) / "one.py", requirements=["rich>=13"])
    assert tomllib.loads(made.files["pyproject.toml"].decode())["project"]["dependencies"][-1] == "rich>=13"
    with pytest.raises(click.UsageError, match=r"pyproject\.toml"):
        bundle_of(write(tmp_path, {"pyproject.toml": PYPROJECT, "server.py": PLAIN}), requirements=["rich"])


def test_what_could_not_work_elsewhere_is_refused(tmp_path: Path) -> None:
    """Before anything is installed."""
    without = PYPROJECT.replace('"ferrule[auth]>=0.1", ', "")
    with pytest.raises(Quit, match="do not list ferrule"):
        bundle_of(write(tmp_path, {"pyproject.toml": without, "server.py": PLAIN}))
    later = PYPROJECT.replace(">=3.11", ">=3.99")
    with pytest.raises(Quit, match=r"needs Python 3\.99"):
        bundle_of(write(tmp_path, {"pyproject.toml": later}))
    own = f'{PYPROJECT}\n[tool.ferrule.bundle.manifest]\nsupport = "mailto:ada@example.com"\ncolour = "blue"\n'
    with pytest.raises(Quit, match=r"the manifest would be wrong:\n- manifest\.json: "):
        bundle_of(write(tmp_path, {"pyproject.toml": own}))
    wheel = write(tmp_path, {"dist/weather-9.9-py3-none-any.whl": b""}) / "dist/weather-9.9-py3-none-any.whl"
    with wheel.open("wb") as stream:
        stream.truncate(60_000_000)
    with pytest.raises(Quit, match=r"the largest is wheels/weather"):
        bundle_of(write(tmp_path, {"pyproject.toml": PYPROJECT}), wheels=[wheel])
    wheel.unlink()
    with pytest.raises(Quit, match="no icon"):
        bundle_of(tmp_path, icon="x.png")
    with pytest.raises(Quit, match=r"start_server\.py is the name"):
        bundle_of(write(tmp_path, {"pyproject.toml": PYPROJECT, "start_server.py": ""}))
